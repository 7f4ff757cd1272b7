package handlers

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/limits"
)

// Uses tells how limits stand at this moment; the gateway does. Nil where nobody can.
type Uses interface {
	Use(ctx context.Context, scope factory.Scope, id string, l factory.Limits) []factory.LimitUse
}

// usePatience is how long a page waits for what was spent to be read. What is not
// known by then is being read all the same, and known when the page is read again.
const usePatience = 500 * time.Millisecond

// patiently is the context of all questions about use that one page asks.
func patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, usePatience)
}

// holder is limits with how they stand. Nothing is asked where nothing is limited.
func holder(ctx context.Context, uses Uses, scope factory.Scope, id, name string, l factory.Limits) limits.Holder {
	h := limits.Holder{Scope: scope, Name: name, Limits: l}
	if uses != nil && !l.None() {
		h.Use = uses.Use(ctx, scope, id, l)
	}
	return h
}

// shownHolders bounds how many deployments a page about a key lists.
const shownHolders = 20

// holdersOf are the limits that hold for requests of a key: its own, its tenant's, and
// those of the models that it may call. more is how many models are left out.
func holdersOf(ctx context.Context, uses Uses, k factory.Key, t factory.Tenant, deployments []factory.Deployment, operator bool) (out []limits.Holder, more int) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	out = []limits.Holder{
		holder(ctx, uses, factory.ScopeKey, k.ID, k.Name, k.Limits),
		holder(ctx, uses, factory.ScopeTenant, t.ID, t.Title, t.Limits),
	}
	if k.Scope != factory.ScopeInference {
		return out, 0
	}
	limited := slices.DeleteFunc(slices.Clone(deployments), func(d factory.Deployment) bool { return d.Limits.None() })
	slices.SortFunc(limited, func(a, b factory.Deployment) int { return strings.Compare(a.PublicName, b.PublicName) })
	for i, d := range limited {
		if i == shownHolders {
			return out, len(limited) - i
		}
		h := holder(ctx, uses, factory.ScopeDeployment, d.ID, d.PublicName, d.Limits)
		// Money that others spent is not for a tenant to see, nor who else there is.
		h.Shared = !operator
		out = append(out, h)
	}
	return out, 0
}

// foreignPrices are the models that a budget of these holders cannot pay for, because
// their prices are in another currency: requests to them are refused.
func foreignPrices(holders []limits.Holder, deployments []factory.Deployment) []limits.Foreign {
	var out []limits.Foreign
	for _, h := range holders {
		if h.Budget == "" || h.Scope == factory.ScopeDeployment {
			continue
		}
		for _, d := range deployments {
			if p := d.Price; p != nil && !p.Free && p.Currency != h.BudgetCurrency {
				out = append(out, limits.Foreign{Scope: h.Scope, Budget: h.BudgetCurrency, Model: d.PublicName, Price: p.Currency})
			}
		}
	}
	return out
}

// lately is the range in which pages look for refusals.
func lately(now time.Time) (from, to time.Time) {
	return now.Add(-limits.RefusalsFor).Truncate(time.Hour), now.Add(time.Minute)
}

// refusalsOf reads what limits kept out of a tenant lately, for its pages.
func refusalsOf(ctx context.Context, s *store.Store, tenantID string, now time.Time) ([]factory.Refusals, error) {
	from, to := lately(now)
	return s.Refusals(ctx, tenantID, from, to)
}

// refusedOf sums a tenant's refusals up, with the names of what they are about.
func refusedOf(ctx context.Context, s *store.Store, tenantID string, now time.Time) ([]limits.Refused, error) {
	rows, err := refusalsOf(ctx, s, tenantID, now)
	if err != nil {
		return nil, err
	}
	n, err := readNames(ctx, s)
	return limits.RefusedOf(rows, now, nameRefusal(n)), err
}

// nameRefusal says what a refusal's limit belongs to: a key by its name, a deployment
// by the name that clients send.
func nameRefusal(n names) func(factory.Refusals) string {
	return func(r factory.Refusals) string {
		switch r.Scope {
		case factory.ScopeKey:
			return nameOf(n.keys, r.KeyID)
		case factory.ScopeDeployment:
			return cmp.Or(n.models[r.DeploymentID], nameOf(n.deployments, r.DeploymentID))
		}
		return ""
	}
}
