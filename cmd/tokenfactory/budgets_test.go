package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/store/storetest"
)

// spent answers for the gateway: everybody has used nine of what they may spend.
type spent struct{ asked []string }

func (s *spent) Use(_ context.Context, scope factory.Scope, id string, l factory.Limits) []factory.LimitUse {
	s.asked = append(s.asked, fmt.Sprintf("%s %s %s/%s", scope, id, l.Budget, l.BudgetPeriod))
	uses := []factory.LimitUse{{Kind: factory.LimitBudget, Limit: l.Budget, Used: "9", Held: "0", Currency: "USD"}}
	if l.RequestsPerMinute > 0 {
		uses = append([]factory.LimitUse{{Kind: factory.LimitRequests, Limit: "1", Used: "1", Held: "0"}}, uses...)
	}
	return uses
}

func TestBudgetsOfTenantsAndKeysAreWatched(t *testing.T) {
	st, ctx, now := storetest.Open(t), t.Context(), factory.Now()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tenant := func(id string, l factory.Limits) {
		must(st.CreateTenant(ctx, factory.Tenant{ID: id, Name: id, Title: "Tenant " + id, Limits: l, CreatedAt: now}))
	}
	key := func(id string, l factory.Limits) {
		must(st.CreateKey(ctx, factory.Key{ID: id, TenantID: "acme", Name: id, Hash: id, Scope: factory.ScopeInference, Limits: l, CreatedAt: now}))
	}
	tenant("acme", factory.Limits{Budget: "10", BudgetCurrency: "USD", BudgetPeriod: factory.Week, RequestsPerMinute: 5})
	tenant("rates-only", factory.Limits{RequestsPerMinute: 5})
	key("app", factory.Limits{Budget: "9"})
	key("revoked", factory.Limits{Budget: "1"})
	key("free", factory.Limits{})
	must(st.RevokeKey(ctx, "acme", "revoked", now))

	gateway := &spent{}
	found, err := budgets{st, gateway}.read(ctx)
	must(err)
	if want := []string{"tenant acme 10/week", "key app 9/month"}; !slices.Equal(gateway.asked, want) && !slices.Equal(gateway.asked, []string{want[0], "key app 9/"}) {
		t.Errorf("asked for %q, want %q", gateway.asked, want)
	}
	if len(found) != 2 || found[0].Name != "Tenant acme" || found[1].Name != "Key app of Tenant acme" || found[1].Tenant != "acme" || found[0].Use.Used != "9" {
		t.Errorf("found %+v", found)
	}

	// Alerts are judged by them: the tenant has used 90 %, the key all of it.
	w := &slo.Watcher{Store: st, Budgets: budgets{st, gateway}.read, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	must(w.Look(ctx))
	open, err := st.OpenAlerts(ctx)
	must(err)
	var subjects []string
	for _, a := range open {
		if a.TenantID != "acme" || a.Rule != factory.RuleBudget {
			t.Errorf("%+v", a)
		}
		subjects = append(subjects, a.Subject)
	}
	slices.Sort(subjects)
	if want := []string{"budget/100/key/app", "budget/80/key/app", "budget/80/tenant/acme"}; !slices.Equal(subjects, want) {
		t.Errorf("alerts %v, want %v", subjects, want)
	}
}

func TestAlertsLeadToTheirPages(t *testing.T) {
	if l := links(""); l.Alert != nil || l.Node != nil {
		t.Error("there are links although nobody knows where to")
	}
	l := links("https://factory.example/")
	if got := l.Alert("a1") + " " + l.Node("c1", "n1"); got != "https://factory.example/alerts/a1 https://factory.example/clusters/c1/nodes/n1" {
		t.Error(got)
	}
}
