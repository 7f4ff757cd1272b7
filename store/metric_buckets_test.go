package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// observed makes buckets of a few metrics and replicas over a few minutes. Values
// are whole, so that sums do not depend on the order of adding.
func observed(rnd *rand.Rand, n int) []metrics.Bucket {
	r := &metrics.Recorder{}
	for range n {
		at := start.Add(time.Duration(rnd.IntN(200)) * time.Second)
		replica := fmt.Sprintf("r%d", rnd.IntN(3))
		r.Observe(at, "d1", replica, metrics.TTFT, float64(1+rnd.IntN(500)), 1)
		r.Observe(at, "d1", replica, metrics.KVCache, float64(rnd.IntN(5)), 1)
		r.Observe(at, "d1", replica, metrics.Requests, 1, 1)
	}
	return r.Flush()
}

var someNames = []metrics.Name{metrics.KVCache, metrics.Requests, metrics.TTFT}

func everything(t *testing.T, s *store.Store) []metrics.Bucket {
	t.Helper()
	var out []metrics.Bucket
	for _, r := range metrics.Resolutions {
		out = append(out, must[[]metrics.Bucket](t)(s.Buckets(t.Context(), "d1", r.Step, someNames, start.Add(-time.Hour), start.Add(2*time.Hour)))...)
	}
	return out
}

// compare checks counts, sums, peaks and percentiles; encodings of equal sketches may differ.
func compare(t *testing.T, got, want []metrics.Bucket) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d buckets, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if qg, qw := percentiles(t, g), percentiles(t, w); !reflect.DeepEqual(qg, qw) {
			t.Errorf("%s of %s at %s: percentiles %v, want %v", g.Name, g.ReplicaID, g.Start, qg, qw)
		}
		g.Sketch, w.Sketch = nil, nil
		if !reflect.DeepEqual(g, w) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
}

func percentiles(t *testing.T, b metrics.Bucket) []float64 {
	t.Helper()
	s := metrics.NewSketch()
	ok(t, s.MergeEncoded(b.Sketch))
	return append(s.Quantiles(metrics.Percentiles), s.Count())
}

// expected is what a store must hold: all of it spread and merged at once.
func expected(t *testing.T, batches ...[]metrics.Bucket) []metrics.Bucket {
	t.Helper()
	want := must[[]metrics.Bucket](t)(metrics.Spread(slices.Concat(batches...)))
	slices.SortFunc(want, func(a, b metrics.Bucket) int {
		key := func(b metrics.Bucket) string {
			return fmt.Sprintf("%09d %s %d %s", int(b.Step.Seconds()), b.Name, b.Start.Unix(), b.ReplicaID)
		}
		if key(a) < key(b) {
			return -1
		}
		return 1
	})
	return want
}

func TestBucketsMergeInAnyOrder(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var batches [][]metrics.Bucket
		for range 12 {
			batches = append(batches, observed(rnd, 40))
		}
		want := expected(t, batches...)
		rnd.Shuffle(len(batches), func(i, j int) { batches[i], batches[j] = batches[j], batches[i] })
		for _, b := range batches {
			ok(t, s.MergeBuckets(t.Context(), b))
		}
		compare(t, everything(t, s), want)
		if at := must[time.Time](t)(s.LastBucketAt(t.Context(), "d1", metrics.TTFT)); at.Before(start.Add(150*time.Second)) || at.After(start.Add(200*time.Second)) {
			t.Errorf("last bucket at %s", at)
		}
	})
}

func TestNothingIsLostWhenManyMergeAtOnce(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		node := w.join(t, "a", "m-a", start)
		var batches [][]metrics.Bucket
		for i := range 24 {
			batches = append(batches, observed(rand.New(rand.NewPCG(uint64(i), 9)), 30))
		}
		errs := make([]error, len(batches))
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := g; i < len(batches); i += 8 {
					errs[i] = s.MergeBuckets(t.Context(), batches[i])
				}
			})
		}
		// Reports merge too, with a lock on their node in hand.
		report := observed(rand.New(rand.NewPCG(99, 9)), 30)
		wg.Go(func() {
			if err := s.SaveReport(t.Context(), node.ID, factory.NodeReport{ReceivedAt: start, AckSeq: 1}, report); err != nil {
				t.Errorf("report: %v", err)
			}
		})
		wg.Wait()
		for _, err := range errs {
			ok(t, err)
		}
		compare(t, everything(t, s), expected(t, append(batches, report)...))
	})
}

// overlap starts second while first's transaction is open, and gives it time to get
// as far as it can before first commits.
func overlap(t *testing.T, s *store.Store, first func(tx *store.Store) error, second func() error) error {
	t.Helper()
	done := make(chan error, 1)
	ok(t, s.InTx(t.Context(), func(tx *store.Store) error {
		if err := first(tx); err != nil {
			return err
		}
		go func() { done <- second() }()
		select {
		case err := <-done:
			done <- err
		case <-time.After(200 * time.Millisecond):
		}
		return nil
	}))
	return <-done
}

