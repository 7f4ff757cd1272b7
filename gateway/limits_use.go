package gateway

import (
	"context"
	"strconv"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// Use tells how limits of one key, tenant or deployment stand at this moment, in the
// order in which people read them.
func (g *Gateway) Use(ctx context.Context, scope factory.Scope, id string, l factory.Limits) []factory.LimitUse {
	if g.Limits == nil || l.None() {
		return nil
	}
	claims := limitsOf(nil, scope, id, &l)
	if money := budgetOf(&l, g.Now()); money != nil {
		claims = append(claims, Claim{Scope: scope, ID: id, Kind: factory.LimitBudget, Money: money})
	}
	return g.Limits.Use(ctx, g.limitClock(), claims)
}

// limitsOf are claims on all limits of a kind that counts, without amounts.
func limitsOf(claims []Claim, scope factory.Scope, id string, l *factory.Limits) []Claim {
	for _, c := range [...]Claim{
		{Kind: factory.LimitRequests, Limit: int64(l.RequestsPerMinute)},
		{Kind: factory.LimitTokens, Limit: l.TokensPerMinute},
		{Kind: factory.LimitInputTokens, Limit: l.InputTokensPerMinute},
		{Kind: factory.LimitOutputTokens, Limit: l.OutputTokensPerMinute},
		{Kind: factory.LimitConcurrency, Limit: int64(l.ConcurrentRequests)},
	} {
		if c.Limit > 0 {
			c.Scope, c.ID = scope, id
			claims = append(claims, c)
		}
	}
	return claims
}

// budgetOf is the budget among limits, without what is asked of it. An amount that
// does not read is none that lets anything through.
func budgetOf(l *factory.Limits, began time.Time) *Money {
	if l.Budget == "" {
		return nil
	}
	d := l.WithDefaults()
	m := &Money{Currency: d.BudgetCurrency, Period: d.BudgetPeriod, Began: began}
	if amount, err := billing.CashOf(l.Budget); err == nil {
		m.Budget = amount
	}
	return m
}

// Use implements Limits.
func (m *memoryLimits) Use(ctx context.Context, now time.Time, claims []Claim) []factory.LimitUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited, err := m.budgets.know(ctx, &m.mu, claims, m.moment(now) < window)
	at := m.moment(now.Add(waited))
	uses := make([]factory.LimitUse, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		u := factory.LimitUse{Kind: c.Kind, Limit: strconv.FormatInt(c.Limit, 10), Used: "0", Held: "0"}
		key := limitKey{c.Scope, c.Kind, c.ID}
		switch c.Kind {
		case factory.LimitBudget:
			a := c.Money.account
			p := a.purse(c.Money.Currency)
			resets := a.to.UTC()
			u.Limit, u.Currency, u.ResetsAt = c.Money.Budget.String(), c.Money.Currency, &resets
			u.Used, u.Held, u.Unknown = p.spent.String(), p.held.String(), err != nil && !a.known
		case factory.LimitConcurrency:
			if l := m.lanes[key]; l != nil {
				u.Held = strconv.FormatInt(l.open, 10)
			}
		default:
			w := m.windows[key]
			if w == nil {
				w = m.newWindow(c, at) // not kept: a look counts nothing
			}
			w.expire(at)
			u.Used, u.Held = strconv.FormatInt(w.total-w.held, 10), strconv.FormatInt(w.held, 10)
			u.Unknown = err != nil && !m.budgets.recalled(holder{c.Scope, c.ID})
		}
		uses = append(uses, u)
	}
	return uses
}
