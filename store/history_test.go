package store_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestDA01ADayIsTheViewers(t *testing.T) {
	kolkata := must[*time.Location](t)(time.LoadLocation("Asia/Kolkata"))
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		for i, c := range []struct {
			at     string
			tokens int64
		}{{"2026-05-10T18:29:00Z", 100}, {"2026-05-10T18:30:00Z", 10}, {"2026-05-11T18:29:00Z", 1}, {"2026-05-11T18:30:00Z", 1000}} {
			at := must[time.Time](t)(time.Parse(time.RFC3339, c.at))
			ok(t, s.AppendUsage(t.Context(), []factory.Usage{request(fmt.Sprint("r", i), at, c.tokens, 0)}))
		}
		day := func(d int) time.Time { return billing.DayStart(2026, time.May, d, kolkata) }
		var single int64
		for d, want := range map[int]int64{10: 100, 11: 11, 12: 1000} {
			got := sums(t, s, "t1", day(d), day(d+1)).PromptTokens
			single += got
			if got != want {
				t.Errorf("%d May: %d tokens, want %d", d, got, want)
			}
		}
		if got := sums(t, s, "t1", day(10), day(13)).PromptTokens; got != 1111 || got != single {
			t.Errorf("the range has %d tokens and its days have %d", got, single)
		}
		// Told apart by day, a statement of the range says the same.
		var items []billing.Item
		for _, x := range must[[]store.UsageSum](t)(s.UsageSums(t.Context(), "t1", day(10), day(13))) {
			items = append(items, billing.Item(x))
		}
		got := map[string]int64{}
		for _, l := range must[billing.Statement](t)(billing.Terms{By: []billing.Dimension{billing.ByDay}, Zone: kolkata}.Make(items)).Lines {
			got[l.Day] = l.PromptTokens
		}
		if want := map[string]int64{"2026-05-10": 100, "2026-05-11": 11, "2026-05-12": 1000}; !reflect.DeepEqual(got, want) {
			t.Errorf("by day %v, want %v", got, want)
		}
	})
}

func TestDA08WhatIsDeletedStaysInHistory(t *testing.T) {
	march, april := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		key := factory.Key{ID: "k1", TenantID: "t1", Name: "ci", Prefix: "sk-tf-1", Hash: "h1", Scope: factory.ScopeInference, CreatedBy: w.ada.Email, CreatedAt: march}
		ok(t, s.CreateKey(ctx, key))
		u := request("r1", march.AddDate(0, 0, 9), 900, 100)
		ok(t, s.AppendUsage(ctx, []factory.Usage{u}))

		ok(t, s.RevokeKey(ctx, "t1", "k1", april))
		ok(t, s.DeleteDeployment(ctx, "d1", april))
		ok(t, s.DeleteLLM(ctx, w.llm.ID))
		ok(t, s.DeleteTenant(ctx, "t1"))
		ok(t, s.DeleteUser(ctx, w.ada.ID))
		// And their names are given to others.
		ok(t, s.CreateLLM(ctx, w.llm))
		again := w.newDeployment("d9", w.deployment.Name)
		again.TenantIDs, again.Tenants = nil, nil
		ok(t, s.CreateDeployment(ctx, again))
		ok(t, s.CreateTenant(ctx, factory.Tenant{ID: "t9", Name: "acme", Title: "Acme", CreatedAt: april}))

		for _, tenant := range []string{"", "t1"} { // the operator's view, and the tenant's own
			rows := must[[]store.UsageSum](t)(s.UsageSums(ctx, tenant, march, april))
			if len(rows) != 1 || rows[0].PromptTokens+rows[0].CompletionTokens != 1000 || rows[0].DeploymentID != "d1" || rows[0].KeyID != "k1" || rows[0].TenantID != "t1" {
				t.Errorf("March of %q: %+v", tenant, rows)
			}
		}
		if got := sums(t, s, "t9", march, april); got.Requests != 0 {
			t.Errorf("the new tenant of the name inherits %+v", got)
		}
		prices := must[map[string]factory.Price](t)(s.Prices(ctx))
		if prices["price-d1"].Output != "0.60" {
			t.Errorf("what it was served for is lost: %+v", prices)
		}
		for what, c := range map[string]struct {
			names map[string]string
			id    string
			want  string
		}{
			"deployment": {must[map[string]string](t)(s.DeploymentNames(ctx)), "d1", "small"},
			"model":      {must[map[string]string](t)(s.PublicNames(ctx)), "d1", "public/small"},
			"key":        {must[map[string]string](t)(s.KeyNames(ctx)), "k1", "ci"},
			"tenant":     {must[map[string]string](t)(s.TenantNames(ctx)), "t1", "acme"},
		} {
			if c.names[c.id] != c.want {
				t.Errorf("%s is called %q in history, want %q", what, c.names[c.id], c.want)
			}
		}
		gone := must[store.Gone](t)(s.Gone(ctx))
		want := store.Gone{Tenants: map[string]bool{"t1": true}, Keys: map[string]bool{"k1": true}, Deployments: map[string]bool{"d1": true}}
		if !reflect.DeepEqual(gone, want) {
			t.Errorf("gone are %+v, want %+v", gone, want)
		}
	})
}
