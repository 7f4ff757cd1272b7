package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func of(bounds, counts []float64, count float64) Histogram {
	return Histogram{Bounds: bounds, Counts: counts, Count: count}
}

func wantValue(t *testing.T, what string, e Estimate, want float64) {
	t.Helper()
	if e.Value == nil || math.Abs(*e.Value-want) > 1e-9 || e.Above != nil {
		t.Errorf("%s: %s, want %v", what, text(e), want)
	}
}

func text(e Estimate) string {
	b, _ := json.Marshal(e)
	return string(b)
}

func TestCaseEM06FasterThanTheFirstBucketIsFlagged(t *testing.T) {
	h := of([]float64{0.3, 0.5}, []float64{200, 200}, 200)
	h.Sum = 8
	e := h.Quantile(0.99)
	wantValue(t, "p99", e, 0.297)
	if e.AtMost == nil || *e.AtMost != 0.3 {
		t.Errorf("not flagged as below resolution: %s", text(e))
	}
	if m := h.Mean(); m == nil || *m != 0.04 {
		t.Errorf("mean %v", m)
	}
}

func TestCaseEM07SlowTailIsAboveTheBoundNotTheBound(t *testing.T) {
	h := of([]float64{30, 60}, []float64{80, 90}, 100)
	wantValue(t, "p50", h.Quantile(0.5), 18.75)
	for _, q := range []float64{0.95, 0.99} {
		if e := h.Quantile(q); e.Value != nil || e.Above == nil || *e.Above != 60 {
			t.Errorf("p%v: %s", q*100, text(e))
		}
	}
}

func TestCaseEM08ReplicasAreMergedNotAveraged(t *testing.T) {
	bounds := []float64{0.1, 5, 10}
	a, b := of(bounds, []float64{900, 900, 900}, 900), of(bounds, []float64{0, 0, 100}, 100)
	h := a.Add(b)
	wantValue(t, "p95", h.Quantile(0.95), 7.5)
	wantValue(t, "p50", h.Quantile(0.5), 0.1*500/900)
}

func TestQuantilesOfNothing(t *testing.T) {
	for what, h := range map[string]Histogram{"empty": {}, "no samples": of([]float64{1}, []float64{0}, 0), "no bounds": {Count: 5}} {
		if e := h.Quantile(0.5); e.Value != nil || e.Above != nil || e.AtMost != nil {
			t.Errorf("%s: %s", what, text(e))
		}
	}
	if e := of([]float64{1}, []float64{1}, 1).Quantile(1.5); e.Value != nil {
		t.Errorf("a quantile above 1: %s", text(e))
	}
	if (Histogram{}).Mean() != nil {
		t.Error("a mean of nothing")
	}
}

func TestQuantileSkipsEmptyBuckets(t *testing.T) {
	h := of([]float64{1, 2, 4, 8}, []float64{0, 0, 10, 10}, 10)
	wantValue(t, "p0", h.Quantile(0), 2)
	wantValue(t, "p50", h.Quantile(0.5), 3)
	wantValue(t, "p100", h.Quantile(1), 4)
	if e := h.Quantile(0.5); e.AtMost != nil {
		t.Errorf("flagged although it is not in the first bucket: %s", text(e))
	}
}

func TestFirstBoundOfZero(t *testing.T) {
	h := of([]float64{0, 1}, []float64{5, 10}, 10)
	wantValue(t, "p25", h.Quantile(0.25), 0)
	wantValue(t, "p75", h.Quantile(0.75), 0.5)
}

func TestBucketThatLagsBehindDoesNotBreakTheOrder(t *testing.T) {
	h := of([]float64{1, 2, 4}, []float64{10, 9, 12}, 12)
	wantValue(t, "p92", h.Quantile(11.0/12), 3)
	for q := 0.0; q <= 1; q += 0.05 {
		if e := h.Quantile(q); e.Value == nil || *e.Value < 0 || *e.Value > 4 || math.IsNaN(*e.Value) {
			t.Errorf("p%v: %s", q*100, text(e))
		}
	}
}

