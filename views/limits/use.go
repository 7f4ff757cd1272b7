package limits

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// Holder is something that has limits, with how they stand now: a key, its tenant, or
// a deployment that the key may use.
type Holder struct {
	Scope factory.Scope
	Name  string
	Href  string // where it is looked at or changed; empty where the viewer has no such page
	factory.Limits
	// Use is how each limit stands. Nil: nobody here can tell.
	Use []factory.LimitUse
	// Shared hides money that others spent as well: the viewer learns whether the budget
	// is used up, not how much there is.
	Shared bool
}

// Foreign is a model whose price is in another currency than a budget that holds for
// it: money of two currencies cannot be compared, so requests to it are refused.
type Foreign struct {
	Scope         factory.Scope // of the budget
	Budget, Price string        // currencies
	Model         string
}

func (f Foreign) text() string {
	whose := "The key’s budget"
	if f.Scope == factory.ScopeTenant {
		whose = "The tenant’s budget"
	}
	return whose + " is in " + f.Budget + " and " + f.Model + " is priced in " + f.Price + ": requests to it are refused."
}

// Meter is one limit drawn: a bar and its figures.
type Meter struct {
	factory.LimitUse
	Period factory.Period // of budgets
	Known  bool           // used and held are figures and no guess
	Hidden bool           // only whether anything is left may be seen
}

// Meters are the limits that are set, budgets first; one whose use nobody can tell is
// among them.
func (h Holder) Meters() []Meter {
	var out []Meter
	for _, l := range limitsOf(h.Limits) {
		m := Meter{LimitUse: l}
		if l.Kind == factory.LimitBudget {
			m.Period, m.Hidden = h.BudgetPeriod, h.Shared
		}
		for _, u := range h.Use {
			if u.Kind == l.Kind {
				m.LimitUse, m.Known = u, !u.Unknown
			}
		}
		out = append(out, m)
	}
	return out
}

// limitsOf lists the limits that are set, in the order in which they are shown.
func limitsOf(l factory.Limits) []factory.LimitUse {
	var out []factory.LimitUse
	if l.Budget != "" {
		out = append(out, factory.LimitUse{Kind: factory.LimitBudget, Limit: l.Budget, Currency: l.BudgetCurrency})
	}
	for _, x := range []struct {
		kind  factory.LimitKind
		limit int64
	}{
		{factory.LimitRequests, int64(l.RequestsPerMinute)}, {factory.LimitTokens, l.TokensPerMinute},
		{factory.LimitInputTokens, l.InputTokensPerMinute}, {factory.LimitOutputTokens, l.OutputTokensPerMinute},
		{factory.LimitConcurrency, int64(l.ConcurrentRequests)},
	} {
		if x.limit > 0 {
			out = append(out, factory.LimitUse{Kind: x.kind, Limit: strconv.FormatInt(x.limit, 10)})
		}
	}
	return out
}

// KindName is how a limit is called to people.
func KindName(k factory.LimitKind) string {
	switch k {
	case factory.LimitRequests:
		return "Requests per minute"
	case factory.LimitTokens:
		return "Tokens per minute"
	case factory.LimitInputTokens:
		return "Input tokens per minute"
	case factory.LimitOutputTokens:
		return "Output tokens per minute"
	case factory.LimitConcurrency:
		return "Requests at once"
	case factory.LimitBudget:
		return "Budget"
	}
	return string(k)
}

func (m Meter) name() string {
	if m.Kind == factory.LimitBudget && m.Period != "" {
		return "Budget per " + string(m.Period)
	}
	return KindName(m.Kind)
}

// figure writes a count, or money, for people.
func (m Meter) figure(text string) string {
	d, err := decimal.NewFromString(text)
	if err != nil {
		return text
	}
	if m.Kind == factory.LimitBudget {
		return billing.Format(d)
	}
	return ui.Count(d.IntPart())
}

func (m Meter) limitText() string {
	if m.Currency != "" {
		return m.figure(m.Limit) + " " + m.Currency
	}
	return m.figure(m.Limit)
}

// share is text as parts of the limit, from 0 to 1. Of a limit of nothing, everything
// is used.
func (m Meter) share(texts ...string) float64 {
	limit, ok := new(big.Rat).SetString(m.Limit)
	if !ok || limit.Sign() <= 0 {
		return 1
	}
	sum := new(big.Rat)
	for _, t := range texts {
		if r, ok := new(big.Rat).SetString(t); ok {
			sum.Add(sum, r)
		}
	}
	f, _ := sum.Quo(sum, limit).Float64()
	return max(0, min(1, f))
}

// taken is what is used and held together, as decimal text.
func (m Meter) taken() string {
	used, err := decimal.NewFromString(m.Used)
	if err != nil {
		return m.Used
	}
	held, err := decimal.NewFromString(m.Held)
	if err != nil {
		return m.Used
	}
	return used.Add(held).String()
}

// firm is the part of the bar that does not come back: open requests are all that
// a limit of concurrency counts.
func (m Meter) firm() float64 {
	if m.Kind == factory.LimitConcurrency {
		return m.Share()
	}
	return m.share(m.Used)
}

// Share is how much of the limit is taken, used and held together.
func (m Meter) Share() float64 { return m.share(m.Used, m.Held) }

// spent reports whether what is used for good leaves nothing.
func (m Meter) spent() bool { return m.Known && m.share(m.Used) >= 1 }

// holds reports whether open requests have booked something.
func (m Meter) holds() bool { return strings.Trim(m.Held, "0.") != "" }

// standing is a word with its tone for a limit that needs to be seen; empty when all
// is well.
func (m Meter) standing() (ui.Tone, string) {
	switch {
	case !m.Known && m.Unknown:
		return ui.Warn, "Not known"
	case !m.Known:
		return ui.Plain, ""
	case m.spent() && m.Kind == factory.LimitBudget:
		return ui.Bad, "Used up"
	case m.Share() >= 1:
		return ui.Warn, "At the limit"
	case m.Kind == factory.LimitBudget && m.share(m.Used) >= 0.8:
		return ui.Warn, "Nearly used up"
	}
	return ui.Plain, ""
}

// Tightest is the limit to look at first: one whose use should be known and is not,
// else the one that is taken most. ok is false without limits.
func (h Holder) Tightest() (m Meter, ok bool) {
	meters := h.Meters()
	if len(meters) == 0 {
		return Meter{}, false
	}
	return slices.MaxFunc(meters, func(a, b Meter) int { return cmp.Compare(a.urgency(), b.urgency()) }), true
}

func (m Meter) urgency() float64 {
	switch {
	case m.Unknown:
		return 2
	case m.Known:
		return m.Share()
	}
	return -1
}

func scopeTitle(h Holder) string {
	switch h.Scope {
	case factory.ScopeKey:
		return "This key"
	case factory.ScopeTenant:
		return "All keys of " + h.Name + " together"
	case factory.ScopeDeployment:
		return "All clients of " + h.Name + " together"
	}
	return h.Name
}

// width writes a share as a length on a bar of 100.
func width(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) }
