package store_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func refused(at time.Time, tenant, key string, kind factory.LimitKind, count int64) factory.Refusals {
	return factory.Refusals{QuarterStart: at, TenantID: tenant, KeyID: key, DeploymentID: "d1", Scope: factory.ScopeKey, Kind: kind, Count: count}
}

func TestRefusalsAddUpByQuarter(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ok(t, s.AddRefusals(ctx, nil))
		later := start.Add(15 * time.Minute)
		// The same place twice in one batch, and one that says a moment inside its quarter.
		ok(t, s.AddRefusals(ctx, []factory.Refusals{
			refused(start, "t1", "k1", factory.LimitRequests, 2), refused(start, "t1", "k1", factory.LimitRequests, 3),
			refused(start.Add(14*time.Minute), "t1", "k1", factory.LimitBudget, 1), refused(start, "t2", "k2", factory.LimitRequests, 7),
		}))
		ok(t, s.AddRefusals(ctx, []factory.Refusals{refused(later, "t1", "k1", factory.LimitRequests, 1), refused(start, "t1", "k1", factory.LimitRequests, 10)}))

		ofT1 := []factory.Refusals{
			refused(later, "t1", "k1", factory.LimitRequests, 1),
			refused(start, "t1", "k1", factory.LimitBudget, 1),
			refused(start, "t1", "k1", factory.LimitRequests, 15),
		}
		for what, c := range map[string]struct {
			got, want []factory.Refusals
		}{
			"tenant":          {must[[]factory.Refusals](t)(s.Refusals(ctx, "t1", start, start.Add(time.Hour))), ofT1},
			"all":             {must[[]factory.Refusals](t)(s.AllRefusals(ctx, start, start.Add(time.Hour))), append(ofT1[:3:3], refused(start, "t2", "k2", factory.LimitRequests, 7))},
			"the first alone": {must[[]factory.Refusals](t)(s.Refusals(ctx, "t1", start, later)), ofT1[1:]},
			"from within":     {must[[]factory.Refusals](t)(s.Refusals(ctx, "t1", later.Add(time.Minute), start.Add(time.Hour))), ofT1[:1]},
			"before":          {must[[]factory.Refusals](t)(s.Refusals(ctx, "t1", start.Add(-time.Hour), start)), nil},
			"nobody":          {must[[]factory.Refusals](t)(s.Refusals(ctx, "", start, start.Add(time.Hour))), nil},
			"one deployment": {must[[]factory.Refusals](t)(s.DeploymentRefusals(ctx, "d1", start, start.Add(time.Hour))), []factory.Refusals{
				refused(later, "", "", factory.LimitRequests, 1), refused(start, "", "", factory.LimitBudget, 1), refused(start, "", "", factory.LimitRequests, 22),
			}},
			"another deployment": {must[[]factory.Refusals](t)(s.DeploymentRefusals(ctx, "d2", start, start.Add(time.Hour))), nil},
			"somebody unknown":   {must[[]factory.Refusals](t)(s.Refusals(ctx, "t9", start, start.Add(time.Hour))), nil},
		} {
			if !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("%s: got %+v", what, c.got)
			}
		}
	})
}

func TestRefusalsOfSeveralGatewaysAreAllCounted(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 5 {
					var batch []factory.Refusals
					for i := range 700 { // more than one statement takes
						batch = append(batch, refused(start, "t1", fmt.Sprint("k", i), factory.LimitTokens, 1))
					}
					if err := s.AddRefusals(ctx, batch); err != nil {
						t.Errorf("add: %v", err)
					}
				}
			})
		}
		wg.Wait()
		got := must[[]factory.Refusals](t)(s.AllRefusals(ctx, start, start.Add(time.Minute)))
		for _, x := range got {
			if x.Count != 20 {
				t.Errorf("%s was counted %d times", x.KeyID, x.Count)
			}
		}
		if len(got) != 700 {
			t.Errorf("%d keys", len(got))
		}
	})
}

func TestOldRefusalsAreForgotten(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		var old []factory.Refusals
		for i := range 6000 { // more than one statement deletes
			old = append(old, refused(start, "t1", fmt.Sprint("k", i), factory.LimitTokens, 1))
		}
		ok(t, s.AddRefusals(ctx, old))
		ok(t, s.AddRefusals(ctx, []factory.Refusals{refused(start.AddDate(0, 0, 1), "t1", "k1", factory.LimitTokens, 1)}))
		left := func() int {
			return len(must[[]factory.Refusals](t)(s.AllRefusals(ctx, start, start.AddDate(0, 0, 2))))
		}
		ok(t, s.SweepRefusals(ctx, start.AddDate(0, 0, 400)))
		if n := left(); n != 6001 {
			t.Errorf("on their last day %d are left", n)
		}
		ok(t, s.SweepRefusals(ctx, start.AddDate(0, 0, 400).Add(time.Minute)))
		if n := left(); n != 1 {
			t.Errorf("a minute later %d are left", n)
		}
	})
}
