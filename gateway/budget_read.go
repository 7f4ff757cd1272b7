package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// Spending tells what was spent, as the ledger has it.
type Spending interface {
	// Spent sums up, by version of the price, the usage of one key, tenant or deployment
	// that began in from ≤ t < to.
	Spent(ctx context.Context, scope factory.Scope, id string, from, to time.Time) ([]factory.PricedTokens, error)
}

const (
	// While usage moves to the ledger, accounts wait for it, and ask again soon.
	budgetPoll = 10 * time.Millisecond
	// After a failure, accounts are tried again after budgetPause, later budgetRest.
	budgetPause = 200 * time.Millisecond
	budgetRest  = 2 * time.Second
	// budgetPatience is how long usage may take to get to the ledger before requests are
	// told that nobody knows.
	budgetPatience = 2 * storePatience
	// budgetsAtOnce and budgetTime bound how long the way to the ledger is closed.
	budgetsAtOnce = 32
	budgetTime    = time.Second
)

var errUsageOnItsWay = errors.New("usage is on its way to the ledger")

// readBudgets reads the accounts that are not known yet, until ctx ends.
func (g *Gateway) readBudgets(ctx context.Context, m *memoryLimits) {
	pause := time.Duration(0)
	var since time.Time // when it began to fail
	for {
		if pause == 0 {
			select {
			case <-ctx.Done():
				return
			case <-m.budgets.wake:
			}
		} else {
			wait := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				wait.Stop()
				return
			case <-wait.C:
			}
		}
		more, err := g.readAccounts(ctx, m)
		switch {
		case err == nil && more:
			pause, since = time.Nanosecond, time.Time{}
		case err == nil:
			pause, since = 0, time.Time{}
		case errors.Is(err, errUsageOnItsWay):
			if since.IsZero() {
				since = time.Now()
			}
			if pause = budgetPoll; time.Since(since) > budgetPatience {
				pause = budgetPause
				m.failUnknown(err)
			}
		default:
			if pause < budgetPause {
				g.Log.Warn("read what was spent; requests with a budget are refused until it is known", "err", err)
			}
			pause = min(max(2*pause, budgetPause), budgetRest)
			m.failUnknown(err)
		}
	}
}

// readAccounts reads some of the accounts that are not known, while the way to the
// ledger is closed; more tells whether there are others.
func (g *Gateway) readAccounts(ctx context.Context, m *memoryLimits) (more bool, err error) {
	m.mu.Lock()
	all := m.budgets.unknown
	some := append([]*account(nil), all[:min(len(all), budgetsAtOnce)]...)
	var since place
	for _, a := range some {
		since.row = max(since.row, a.since.row)
	}
	m.mu.Unlock()
	if len(some) == 0 {
		return false, nil
	}
	type answer struct {
		costs  []cost
		tokens factory.Tokens
		err    error
	}
	var answers []answer
	var base place
	still := g.spool.still(since, func(done place) {
		base = done
		for end := time.Now().Add(budgetTime); len(answers) < len(some) && time.Now().Before(end); {
			var a answer
			a.costs, a.tokens, a.err = g.spentOf(ctx, some[len(answers)])
			answers = append(answers, a)
		}
	})
	if !still {
		g.spool.nudge()
		return false, errUsageOnItsWay
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	learned := 0
	for i, a := range answers {
		if a.err == nil {
			m.budgets.learn(some[i], base, a.costs, a.tokens)
			learned++
			continue
		}
		err = a.err
		m.budgets.putLast(some[i]) // one that cannot be read is in nobody's way
	}
	if learned > 0 {
		for i, a := range answers {
			if a.err != nil {
				m.budgets.fail(some[i], a.err)
			}
		}
		err = nil // those that are left get another turn
	}
	return len(m.budgets.unknown) > 0, err
}

func (m *memoryLimits) failUnknown(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.budgets.unknown {
		m.budgets.fail(a, err)
	}
}

// spentOf asks the ledger, and adds what was set aside: it was spent, although the
// ledger does not take it. The accounts' own fields do not change.
func (g *Gateway) spentOf(ctx context.Context, a *account) (costs []cost, tokens factory.Tokens, err error) {
	if g.Spending == nil {
		return nil, tokens, errors.New("nobody can be asked what was spent")
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	sums, err := g.Spending.Spent(ctx, a.scope, a.id, a.from, a.to)
	if err != nil {
		return nil, tokens, err
	}
	aside, err := g.spool.asideRows()
	if err != nil {
		return nil, tokens, err
	}
	for _, u := range aside {
		if !a.owns(&u) {
			continue
		}
		sum := factory.PricedTokens{Tokens: factory.Tokens{Requests: 1, PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens}}
		sum.Price, _ = g.routes.price(u.DeploymentID) // of a deployment that is gone nobody knows it
		sums = append(sums, sum)
	}
	for _, s := range sums {
		tokens.Requests += s.Requests
		tokens.PromptTokens += s.PromptTokens
		tokens.CompletionTokens += s.CompletionTokens
		if a.period == "" || s.Price.ID == "" || s.Price.Free || s.PromptTokens == 0 && s.CompletionTokens == 0 {
			continue // asked for its tokens only, or served without a price
		}
		rates, err := billing.CashRatesOf(s.Price)
		if err != nil {
			return nil, tokens, fmt.Errorf("what %s %s spent cannot be priced: %w", a.scope, a.id, err)
		}
		costs = append(costs, cost{rates.Currency, rates.Cost(s.Tokens)})
	}
	return costs, tokens, nil
}

func (a *account) owns(u *factory.Usage) bool {
	id := ""
	switch a.scope {
	case factory.ScopeKey:
		id = u.KeyID
	case factory.ScopeTenant:
		id = u.TenantID
	case factory.ScopeDeployment:
		id = u.DeploymentID
	}
	return id == a.id && a.covers(u.StartedAt)
}

// price is the price of a deployment in force.
func (c *routeCache) price(deploymentID string) (factory.Price, bool) {
	if t := c.now.Load(); t != nil {
		for _, r := range t.byName {
			if d := &r.Deployment; d.ID == deploymentID && d.Price != nil {
				return *d.Price, true
			}
		}
	}
	return factory.Price{}, false
}
