package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	enc "github.com/DataDog/sketches-go/ddsketch/encoding"
)

// Durations in milliseconds as three kinds of traffic make them.
var distributions = map[string]func(*rand.Rand) float64{
	"log-normal":   func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()*1.2 + 5) },
	"uniform":      func(r *rand.Rand) float64 { return 1 + 9999*r.Float64() },
	"heavy tailed": func(r *rand.Rand) float64 { return 20 / math.Pow(1-r.Float64(), 1/1.1) },
	"two humps": func(r *rand.Rand) float64 {
		if r.IntN(10) == 0 {
			return 30000 + 5000*r.Float64()
		}
		return 40 + 10*r.Float64()
	},
}

func exact(sorted []float64, q float64) float64 {
	return sorted[max(1, int(math.Ceil(q*float64(len(sorted)))))-1]
}

func checkQuantiles(t *testing.T, what string, s *Sketch, values []float64) {
	t.Helper()
	slices.Sort(values)
	for i, got := range s.Quantiles(Percentiles) {
		want := exact(values, Percentiles[i])
		if math.Abs(got-want) > 0.01*want+1e-9 {
			t.Errorf("%s: p%v of %d values is %v, want %v within 1 %%", what, 100*Percentiles[i], len(values), got, want)
		}
	}
}

func TestPercentilesAreWithinOnePercent(t *testing.T) {
	for name, draw := range distributions {
		for _, n := range []int{1, 2, 10, 1000, 100000} {
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			s := NewSketch()
			values := make([]float64, n)
			for i := range values {
				values[i] = draw(rng)
				if err := s.Add(values[i], 1); err != nil {
					t.Fatal(err)
				}
			}
			checkQuantiles(t, name, s, values)
		}
	}
}

func TestMergingIsFreeOfOrderAndLosesNoAccuracy(t *testing.T) {
	for name, draw := range distributions {
		rng := rand.New(rand.NewPCG(3, 4))
		var values []float64
		parts := make([]*Sketch, 40)
		for i := range parts {
			parts[i] = NewSketch()
			for range rng.IntN(300) {
				v := draw(rng)
				values = append(values, v)
				_ = parts[i].Add(v, 1)
			}
		}
		var first []float64
		for range 5 {
			rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			// In a tree with random branches, each of them encoded, as buckets are.
			pool := make([][]byte, len(parts))
			for i, p := range parts {
				pool[i] = p.Encode()
			}
			for len(pool) > 1 {
				n := min(2+rng.IntN(4), len(pool))
				s := NewSketch()
				for _, b := range pool[:n] {
					if err := s.MergeEncoded(b); err != nil {
						t.Fatal(err)
					}
				}
				pool = append(pool[n:], s.Encode())
			}
			merged := NewSketch()
			if err := merged.MergeEncoded(pool[0]); err != nil {
				t.Fatal(err)
			}
			if merged.Count() != float64(len(values)) {
				t.Fatalf("%s: %v values after merging, want %d", name, merged.Count(), len(values))
			}
			checkQuantiles(t, name+" merged", merged, values)
			got := merged.Quantiles(Percentiles)
			if first == nil {
				first = got
			}
			if !slices.Equal(first, got) {
				t.Errorf("%s: another order gives %v instead of %v", name, got, first)
			}
		}
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) {
	s := NewSketch()
	for _, v := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if s.Add(v, 1) == nil {
			t.Errorf("%v was taken", v)
		}
	}
	if s.Add(1, 0) == nil || s.Add(1, -1) == nil {
		t.Error("a count below one was taken")
	}
	if s.Count() != 0 || s.Quantiles(Percentiles) != nil {
		t.Error("a refused value was kept")
	}
}

func TestZeroIsADuration(t *testing.T) {
	s := NewSketch()
	_ = s.Add(0, 3)
	if got := s.Quantiles([]float64{0.5}); len(got) != 1 || got[0] != 0 {
		t.Errorf("p50 of zeros is %v", got)
	}
}

