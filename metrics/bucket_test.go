package metrics

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func latency(t *testing.T, at time.Time, values ...float64) Bucket {
	t.Helper()
	s := NewSketch()
	b := Bucket{DeploymentID: "d", ReplicaID: "r", Name: TTFT, Step: 10 * time.Second, Start: at}
	for _, v := range values {
		if err := s.Add(v, 1); err != nil {
			t.Fatal(err)
		}
		b.Count++
		b.Sum += v
		b.Max = max(b.Max, v)
	}
	b.Sketch = s.Encode()
	return b
}

func TestMergeAddsCountsAndKeepsThePeak(t *testing.T) {
	b := Bucket{Name: KVCache, Count: 2, Sum: -0.5, Max: -0.2}
	if err := b.Merge(Bucket{Name: KVCache, Count: 3, Sum: 1, Max: 0.7}); err != nil {
		t.Fatal(err)
	}
	if b.Count != 5 || b.Sum != 0.5 || b.Max != 0.7 {
		t.Errorf("%+v", b)
	}
	// An empty bucket has no peak, not a peak of zero.
	low := Bucket{Name: KVCache, Count: 1, Sum: -3, Max: -3}
	_ = low.Merge(Bucket{Name: KVCache})
	empty := Bucket{Name: KVCache}
	_ = empty.Merge(low)
	if low.Max != -3 || empty.Max != -3 {
		t.Errorf("peaks %v and %v, want -3", low.Max, empty.Max)
	}
}

func TestMergeRefusesAnotherMetric(t *testing.T) {
	b := Bucket{Name: TTFT, Count: 1}
	if b.Merge(Bucket{Name: ITL, Count: 1}) == nil || b.Count != 1 {
		t.Errorf("merged into %+v", b)
	}
}

func TestFailedMergeChangesNothing(t *testing.T) {
	b := latency(t, noon, 5)
	before := b
	broken := latency(t, noon, 7)
	broken.Sketch = []byte{0xff, 0xff}
	if b.Merge(broken) == nil {
		t.Fatal("a broken sketch was merged")
	}
	if b.Count != before.Count || b.Sum != before.Sum || b.Max != before.Max || !bytes.Equal(b.Sketch, before.Sketch) {
		t.Errorf("bucket is now %+v", b)
	}
}

func TestSpreadIsCompleteInEveryResolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var fine []Bucket
	want, sum, most := 0.0, 0.0, 0.0
	for range 500 {
		v := 1 + 100*rng.Float64()
		at := noon.Add(time.Duration(rng.IntN(3*3600)) * time.Second).Truncate(10 * time.Second)
		b := latency(t, at, v)
		b.ReplicaID = string(rune('a' + rng.IntN(3)))
		fine = append(fine, b)
		want, sum, most = want+1, sum+v, max(most, v)
	}
	spread, err := Spread(fine)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		replica string
		step    time.Duration
		start   time.Time
	}
	seen := map[place]bool{}
	for _, r := range Resolutions {
		n, total, sketched, peak := 0.0, 0.0, 0.0, 0.0
		for _, b := range spread {
			if b.Step != r.Step {
				continue
			}
			p := place{b.ReplicaID, b.Step, b.Start}
			if seen[p] {
				t.Errorf("two buckets at %v", p)
			}
			seen[p] = true
			if !b.Start.Equal(b.Start.Truncate(r.Step)) {
				t.Errorf("bucket of %s starts at %s", r.Step, b.Start)
			}
			s := NewSketch()
			if err := s.MergeEncoded(b.Sketch); err != nil {
				t.Fatal(err)
			}
			n, total, sketched, peak = n+b.Count, total+b.Sum, sketched+s.Count(), max(peak, b.Max)
		}
		if n != want || sketched != want || peak != most || total < sum-1e-6 || total > sum+1e-6 {
			t.Errorf("%s: %v values (%v in sketches), sum %v, peak %v; want %v, %v, %v", r.Step, n, sketched, total, peak, want, sum, most)
		}
	}
}

func TestSpreadDoesNotMakeCoarseDataFiner(t *testing.T) {
	spread, err := Spread([]Bucket{{Name: Requests, Step: time.Minute, Start: noon, Count: 1, Sum: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if len(spread) != 2 || spread[0].Step != time.Minute || spread[1].Step != time.Hour {
		t.Errorf("%+v", spread)
	}
}

func TestSpreadDoesNotChangeItsInput(t *testing.T) {
	fine := []Bucket{latency(t, noon, 1), latency(t, noon.Add(10*time.Second), 2)}
	first := bytes.Clone(fine[0].Sketch)
	if _, err := Spread(fine); err != nil {
		t.Fatal(err)
	}
	if fine[0].Count != 1 || fine[0].Step != 10*time.Second || !bytes.Equal(fine[0].Sketch, first) {
		t.Errorf("%+v", fine[0])
	}
}

func TestCheckRefusesWhatWouldBreakCharts(t *testing.T) {
	good := latency(t, noon, 5)
	if err := good.Check(); err != nil {
		t.Errorf("a good bucket: %v", err)
	}
	gauge := Bucket{DeploymentID: "d", Name: KVCache, Step: time.Minute, Start: noon, Count: 1, Sum: 0.5, Max: 0.5}
	if err := gauge.Check(); err != nil {
		t.Errorf("a good gauge: %v", err)
	}
	for what, spoil := range map[string]func(*Bucket){
		"no deployment":    func(b *Bucket) { b.DeploymentID = "" },
		"no name":          func(b *Bucket) { b.Name = "" },
		"another step":     func(b *Bucket) { b.Step = 7 * time.Second },
		"no step":          func(b *Bucket) { b.Step = 0 },
		"start in between": func(b *Bucket) { b.Start = b.Start.Add(time.Second) },
		"nothing in it":    func(b *Bucket) { b.Count = 0 },
		"NaN":              func(b *Bucket) { b.Sum = math.NaN() },
		"infinite":         func(b *Bucket) { b.Max = math.Inf(1) },
		"no sketch":        func(b *Bucket) { b.Sketch = nil },
		"broken sketch":    func(b *Bucket) { b.Sketch = b.Sketch[:1] },
		"gauge as latency": func(b *Bucket) { b.Name = KVCache },
	} {
		b := good
		spoil(&b)
		if b.Check() == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
