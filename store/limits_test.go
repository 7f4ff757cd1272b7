package store_test

import (
	"testing"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestLimitsAreKeptWithTheirDefaults(t *testing.T) {
	given := factory.Limits{
		RequestsPerMinute: 1, TokensPerMinute: 2_000_000_000, InputTokensPerMinute: 3, OutputTokensPerMinute: 4, ConcurrentRequests: 5, Budget: "99.50",
	}
	kept := given
	kept.Budget, kept.BudgetCurrency, kept.BudgetPeriod = "99.5", "USD", factory.Month
	nothing := factory.Limits{Budget: "0", BudgetCurrency: "EUR", BudgetPeriod: factory.Day}
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		expect := func(what string, got, want factory.Limits) {
			t.Helper()
			if got != want {
				t.Errorf("%s has %+v", what, got)
			}
		}
		key := func() factory.Key { return must[factory.Key](t)(s.KeyByHash(ctx, "h1")) }

		ok(t, s.CreateKey(ctx, factory.Key{ID: "k1", TenantID: "t1", Name: "ci", Hash: "h1", Limits: given, CreatedAt: start}))
		expect("a new key", key().Limits, kept)
		expect("its tenant", key().TenantLimits, factory.Limits{})
		ok(t, s.SetKeyLimits(ctx, "t1", "k1", nothing))
		expect("a changed key", key().Limits, nothing)
		ok(t, s.SetKeyLimits(ctx, "t1", "k1", factory.Limits{BudgetPeriod: factory.Week}))
		expect("a key without limits", key().Limits, factory.Limits{})

		w.acme.Limits = given
		ok(t, s.SaveTenant(ctx, w.acme))
		expect("a changed tenant", must[factory.Tenant](t)(s.Tenant(ctx, "t1")).Limits, kept)
		for _, k := range append(must[[]factory.Key](t)(s.Keys(ctx, "t1")), must[factory.Key](t)(s.Key(ctx, "t1", "k1")), key()) {
			expect("a key of it", k.TenantLimits, kept)
			expect("and by itself", k.Limits, factory.Limits{})
		}
		ok(t, s.CreateTenant(ctx, factory.Tenant{ID: "t3", Name: "new", Limits: given, CreatedAt: start}))
		expect("a new tenant", must[factory.Tenant](t)(s.TenantByName(ctx, "new")).Limits, kept)

		d := w.newDeployment("d2", "other")
		d.Limits, d.ReplicaConcurrency = given, 16
		ok(t, s.CreateDeployment(ctx, d))
		got := must[factory.Deployment](t)(s.Deployment(ctx, "d2"))
		expect("a new deployment", got.Limits, kept)
		if got.ReplicaConcurrency != 16 {
			t.Errorf("a replica gets %d requests", got.ReplicaConcurrency)
		}
		got.Limits, got.ReplicaConcurrency = nothing, 0
		ok(t, s.SaveDeployment(ctx, got))
		got = must[factory.Deployment](t)(s.Deployment(ctx, "d2"))
		expect("a changed deployment", got.Limits, nothing)
		if got.ReplicaConcurrency != 0 {
			t.Errorf("a replica gets %d requests", got.ReplicaConcurrency)
		}
	})
}