func TestWeightsCountAsRepeats(t *testing.T) {
	a, b := NewSketch(), NewSketch()
	for v := 1.0; v <= 100; v++ {
		_ = a.Add(v, 5)
		for range 5 {
			_ = b.Add(v, 1)
		}
	}
	if !slices.Equal(a.Quantiles(Percentiles), b.Quantiles(Percentiles)) || a.Count() != b.Count() {
		t.Errorf("%v and %v", a.Quantiles(Percentiles), b.Quantiles(Percentiles))
	}
}

func TestCountAboveABound(t *testing.T) {
	s := NewSketch()
	for v := 1.0; v <= 1000; v++ {
		_ = s.Add(v, 1)
	}
	// The bound itself is uncertain by 1 %, so the count is by 1 % of the bound.
	if got := s.CountAbove(500); got < 490 || got > 510 {
		t.Errorf("%v of 1 to 1000 lie above 500", got)
	}
	if got := s.CountAbove(2000); got != 0 {
		t.Errorf("%v of 1 to 1000 lie above 2000", got)
	}
}

func TestBytesThatAreNoSketchAreRefused(t *testing.T) {
	good := NewSketch()
	for v := 1.0; v < 400; v++ {
		_ = good.Add(v, 1)
	}
	_ = good.Add(0, 2)
	encoded := good.Encode()
	for what, b := range map[string][]byte{
		"noise":              {0xff, 0xff, 0x01},
		"an unknown flag":    {0xfc},
		"cut":                encoded[:len(encoded)-1],
		"cut in the middle":  encoded[:len(encoded)/2],
		"a bin far away":     bins(enc.BinEncodingIndexDeltas, 1, 1<<40),
		"a page far away":    bins(enc.BinEncodingContiguousCounts, 1, 1<<40, 1, 2),
		"more bins than fit": bins(enc.BinEncodingIndexDeltas, 1<<30, 1),
	} {
		s := NewSketch()
		_ = s.Add(7, 1)
		if s.MergeEncoded(b) == nil {
			t.Errorf("%s: no error", what)
		}
		if s.Count() != 1 {
			t.Errorf("%s: %v values after a refused merge", what, s.Count())
		}
	}
	if err := NewSketch().MergeEncoded(nil); err != nil {
		t.Errorf("nothing to merge is no error: %v", err)
	}
}

func bins(mode enc.SubFlag, n uint64, rest ...int64) []byte {
	var b []byte
	enc.EncodeFlag(&b, enc.NewFlag(enc.FlagTypePositiveStore, mode))
	enc.EncodeUvarint64(&b, n)
	for _, v := range rest {
		enc.EncodeVarint64(&b, v)
	}
	return b
}

func TestWhateverIsEncodedIsReadAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 21))
	for range 300 {
		s := NewSketch()
		for range rng.IntN(500) {
			if err := s.Add(math.Exp(rng.NormFloat64()*40), float64(1+rng.IntN(3))); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range []float64{0, math.MaxFloat64 / 4, math.SmallestNonzeroFloat64} {
			if rng.IntN(2) == 0 {
				_ = s.Add(v, 1)
			}
		}
		back := NewSketch()
		if err := back.MergeEncoded(s.Encode()); err != nil {
			t.Fatal(err)
		}
		if back.Count() != s.Count() || !slices.Equal(back.Quantiles(Percentiles), s.Quantiles(Percentiles)) {
			t.Fatalf("%v values and %v instead of %v and %v", back.Count(), back.Quantiles(Percentiles), s.Count(), s.Quantiles(Percentiles))
		}
	}
}

func FuzzMergeEncoded(f *testing.F) {
	s := NewSketch()
	for v := 1.0; v < 100; v++ {
		_ = s.Add(v, 1)
	}
	f.Add(s.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s := NewSketch()
		if err := s.MergeEncoded(b); err != nil && s.Count() != 0 {
			t.Fatalf("%v values after %v", s.Count(), err)
		}
		for _, q := range s.Quantiles(Percentiles) {
			if math.IsNaN(q) || q < 0 {
				t.Fatalf("percentile %v", q)
			}
		}
	})
}
