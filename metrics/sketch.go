package metrics

import (
	"fmt"
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// accuracy bounds the relative error of every percentile; merging does not worsen it.
const accuracy = 0.01

// One mapping for all sketches: only equal mappings merge, and with a shared one
// the encoding can leave it out.
var indexMapping = func() mapping.IndexMapping {
	m, err := mapping.NewLogarithmicMapping(accuracy)
	if err != nil {
		panic(err) // accuracy is a constant between 0 and 1
	}
	return m
}()

// Sketch holds a distribution of non-negative values in a few hundred bytes, with
// percentiles within 1 % of the true value. It is not safe for concurrent use.
type Sketch struct {
	dd *ddsketch.DDSketch
}

// NewSketch returns an empty sketch.
func NewSketch() *Sketch {
	return &Sketch{ddsketch.NewDDSketchFromStoreProvider(indexMapping, store.DefaultProvider)}
}

// Add records value n times. Values that are no durations (negative, NaN,
// infinite) are refused rather than bent into some bucket.
func (s *Sketch) Add(value float64, n float64) error {
	if !(value >= 0) || math.IsInf(value, 0) || !(n > 0) {
		return fmt.Errorf("not a duration: %v × %v", value, n)
	}
	return s.dd.AddWithCount(value, n)
}

// Merge adds all of o to s.
func (s *Sketch) Merge(o *Sketch) error { return s.dd.MergeWith(o.dd) }

// MergeEncoded adds an encoded sketch to s without building it first. On an error s
// is unchanged.
func (s *Sketch) MergeEncoded(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := checkEncoded(b); err != nil {
		return err
	}
	return s.dd.DecodeAndMergeWith(b)
}

// Encode returns the sketch as bytes, without the mapping that all share.
func (s *Sketch) Encode() []byte {
	var b []byte
	s.dd.Encode(&b, true)
	return b
}

// Count is the number of recorded values.
func (s *Sketch) Count() float64 { return s.dd.GetCount() }

// Quantiles reads several quantiles at once, by nearest rank: the p99 of three
// values is the largest of them, never one in between or below. Nil when the sketch
// is empty.
func (s *Sketch) Quantiles(qs []float64) []float64 {
	if s.dd.IsEmpty() {
		return nil
	}
	ranks := make([]float64, len(qs))
	for i, q := range qs {
		ranks[i] = nearestRank(q, s.Count())
	}
	v, err := s.dd.GetValuesAtQuantiles(ranks)
	if err != nil {
		return nil // only for quantiles outside 0 to 1
	}
	return v
}

// nearestRank turns a quantile of n values into the library's, which counts ranks
// from 0 to n-1 and takes the value below. The half keeps rounding from falling
// to the neighbour.
func nearestRank(q, n float64) float64 {
	if q < 0 || q > 1 || n <= 1 {
		return q
	}
	return min(1, (max(1, math.Ceil(q*n))-0.5)/(n-1))
}

// CountAbove is how many recorded values lie above a bound, within the sketch's error.
func (s *Sketch) CountAbove(bound float64) float64 {
	n := 0.0
	s.dd.ForEach(func(value, count float64) bool {
		if value > bound {
			n += count
		}
		return false
	})
	return n
}
