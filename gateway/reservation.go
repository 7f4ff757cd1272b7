package gateway

import (
	"slices"
	"strconv"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// booking is what a request has reserved with the limits.
type booking struct {
	id    string // empty when nothing is booked
	times int    // deployments that were tried
}

// reserve books with the limits of key, tenant and deployment what the request may
// come to, or says which of them does not let it pass. A request without limits
// pays nothing for them.
func (x *exchange) reserve() *problem {
	x.unreserve()
	x.request.cap = 0
	if x.booking.times > 0 {
		noStanding(x.w.Header()) // of another deployment
	}
	d := &x.route.Deployment
	if x.key.Limits.None() && x.key.TenantLimits.None() && d.Limits.None() {
		return nil
	}
	claims, p := x.claims()
	if p != nil {
		return p
	}
	id := x.id
	if x.booking.times++; x.booking.times > 1 {
		id += "/" + strconv.Itoa(x.booking.times)
	}
	s, err := x.g.Limits.Reserve(x.r.Context(), id, x.g.limitClock(), claims)
	if err != nil {
		return storeProblem(err)
	}
	s.headers(x.w.Header())
	if s.Refused != nil {
		return x.keptOut(x.g.refusal(s.Refused), &s.Refused.Claim)
	}
	x.booking.id = id
	x.capOutput(s.Held)
	return nil
}

// unreserve gives back everything that is booked, as if the request had not come.
func (x *exchange) unreserve() {
	if x.booking.id != "" {
		x.g.Limits.Release(x.booking.id, x.g.limitClock())
		x.booking.id = ""
	}
}

// settleLimits replaces what was booked by what the request's row in the ledger
// says; at is where that row is.
func (x *exchange) settleLimits(u *factory.Usage, at place) {
	used := Used{
		KeyID: u.KeyID, TenantID: u.TenantID, DeploymentID: u.DeploymentID, Began: u.StartedAt, Rates: x.route.rates, at: at,
		Tokens: factory.Tokens{Requests: 1, PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens},
	}
	s := x.g.Limits.Settle(x.booking.id, x.g.limitClock(), &used)
	x.booking.id = ""
	if !x.started {
		s.headers(x.w.Header())
	}
}

// limitKinds is how many limits one holder may have.
const limitKinds = 6

// claims is what the request asks of every limit that holds for it.
func (x *exchange) claims() ([]Claim, *problem) {
	d := &x.route.Deployment
	holders := [...]struct {
		scope  factory.Scope
		id     string
		limits *factory.Limits
	}{
		{factory.ScopeKey, x.key.ID, &x.key.Limits},
		{factory.ScopeTenant, x.key.TenantID, &x.key.TenantLimits},
		{factory.ScopeDeployment, d.ID, &d.Limits},
	}
	most := 0
	for _, of := range holders {
		if !of.limits.None() {
			most += limitKinds
		}
	}
	claims := make([]Claim, 0, most)
	var need need
	for _, of := range holders {
		if of.limits.None() {
			continue
		}
		from := len(claims)
		claims = limitsOf(claims, of.scope, of.id, of.limits)
		for i := from; i < len(claims); i++ {
			c := &claims[i]
			if c.Amount, c.Least = 1, 1; c.Kind != factory.LimitRequests && c.Kind != factory.LimitConcurrency {
				if p := x.measure(&need); p != nil {
					return nil, p
				}
				need.tokens(c)
			}
		}
		// What counts nothing is not kept out by a full window.
		claims = slices.DeleteFunc(claims, func(c Claim) bool { return c.Money == nil && c.Amount == 0 })
		money := budgetOf(of.limits, x.beganAt)
		if money == nil || d.Price != nil && d.Price.Free {
			continue
		}
		if x.route.rates == nil {
			return nil, unavailable("The price of this model cannot be read. Tell an operator.")
		}
		c := Claim{Scope: of.scope, ID: of.id, Kind: factory.LimitBudget, Money: money}
		if money.Currency != x.route.rates.Currency {
			return nil, x.keptOut(wrongCurrency(&c, x.route.rates.Currency), &c)
		}
		if p := x.measure(&need); p != nil {
			return nil, p
		}
		if need.money(money, x.route.rates); !money.Cost.IsZero() {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// need is what a request may come to at one deployment.
type need struct {
	known  bool
	bound  *bound
	prompt int64 // likely
	// output is the most that is produced; exact says that the request bounds it.
	output int64
	exact  bool
	total  int64 // of both, as far as the model goes
	// promptMost is for money, which must not run over: more than the prompt can come to.
	promptMost int64
}

func (x *exchange) measure(n *need) *problem {
	if n.known {
		return nil
	}
	n.known, n.bound = true, x.weigh()
	b := n.bound
	if b.twice != "" {
		return twice(b.twice)
	}
	context := contextLength(&x.route.Deployment)
	n.prompt = b.estimate
	if context > 0 {
		n.prompt = min(n.prompt, context*b.items)
	}
	// The prompt is a guess that may be far too high: what it leaves room for is no bound.
	n.output, n.exact = b.outputTokens(context, 0)
	n.total = n.prompt + n.output
	if context > 0 {
		n.total = min(n.total, context*max(b.items, b.answers))
	}
	n.promptMost = b.promptMost(context)
	return nil
}

// weigh reads what the request says about how much it consumes, while its body is there.
func (x *exchange) weigh() *bound {
	b := &x.request.bound
	if engine := x.route.Deployment.Engine; !b.read || b.engine != engine {
		*b = readBound(x.request.body, endpoints[x.endpoint].name, engine)
	}
	return b
}

func contextLength(d *factory.Deployment) int64 {
	if d.ContextLength > 0 {
		return int64(d.ContextLength)
	}
	return int64(d.LLM.ContextLength)
}

// tokens is what to book with a limit of tokens. Only what the request itself says
// can make it one that never fits: the length of its prompt is a guess.
func (n *need) tokens(c *Claim) {
	amount, least, sure := n.total, n.prompt+min(n.output, 1), n.output+1 // no prompt has fewer than one
	switch c.Kind {
	case factory.LimitInputTokens:
		amount, least, sure = n.prompt, n.prompt, 0
	case factory.LimitOutputTokens:
		amount, least, sure = n.output, min(n.output, 1), n.output
	}
	if n.exact && sure > c.Limit {
		c.Amount, c.Least = amount, amount
		return
	}
	c.Amount = min(amount, c.Limit)
	c.Least = c.Amount
	if !n.exact {
		c.Least = min(c.Amount, least)
	}
}

// money is what to hold of a budget.
func (n *need) money(m *Money, r *billing.CashRates) {
	m.Cost = r.Most(n.promptMost, n.output)
	m.Least = m.Cost
	if !n.exact {
		m.Least = r.Most(n.promptMost, min(n.output, n.bound.answers))
	}
}

// capOutput bounds what an engine produces to what is held of the budgets, when the
// request itself sets no bound.
func (x *exchange) capOutput(held billing.Cash) {
	b := &x.request.bound
	if !held.Positive() || !b.read || b.stated || b.none {
		return
	}
	context := contextLength(&x.route.Deployment)
	rates := x.route.rates
	n, limited := rates.Affords(held.Sub(rates.Most(b.promptMost(context), 0)))
	if most, _ := b.outputTokens(context, 0); limited && n < most {
		x.request.cap = max(1, n/b.answers)
	}
}

// ratesOf reads a price; nil when there is none that can be read.
func ratesOf(p *factory.Price) *billing.CashRates {
	if p == nil {
		return nil
	}
	r, err := billing.CashRatesOf(*p)
	if err != nil {
		return nil
	}
	return &r
}
