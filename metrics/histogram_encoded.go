package metrics

import (
	"encoding/binary"
	"errors"
	"math"
)

// maxBounds is far above what engines have; a page may not make us keep any number.
const maxBounds = 512

var errBrokenHistogram = errors.New("not a histogram of durations")

// Encode returns the histogram as bytes: the number of bounds, the bounds, the counts
// up to each, the sum and the count of all.
func (h Histogram) Encode() []byte {
	b := make([]byte, 0, 2+16*(len(h.Bounds)+1))
	b = binary.AppendUvarint(b, uint64(len(h.Bounds)))
	for _, list := range [][]float64{h.Bounds, h.Counts, {h.Sum, h.Count}} {
		for _, v := range list {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b
}

// DecodeHistogram reads what Encode wrote. It comes from agents over the network, so
// nothing in it is believed.
func DecodeHistogram(b []byte) (Histogram, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > maxBounds || len(b)-size != 16*(int(n)+1) {
		return Histogram{}, errBrokenHistogram
	}
	b = b[size:]
	next := func() float64 {
		v := math.Float64frombits(binary.LittleEndian.Uint64(b))
		b = b[8:]
		return v
	}
	h := Histogram{Bounds: make([]float64, n), Counts: make([]float64, n)}
	for i := range h.Bounds {
		h.Bounds[i] = next()
		if math.IsNaN(h.Bounds[i]) || math.IsInf(h.Bounds[i], 0) || (i > 0 && h.Bounds[i] <= h.Bounds[i-1]) {
			return Histogram{}, errBrokenHistogram
		}
	}
	for i := range h.Counts {
		if h.Counts[i] = next(); !amount(h.Counts[i]) {
			return Histogram{}, errBrokenHistogram
		}
	}
	h.Sum, h.Count = next(), next()
	if !amount(h.Sum) || !amount(h.Count) {
		return Histogram{}, errBrokenHistogram
	}
	return h, nil
}

func amount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// Scale returns the histogram in another unit, factor times as fine.
func (h Histogram) Scale(factor float64) Histogram {
	out := Histogram{Bounds: make([]float64, len(h.Bounds)), Counts: h.Counts, Sum: h.Sum * factor, Count: h.Count}
	for i, b := range h.Bounds {
		out.Bounds[i] = b * factor
	}
	return out
}
