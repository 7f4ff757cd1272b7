package main

import (
	"context"
	"time"

	"tokenfactory/factory"
	"tokenfactory/handlers"
	"tokenfactory/slo"
	"tokenfactory/store"
)

// budgetPatience is how long one look at all budgets waits for what was spent to be read.
// What is not known by then is not judged, and known at the next look.
const budgetPatience = 2 * time.Second

// budgets has alerts judge money by what the gateway refuses requests by.
type budgets struct {
	store *store.Store
	uses  handlers.Uses
}

// read tells how money stands of every tenant, and of every key that works, with a budget.
func (b budgets) read(ctx context.Context) ([]slo.BudgetUse, error) {
	tenants, err := b.store.AllTenants(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := b.store.AllKeys(ctx)
	if err != nil {
		return nil, err
	}
	brief, cancel := context.WithTimeout(ctx, budgetPatience)
	defer cancel()
	var out []slo.BudgetUse
	titles := map[string]string{}
	for _, t := range tenants {
		titles[t.ID] = t.Title
		out = b.add(brief, out, slo.BudgetUse{Scope: factory.ScopeTenant, ID: t.ID, TenantID: t.ID, Tenant: t.Name, Name: t.Title}, t.Limits)
	}
	now := factory.Now()
	for _, k := range keys {
		if k.Live(now) {
			name := "Key " + k.Name + " of " + titles[k.TenantID]
			out = b.add(brief, out, slo.BudgetUse{Scope: factory.ScopeKey, ID: k.ID, TenantID: k.TenantID, Tenant: k.TenantName, Name: name}, k.Limits)
		}
	}
	return out, ctx.Err()
}

// add appends the money among a holder's limits. Nothing else is asked for: a rate is no
// reason for an alert.
func (b budgets) add(ctx context.Context, out []slo.BudgetUse, u slo.BudgetUse, l factory.Limits) []slo.BudgetUse {
	if l.Budget == "" {
		return out
	}
	money := factory.Limits{Budget: l.Budget, BudgetCurrency: l.BudgetCurrency, BudgetPeriod: l.BudgetPeriod}
	for _, use := range b.uses.Use(ctx, u.Scope, u.ID, money) {
		if use.Kind == factory.LimitBudget {
			u.Use = use
			out = append(out, u)
		}
	}
	return out
}
