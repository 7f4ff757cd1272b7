package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// Charts must not show a thing more or less because the database merged.
func TestMergedBucketsMakeTheSameSeries(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		rng := rand.New(rand.NewPCG(1, 2))
		var r metrics.Recorder
		for at := start; at.Before(start.Add(3 * time.Hour)); at = at.Add(time.Duration(1+rng.IntN(90)) * time.Second) {
			for _, replica := range []string{"r1", "r2", ""} {
				for range 20 {
					// Zeros and large counts make every byte there is, also those that end a text.
					r.Observe(at, "d1", replica, metrics.TTFT, float64(rng.IntN(4)*rng.IntN(5000)), 1+rng.IntN(3)*rng.IntN(100000))
				}
				r.Observe(at, "d1", replica, metrics.KVCache, rng.Float64(), 1)
				r.Observe(at, "d1", replica, metrics.Requests, 1, 1)
				r.ObserveHistogram(at, metrics.Of{Deployment: "d1", Replica: replica}, metrics.EngineTTFT,
					metrics.Histogram{Bounds: []float64{1, 5, 10 + float64(rng.IntN(2))}, Counts: []float64{0, 1, 3}, Sum: 13, Count: 4})
			}
		}
		ok(t, s.MergeBuckets(ctx, r.Flush()))
		names := []metrics.Name{metrics.TTFT, metrics.KVCache, metrics.Requests, metrics.EngineTTFT, metrics.Failures}
		w := metrics.Window{From: start, To: start.Add(3 * time.Hour), Step: 5 * time.Minute}
		for _, replica := range []string{"", "r2"} {
			apart := must[[]metrics.Bucket](t)(s.Buckets(ctx, "d1", time.Minute, names, w.From, w.To))
			if replica != "" {
				apart = slices.DeleteFunc(apart, func(b metrics.Bucket) bool { return b.ReplicaID != replica })
			}
			merged := must[[]metrics.Bucket](t)(s.MergedBuckets(ctx, "d1", replica, w.Step, time.Minute, names, w.From, w.To))
			if len(merged) > 4*w.Points() || len(merged) < 4 {
				t.Errorf("%d buckets for %d steps of four metrics", len(merged), w.Points())
			}
			for _, name := range names {
				want, got := must[metrics.Series](t)(metrics.SeriesOf(name, w, apart)), must[metrics.Series](t)(metrics.SeriesOf(name, w, merged))
				if want.Summary.N != got.Summary.N || !alike(want.Summary.Sum, got.Summary.Sum) {
					t.Errorf("%s of %q: %v values with a sum of %v, want %v and %v", name, replica, got.Summary.N, got.Summary.Sum, want.Summary.N, want.Summary.Sum)
				}
				if !slices.Equal(want.N, got.N) {
					t.Errorf("%s of %q: %v values, want %v", name, replica, got.N, want.N)
				}
				for p := range want.Q {
					same(t, name, want.Q[p], got.Q[p])
				}
				same(t, name, want.Peak, got.Peak)
				same(t, name, want.Average, got.Average)
				if !slices.Equal(want.Summary.Histogram().Counts, got.Summary.Histogram().Counts) {
					t.Errorf("%s of %q: %v, want %v", name, replica, got.Summary.Histogram(), want.Summary.Histogram())
				}
			}
		}
		if got := must[[]metrics.Bucket](t)(s.MergedBuckets(ctx, "d1", "", time.Minute, time.Minute, nil, w.From, w.To)); len(got) != 0 {
			t.Errorf("%d buckets of no metric", len(got))
		}
		if got := must[[]string](t)(s.ReplicasMeasured(ctx, "d1", time.Minute, w.From, w.To)); !slices.Equal(got, []string{"r1", "r2"}) {
			t.Errorf("replicas %v", got)
		}
	})
}

func same(t *testing.T, name metrics.Name, want, got []*float64) {
	t.Helper()
	if !slices.EqualFunc(want, got, func(a, b *float64) bool { return a == nil && b == nil || a != nil && b != nil && alike(*a, *b) }) {
		t.Errorf("%s differs", name)
	}
}

// alike leaves room for sums that were added in another order.
func alike(a, b float64) bool { return a-b <= 1e-9*(1+max(a, b)) && b-a <= 1e-9*(1+max(a, b)) }
