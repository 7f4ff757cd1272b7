package metrics

import (
	"math"
	"sync"
	"testing"
	"time"
)

func TestObservationsOfOneStepAreOneBucket(t *testing.T) {
	var r Recorder
	r.Observe(noon.Add(time.Second), "d", "r", TTFT, 100, 1)
	r.Observe(noon.Add(9999*time.Millisecond), "d", "r", TTFT, 300, 2)
	r.Observe(noon.Add(10*time.Second), "d", "r", TTFT, 5, 1)
	r.Observe(noon, "d", "other", TTFT, 5, 1)
	got := r.Flush()
	if len(got) != 3 {
		t.Fatalf("%d buckets, want 3: %+v", len(got), got)
	}
	for _, b := range got {
		if b.ReplicaID == "r" && b.Start.Equal(noon) {
			if b.Count != 3 || b.Sum != 700 || b.Max != 300 || b.Step != 10*time.Second || len(b.Sketch) == 0 {
				t.Errorf("%+v", b)
			}
		}
	}
	if again := r.Flush(); len(again) != 0 {
		t.Errorf("flushed twice: %+v", again)
	}
}

func TestGaugesAndCountersHaveNoSketch(t *testing.T) {
	var r Recorder
	r.Observe(noon, "d", "r", KVCache, 0.5, 1)
	r.Observe(noon, "d", "r", Requests, 1, 1)
	for _, b := range r.Flush() {
		if b.Sketch != nil {
			t.Errorf("%s has a sketch", b.Name)
		}
	}
}

func TestZoneOfTheObservationDoesNotMatter(t *testing.T) {
	var r Recorder
	r.Observe(noon, "d", "r", TTFT, 1, 1)
	r.Observe(noon.In(time.FixedZone("half", 5*3600+1800)), "d", "r", TTFT, 1, 1)
	if got := r.Flush(); len(got) != 1 || got[0].Start.Location() != time.UTC {
		t.Errorf("%+v", got)
	}
}

func TestValuesThatAreNoneLeaveNoTrace(t *testing.T) {
	var r Recorder
	for _, name := range []Name{TTFT, KVCache, Requests} {
		r.Observe(noon, "d", "r", name, math.NaN(), 1)
		r.Observe(noon, "d", "r", name, math.Inf(1), 1)
		r.Observe(noon, "d", "r", name, 1, 0)
	}
	r.Observe(noon, "d", "r", TTFT, -1, 1)
	if got := r.Flush(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRecorderLosesNothingWhileItIsFlushed(t *testing.T) {
	const writers, each = 8, 4000
	var r Recorder
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				// Few cells, so that writers and flushes meet in them.
				r.Observe(noon.Add(time.Duration(i%3)*10*time.Second), "d", string(rune('a'+w%2)), TTFT, float64(1+i%50), 1)
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	count, sum, sketched := 0.0, 0.0, NewSketch()
	gather := func() {
		for _, b := range r.Flush() {
			count, sum = count+b.Count, sum+b.Sum
			if err := sketched.MergeEncoded(b.Sketch); err != nil {
				t.Error(err)
			}
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			gather()
		}
	}
	gather()
	want := 0.0
	for i := range each {
		want += float64(1 + i%50)
	}
	if count != writers*each || sketched.Count() != writers*each || sum != writers*want {
		t.Errorf("%v observations (%v in sketches) with sum %v, want %d with %v", count, sketched.Count(), sum, writers*each, writers*want)
	}
}