func TestABucketThatSomebodyElseIsWritingIsNotOverwritten(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		latency := func() []metrics.Bucket {
			r := &metrics.Recorder{}
			r.Observe(start, "d1", "r1", metrics.TTFT, 100, 1)
			return r.Flush()
		}
		for want := 2.0; want <= 4; want += 2 { // a new place, then one that is there
			ok(t, overlap(t, s, func(tx *store.Store) error { return tx.MergeBuckets(t.Context(), latency()) },
				func() error { return s.MergeBuckets(t.Context(), latency()) }))
			if b := kept(t, s, metrics.TTFT, time.Hour); len(b) != 1 || b[0].Count != want || percentiles(t, b[0])[4] != want {
				t.Fatalf("kept %+v, want %v samples", b, want)
			}
		}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 25 {
					if err := s.MergeBuckets(t.Context(), latency()); err != nil {
						t.Errorf("merge: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if b := kept(t, s, metrics.TTFT, time.Hour); len(b) != 1 || b[0].Count != 154 || percentiles(t, b[0])[4] != 154 {
			t.Errorf("kept %+v, want 154 samples", b)
		}
	})
}

func TestBucketsAreReadByRange(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ok(t, s.MergeBuckets(ctx, nil))
		ok(t, s.MergeBuckets(ctx, []metrics.Bucket{gauge(1, start), gauge(2, start.Add(10*time.Second)), gauge(3, start.Add(20*time.Second))}))
		got := must[[]metrics.Bucket](t)(s.Buckets(ctx, "d1", 10*time.Second, []metrics.Name{metrics.KVCache}, start.Add(10*time.Second), start.Add(20*time.Second)))
		if len(got) != 1 || got[0].Sum != 2 {
			t.Errorf("got %+v", got)
		}
		if got := must[[]metrics.Bucket](t)(s.Buckets(ctx, "d1", 10*time.Second, nil, start, start.Add(time.Hour))); len(got) != 0 {
			t.Errorf("without names: %+v", got)
		}
		if got := must[[]metrics.Bucket](t)(s.Buckets(ctx, "d2", 10*time.Second, someNames, start, start.Add(time.Hour))); len(got) != 0 {
			t.Errorf("of another deployment: %+v", got)
		}
		bad := gauge(1, start)
		bad.Name, bad.Sketch = metrics.TTFT, []byte{1, 2, 3}
		wantKind(t, s.MergeBuckets(ctx, []metrics.Bucket{gauge(9, start), bad}), factory.Invalid)
		if got := kept(t, s, metrics.KVCache, 10*time.Second); len(got) != 3 || got[0].Sum != 1 {
			t.Errorf("half of a refused batch was kept: %+v", got)
		}
	})
}

func TestBackfilledBucketsStayAsTheyAre(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		var past []metrics.Bucket
		for i := range 20000 {
			b := gauge(float64(i), start.Add(time.Duration(i-20000)*time.Minute))
			b.Step = time.Minute
			past = append(past, b)
		}
		ok(t, s.BackfillBuckets(ctx, past))
		changed := past[0]
		changed.Sum = -1
		ok(t, s.BackfillBuckets(ctx, []metrics.Bucket{changed}))
		got := must[[]metrics.Bucket](t)(s.Buckets(ctx, "d1", time.Minute, []metrics.Name{metrics.KVCache}, start.AddDate(0, 0, -30), start))
		if !reflect.DeepEqual(got, past) {
			t.Errorf("%d rows, first %+v", len(got), got[0])
		}
		if got := kept(t, s, metrics.KVCache, time.Hour); len(got) != 0 {
			t.Errorf("spread although told not to: %d", len(got))
		}
		// A sweep takes what is too old in its own resolution, in more than one batch.
		ok(t, s.SweepBuckets(ctx, start))
		got = must[[]metrics.Bucket](t)(s.Buckets(ctx, "d1", time.Minute, []metrics.Name{metrics.KVCache}, start.AddDate(0, 0, -30), start))
		if want := 8 * 24 * 60; len(got) != want || got[0].Start.Before(start.AddDate(0, 0, -8)) {
			t.Errorf("%d rows are left, want %d", len(got), want)
		}
	})
}

func TestTheNewestBucketIsFoundInTheResolutionThatStillHasIt(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ok(t, s.MergeBuckets(ctx, []metrics.Bucket{gauge(1, start.Add(30*time.Second))}))
		for _, c := range []struct {
			later time.Duration
			want  time.Time
		}{{0, start.Add(30 * time.Second)}, {7 * time.Hour, start}, {9 * 24 * time.Hour, start}} {
			ok(t, s.SweepBuckets(ctx, start.Add(c.later)))
			if at := must[time.Time](t)(s.LastBucketAt(ctx, "d1", metrics.KVCache)); !at.Equal(c.want) {
				t.Errorf("%s later: %s", c.later, at)
			}
		}
		ok(t, s.SweepBuckets(ctx, start.AddDate(2, 0, 0)))
		wantKind(t, second(s.LastBucketAt(ctx, "d1", metrics.KVCache)), factory.NotFound)
	})
}
