package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// ofKeys are measurements of one deployment by several keys of several tenants, each
// beside those of everybody.
func ofKeys(rnd *rand.Rand, n int) []metrics.Bucket {
	r := &metrics.Recorder{}
	for range n {
		at := start.Add(time.Duration(rnd.IntN(200)) * time.Second)
		tenant := 1 + rnd.IntN(2)
		key := metrics.Of{Deployment: "d1", Tenant: fmt.Sprintf("t%d", tenant), Key: fmt.Sprintf("k%d%d", tenant, rnd.IntN(2))}
		for _, of := range []metrics.Of{{Deployment: "d1", Replica: "r1"}, key} {
			r.ObserveOf(at, of, metrics.Requests, 1, 1)
			r.ObserveOf(at, of, metrics.TTFT, float64(1+rnd.IntN(500)), 1)
		}
	}
	return r.Flush()
}

func TestATenantReadsItsOwnBucketsOnly(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		fine := ofKeys(rand.New(rand.NewPCG(3, 4)), 300)
		ok(t, s.MergeBuckets(ctx, fine))
		names := []metrics.Name{metrics.Requests, metrics.TTFT}
		read := func(tenant, key string, step time.Duration) []metrics.Bucket {
			t.Helper()
			return must[[]metrics.Bucket](t)(s.TenantBuckets(ctx, tenant, "d1", key, step, names, start, start.Add(time.Hour)))
		}
		for tenant, keys := range map[string][]string{"t1": {"", "k10", "k11"}, "t2": {"", "k20"}} {
			for _, key := range keys {
				want := map[metrics.Name]float64{}
				for _, b := range fine {
					if b.TenantID == tenant && (key == "" || b.KeyID == key) {
						want[b.Name] += b.Count
					}
				}
				got := map[metrics.Name]float64{}
				for _, b := range read(tenant, key, time.Minute) {
					if b.TenantID != tenant || b.Step != time.Minute || (key != "" && b.KeyID != key) {
						t.Fatalf("tenant %s, key %q got a bucket of %+v", tenant, key, b.Place())
					}
					got[b.Name] += b.Count
				}
				if len(want) != 2 || !reflect.DeepEqual(got, want) {
					t.Errorf("tenant %s, key %q: %v, want %v", tenant, key, got, want)
				}
			}
		}
		for _, none := range [][2]string{{"t1", "k20"}, {"", ""}, {"", "k10"}, {"t3", ""}} {
			if got := read(none[0], none[1], time.Minute); len(got) != 0 {
				t.Errorf("tenant %q, key %q: %d buckets", none[0], none[1], len(got))
			}
		}
		want := []store.Measured{{TenantID: "t1", KeyID: "k10"}, {TenantID: "t1", KeyID: "k11"}, {TenantID: "t2", KeyID: "k20"}, {TenantID: "t2", KeyID: "k21"}}
		ok(t, s.DeleteTenant(ctx, "t2")) // what it did is history, and stays
		if got := must[[]store.Measured](t)(s.DeploymentKeysMeasured(ctx, "d1", start.Add(30*time.Minute), start.Add(time.Hour))); !reflect.DeepEqual(got, want) {
			t.Errorf("keys %+v, want %+v", got, want)
		}
		for _, c := range []struct {
			deployment string
			from       time.Time
		}{{"d2", start}, {"d1", start.Add(time.Hour)}} {
			if got := must[[]store.Measured](t)(s.DeploymentKeysMeasured(ctx, c.deployment, c.from, start.Add(2*time.Hour))); len(got) != 0 {
				t.Errorf("%s from %s: %+v", c.deployment, c.from, got)
			}
		}
	})
}

func TestMergedInTheDatabaseIsMergedAllTheSame(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		rnd := rand.New(rand.NewPCG(5, 6))
		r := &metrics.Recorder{}
		for range 2000 {
			at := start.Add(time.Duration(rnd.IntN(3000)) * time.Second)
			replica := fmt.Sprintf("r%d", rnd.IntN(3))
			if at.Minute()%7 != 0 { // with gaps
				r.Observe(at, "d1", replica, metrics.Running, float64(rnd.IntN(50)), 1)
			}
			r.Observe(at, "d1", replica, metrics.OutputTokens, float64(rnd.IntN(900)), 1)
			r.ObserveOf(at, metrics.Of{Deployment: "d1", Tenant: "t1", Key: "k1"}, metrics.OutputTokens, 1e6, 1) // beside, never in it
		}
		ok(t, s.MergeBuckets(ctx, r.Flush()))
		names := []metrics.Name{metrics.Running, metrics.OutputTokens}
		end := start.Add(50 * time.Minute)
		for _, w := range []metrics.Window{
			{From: start, To: end, Step: 30 * time.Second},
			{From: start, To: end, Step: 5 * time.Minute},
			{From: start.Add(2 * time.Minute), To: end.Add(-time.Minute), Step: 5 * time.Minute}, // where no step begins by the clock
			{From: start.Add(-96 * time.Hour), To: end, Step: 96 * time.Hour},
		} {
			base := metrics.Base(w.Step, 0)
			whole := must[[]metrics.Bucket](t)(s.Buckets(ctx, "d1", base, names, w.From, w.To))
			plain := must[[]metrics.Bucket](t)(s.PlainBuckets(ctx, "d1", w.Step, base, names, w.From, w.To))
			if len(plain) == 0 || len(plain) > 2*w.Points() {
				t.Errorf("%s: %d rows for %d points", w.Step, len(plain), w.Points())
			}
			for _, name := range names {
				want := must[metrics.Series](t)(metrics.SeriesOf(name, w, whole))
				got := must[metrics.Series](t)(metrics.SeriesOf(name, w, plain))
				if want.Summary.N == 0 || !reflect.DeepEqual(got, want) {
					t.Errorf("%s at %s\n got %+v\nwant %+v", name, w.Step, got.Summary, want.Summary)
				}
			}
		}
		if got := must[[]metrics.Bucket](t)(s.PlainBuckets(ctx, "d1", time.Minute, time.Minute, nil, start, end)); len(got) != 0 {
			t.Errorf("without names: %+v", got)
		}
	})
}