func TestQuantilesGrowAndLieInTheirBucket(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var h Histogram
		var values []float64
		for b := rng.Float64(); len(h.Bounds) < 12; b *= 1.2 + rng.Float64() {
			h.Bounds = append(h.Bounds, b)
		}
		for range 1 + rng.IntN(200) {
			values = append(values, rng.ExpFloat64()*h.Bounds[5])
		}
		slices.Sort(values)
		for _, b := range h.Bounds {
			n, _ := slices.BinarySearch(values, math.Nextafter(b, math.Inf(1)))
			h.Counts = append(h.Counts, float64(n))
		}
		h.Count = float64(len(values))
		last := 0.0
		for q := 0.01; q < 1; q += 0.01 {
			e := h.Quantile(q)
			if e.Value == nil {
				if e.Above == nil {
					t.Fatalf("p%v of %+v: %s", q*100, h, text(e))
				}
				last = math.Inf(1)
				continue
			}
			if *e.Value < last {
				t.Fatalf("p%v is %v after %v", q*100, *e.Value, last)
			}
			last = *e.Value
			// The true value is in the same bucket.
			want := values[min(int(math.Ceil(q*h.Count))-1, len(values)-1)]
			i, _ := slices.BinarySearch(h.Bounds, want)
			low := 0.0
			if i > 0 {
				low = h.Bounds[i-1]
			}
			if i < len(h.Bounds) && (last < low-1e-9 || last > h.Bounds[i]+1e-9) {
				t.Fatalf("p%v is %v, the true %v lies in %v to %v", q*100, last, want, low, h.Bounds[i])
			}
		}
	}
}

func TestAddingOtherBoundsKeepsTheCommonOnes(t *testing.T) {
	a := of([]float64{1, 2, 5}, []float64{1, 3, 4}, 6)
	b := of([]float64{0.5, 2, 5, 9}, []float64{2, 4, 4, 5}, 5)
	sum := a.Add(b)
	if !slices.Equal(sum.Bounds, []float64{2, 5}) || !slices.Equal(sum.Counts, []float64{7, 8}) || sum.Count != 11 {
		t.Errorf("%+v", sum)
	}
	if back := b.Add(a); !slices.Equal(back.Counts, sum.Counts) || !slices.Equal(back.Bounds, sum.Bounds) {
		t.Errorf("the other way round: %+v", back)
	}
}

func TestSubIsWhatHappenedInBetween(t *testing.T) {
	before := Histogram{Bounds: []float64{1, 2}, Counts: []float64{1, 2}, Sum: 3, Count: 3}
	after := Histogram{Bounds: []float64{1, 2}, Counts: []float64{4, 6}, Sum: 10, Count: 8}
	d, reset := after.Sub(before)
	if reset || !slices.Equal(d.Counts, []float64{3, 4}) || d.Sum != 7 || d.Count != 5 {
		t.Errorf("%+v, reset %v", d, reset)
	}
	if d, reset := after.Sub(after); reset || d.Count != 0 || d.Quantile(0.5).Value != nil {
		t.Errorf("nothing happened: %+v, reset %v", d, reset)
	}
	if d, reset := after.Sub(Histogram{}); reset || d.Count != 8 {
		t.Errorf("first scrape of a new engine: %+v, reset %v", d, reset)
	}
}

func TestSubRecognisesARestart(t *testing.T) {
	after := Histogram{Bounds: []float64{1, 2}, Counts: []float64{1, 2}, Sum: 3, Count: 3}
	for what, before := range map[string]Histogram{
		"count fell":     {Bounds: []float64{1, 2}, Counts: []float64{1, 2}, Sum: 1, Count: 4},
		"a bucket fell":  {Bounds: []float64{1, 2}, Counts: []float64{2, 2}, Sum: 1, Count: 2},
		"another bound":  {Bounds: []float64{1, 3}, Counts: []float64{1, 1}, Sum: 1, Count: 1},
		"one bound more": {Bounds: []float64{1, 2, 3}, Counts: []float64{1, 1, 1}, Sum: 1, Count: 1},
	} {
		d, reset := after.Sub(before)
		if !reset || d.Count != 3 || d.Sum != 3 || !slices.Equal(d.Counts, []float64{1, 2}) {
			t.Errorf("%s: %+v, reset %v", what, d, reset)
		}
	}
}
