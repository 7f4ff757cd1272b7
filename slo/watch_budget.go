package slo

import (
	"context"
	"fmt"
	"math/big"

	"tokenfactory/factory"
)

// BudgetUse is how the money of one tenant or key stands in its present period.
type BudgetUse struct {
	Scope    factory.Scope
	ID       string
	TenantID string
	Tenant   string // its name
	Name     string // of the tenant or key, as titles say it
	Use      factory.LimitUse
}

// budgetRules say from which part of a budget on people are told.
var budgetRules = []struct {
	percent  int64
	severity factory.Severity
	title    string
}{
	{80, factory.Ticket, "%s has used up 80 %% of its budget of %s %s."},
	{100, factory.Page, "%s has used up its budget of %s %s: its requests are refused."},
}

func (r *round) budgets(ctx context.Context) error {
	if r.Budgets == nil {
		return nil
	}
	uses, err := r.Budgets(ctx)
	if err != nil {
		return err
	}
	for _, u := range uses {
		for _, rule := range budgetRules {
			s := sight{Condition: Condition{
				Subject: fmt.Sprintf("budget/%d/%s/%s", rule.percent, u.Scope, u.ID), Rule: factory.RuleBudget, Severity: rule.severity,
				TenantID: u.TenantID, Title: fmt.Sprintf(rule.title, u.Name, u.Use.Limit, u.Use.Currency),
			}}
			var share *float64
			s.Finding, share = u.reached(rule.percent)
			s.payload = Payload{Tenant: &Ref{u.TenantID, u.Tenant}, Figures: map[string]*float64{"budget_used": share}}
			if r.Links.Tenant != nil {
				s.payload.URL = r.Links.Tenant(u.TenantID)
			}
			r.sights = append(r.sights, s)
		}
	}
	return nil
}

// reached compares exact decimals: money at exactly 80 % has reached it. The share is nil
// when it is not known, or is of a budget of nothing.
func (u BudgetUse) reached(percent int64) (Finding, *float64) {
	limit, ok := new(big.Rat).SetString(u.Use.Limit)
	used, read := new(big.Rat).SetString(u.Use.Used)
	if u.Use.Unknown || !ok || !read {
		return Unknown, nil
	}
	if limit.Sign() <= 0 {
		if used.Sign() > 0 {
			return Wrong, nil
		}
		return Right, nil
	}
	part := used.Quo(used, limit)
	share, _ := part.Float64()
	if part.Cmp(big.NewRat(percent, 100)) >= 0 {
		return Wrong, &share
	}
	return Right, &share
}
