package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What the adder reads is what the library reads, of every kind of encoding.
func TestAddingUpIsMergingWithTheLibrary(t *testing.T) {
	for name, draw := range distributions {
		for _, n := range []int{1, 3, 40, 5000} {
			rng := rand.New(rand.NewPCG(uint64(n), 11))
			var sum adder
			want := NewSketch()
			var together []byte
			for range 30 {
				part := NewSketch()
				for range rng.IntN(n) + 1 {
					v := draw(rng)
					if rng.IntN(20) == 0 {
						v = 0
					}
					if err := part.Add(v, float64(1+rng.IntN(3))); err != nil {
						t.Fatal(err)
					}
				}
				encoded := part.Encode()
				if err := sum.addEncoded(encoded); err != nil {
					t.Fatal(err)
				}
				if err := want.Merge(part); err != nil {
					t.Fatal(err)
				}
				together = append(together, encoded...)
			}
			qs := []float64{0, 0.01, 0.5, 0.9, 0.95, 0.99, 1}
			if got := sum.quantiles(qs); !slices.Equal(got, want.Quantiles(qs)) {
				t.Errorf("%s: %v, the library has %v", name, got, want.Quantiles(qs))
			}
			sketch, err := sum.sketch()
			if err != nil || sketch.Count() != want.Count() || sketch.CountAbove(100) != want.CountAbove(100) {
				t.Errorf("%s: a sketch of %v values, want %v: %v", name, sketch.Count(), want.Count(), err)
			}
			var joined adder
			if err := joined.addEncoded(together); err != nil || !slices.Equal(joined.quantiles(qs), sum.quantiles(qs)) {
				t.Errorf("%s: written one after the other they are %v, one by one %v: %v", name, joined.quantiles(qs), sum.quantiles(qs), err)
			}
		}
	}
	if q := new(adder).quantiles(Percentiles); q != nil {
		t.Errorf("nothing has percentiles %v", q)
	}
}

// An agent may send a value at either end of what a float holds.
func TestFarBinsTakeLittleMemory(t *testing.T) {
	s := NewSketch()
	for _, v := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1, 1e300, math.MaxFloat64} {
		_ = s.Add(v, 1) // the library refuses what it cannot index
	}
	var a adder
	if err := a.addEncoded(s.Encode()); err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, p := range a.pages {
		if p != nil {
			pages++
		}
	}
	if pages == 0 || pages > 5 {
		t.Errorf("%d pages for five values", pages)
	}
}

func TestHistogramsWrittenOneAfterTheOtherAreTheirSum(t *testing.T) {
	one := Histogram{Bounds: []float64{10, 20, 40}, Counts: []float64{1, 2, 3}, Sum: 70, Count: 4}
	other := Histogram{Bounds: []float64{10, 40, 80}, Counts: []float64{2, 2, 5}, Sum: 90, Count: 5}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	w := Window{From: at, To: at.Add(time.Minute), Step: time.Minute}
	bucket := func(hs ...Histogram) Bucket {
		b := Bucket{Name: EngineTTFT, Step: time.Minute, Start: at}
		for _, h := range hs {
			b.Sketch = append(b.Sketch, h.Encode()...)
			b.Count += h.Count
			b.Sum += h.Sum
		}
		return b
	}
	want := one.Add(one).Add(other)
	for what, buckets := range map[string][]Bucket{"apart": {bucket(one), bucket(one), bucket(other)}, "joined": {bucket(one, one, other)}, "in part": {bucket(one, one), bucket(other)}} {
		s, err := SeriesOf(EngineTTFT, w, buckets)
		if err != nil {
			t.Fatal(err)
		}
		got := s.Summary.Histogram()
		if !slices.Equal(got.Bounds, want.Bounds) || !slices.Equal(got.Counts, want.Counts) || got.Sum != want.Sum || got.Count != want.Count {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	broken := bucket(one, one)
	broken.Sketch = broken.Sketch[:len(broken.Sketch)-1]
	if _, err := SeriesOf(EngineTTFT, w, []Bucket{broken}); err == nil {
		t.Error("a cut histogram is read")
	}
}