func TestATenantFindsWhatIsSharedWithItOrServedIt(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		other := factory.Tenant{ID: "t9", Name: "other", Title: "Other", CreatedAt: start}
		ok(t, s.CreateTenant(ctx, other))
		both := w.newDeployment("d2", "both")
		both.TenantIDs, both.Tenants = append(both.TenantIDs, other.ID), append(both.Tenants, other.Name)
		ok(t, s.CreateDeployment(ctx, both))
		find := func(tenant, ref string) (factory.Deployment, error) { return s.TenantDeployment(ctx, tenant, ref) }
		for _, ref := range []string{"d2", "both", "public/both"} {
			d := must[factory.Deployment](t)(find(other.ID, ref))
			if d.ID != "d2" || d.Price == nil || !reflect.DeepEqual(d.TenantIDs, []string{other.ID}) || !reflect.DeepEqual(d.Tenants, []string{"other"}) {
				t.Errorf("%s: %s, price %v, shared with %v %v", ref, d.ID, d.Price, d.TenantIDs, d.Tenants)
			}
		}
		for _, none := range [][2]string{{other.ID, "d1"}, {other.ID, "small"}, {"", "d1"}, {"t2", "d1"}, {other.ID, "no-such"}} {
			if d, err := find(none[0], none[1]); factory.KindOf(err) != factory.NotFound {
				t.Errorf("tenant %q finds %q: %s, %v", none[0], none[1], d.ID, err)
			}
		}
		// It was shared once, and is measured still; what it costs now is no affair of the tenant's.
		r := &metrics.Recorder{}
		r.ObserveOf(start, metrics.Of{Deployment: "d1", Tenant: other.ID, Key: "k9"}, metrics.Requests, 1, 1)
		r.ObserveOf(start.Add(time.Minute), metrics.Of{Deployment: "d1", Tenant: other.ID, Key: "k8"}, metrics.E2E, 5, 1)
		r.ObserveOf(start.Add(time.Hour), metrics.Of{Deployment: "d1", Tenant: w.acme.ID, Key: "k1"}, metrics.Requests, 1, 1)
		r.Observe(start.Add(2*time.Hour), "d1", "r1", metrics.E2E, 5, 1)
		ok(t, s.MergeBuckets(ctx, r.Flush()))
		if d := must[factory.Deployment](t)(find(other.ID, "small")); d.ID != "d1" || d.Price != nil || d.InputPrice != "" || len(d.TenantIDs) > 0 {
			t.Errorf("%s with price %v for %v", d.ID, d.Price, d.TenantIDs)
		}
		last := func(tenant, key string, name metrics.Name) (time.Time, error) {
			return s.TenantLastAt(ctx, tenant, "d1", key, name)
		}
		if at := must[time.Time](t)(last(other.ID, "", metrics.E2E)); !at.Equal(start.Add(time.Minute)) {
			t.Errorf("last request at %s", at)
		}
		for _, none := range [][2]string{{other.ID, "k9"}, {w.acme.ID, ""}, {"", ""}} {
			if at, err := last(none[0], none[1], metrics.E2E); factory.KindOf(err) != factory.NotFound {
				t.Errorf("tenant %q, key %q: last at %s, %v", none[0], none[1], at, err)
			}
		}
		if keys := must[[]string](t)(s.TenantKeysMeasured(ctx, other.ID, "d1", start, start.Add(time.Hour))); !reflect.DeepEqual(keys, []string{"k9"}) {
			t.Errorf("keys %v", keys)
		}
		for _, tenant := range []string{"", "t2"} {
			if keys := must[[]string](t)(s.TenantKeysMeasured(ctx, tenant, "d1", start, start.Add(3*time.Hour))); len(keys) > 0 {
				t.Errorf("tenant %q has keys %v", tenant, keys)
			}
		}
	})
}
