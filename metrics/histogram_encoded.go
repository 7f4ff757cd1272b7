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

// addEncoded adds an encoded histogram, or several that were written one after the other.
// One with the same bounds, as nearly all are, is added where it stands. h must be its
// owner's alone; begun says that it is more than an empty value.
func (h *Histogram) addEncoded(b []byte, begun bool) error {
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > maxBounds || len(b)-size < 16*(int(n)+1) {
			return errBrokenHistogram
		}
		length := size + 16*(int(n)+1)
		if !begun || !h.addAlike(b[size:length]) {
			o, err := DecodeHistogram(b[:length])
			if err != nil {
				return err
			}
			if begun {
				o = h.Add(o)
			}
			*h, begun = o, true
		}
		b = b[length:]
	}
	return nil
}

// addAlike adds the numbers of an encoded histogram if its bounds are those of h, and
// reports false, with h as it was, if they are not or if a number is none.
func (h *Histogram) addAlike(b []byte) bool {
	at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }
	n := len(h.Bounds)
	if len(b) != 16*(n+1) {
		return false
	}
	for i, bound := range h.Bounds {
		if at(i) != bound || !amount(at(n+i)) {
			return false
		}
	}
	if !amount(at(2*n)) || !amount(at(2*n+1)) {
		return false
	}
	for i := range h.Counts {
		h.Counts[i] += at(n + i)
	}
	h.Sum += at(2 * n)
	h.Count += at(2*n + 1)
	return true
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
