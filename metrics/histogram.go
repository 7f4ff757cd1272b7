package metrics

import "math"

// Histogram is an engine's own histogram as it was scraped. It keeps the bounds
// that came: they differ by engine, version, model and operator.
type Histogram struct {
	Bounds []float64 `json:"bounds"` // finite upper bounds, ascending
	Counts []float64 `json:"counts"` // observations up to each bound, cumulative
	Sum    float64   `json:"sum"`
	Count  float64   `json:"count"` // all observations, also those above the last bound
}

// Estimate is a quantile read from buckets. All fields are nil without samples.
type Estimate struct {
	// Value is nil when the quantile lies above the last finite bound: the
	// bound itself would be a lie that never moves.
	Value *float64 `json:"value"`
	// AtMost is the first bound when the quantile lies under it: Value is then
	// the geometry of the bucket, not a measurement.
	AtMost *float64 `json:"at_most,omitempty"`
	// Above is the last finite bound when the quantile lies over it.
	Above *float64 `json:"above,omitempty"`
}

// Quantile interpolates linearly inside the bucket that holds the quantile; the
// first bucket begins at zero, because all that is measured here is a duration.
func (h Histogram) Quantile(q float64) Estimate {
	if !(h.Count > 0) || !(q >= 0 && q <= 1) {
		return Estimate{}
	}
	rank, below, lower := q*h.Count, 0.0, 0.0
	for i, bound := range h.Bounds {
		// A scrape is no snapshot: a later bucket can have been read before it caught up.
		upTo := max(h.Counts[i], below)
		if upTo > below && upTo >= rank {
			e := Estimate{Value: ptr(lower + (bound-lower)*max(rank-below, 0)/(upTo-below))}
			if i == 0 {
				e.AtMost = ptr(bound)
			}
			return e
		}
		below, lower = upTo, bound
	}
	if len(h.Bounds) == 0 {
		return Estimate{}
	}
	return Estimate{Above: ptr(h.Bounds[len(h.Bounds)-1])}
}

// Mean is nil without samples.
func (h Histogram) Mean() *float64 {
	if !(h.Count > 0) {
		return nil
	}
	return ptr(h.Sum / h.Count)
}

// Add returns both together. Where bounds differ only the common ones are kept:
// counts up to a common bound add exactly, anything else would be invented.
func (h Histogram) Add(o Histogram) Histogram {
	sum := Histogram{Sum: h.Sum + o.Sum, Count: h.Count + o.Count}
	for i, j := 0, 0; i < len(h.Bounds) && j < len(o.Bounds); {
		switch a, b := h.Bounds[i], o.Bounds[j]; {
		case a < b:
			i++
		case b < a:
			j++
		default:
			sum.Bounds = append(sum.Bounds, a)
			sum.Counts = append(sum.Counts, h.Counts[i]+o.Counts[j])
			i, j = i+1, j+1
		}
	}
	return sum
}

// Sub returns what was observed since before. When the histogram began anew in
// between, which shows in any count that fell or in other bounds, everything in it
// is new and the second result is true.
func (h Histogram) Sub(before Histogram) (Histogram, bool) {
	if before.Count == 0 && len(before.Bounds) == 0 {
		return h, false
	}
	if h.Count < before.Count || len(h.Bounds) != len(before.Bounds) {
		return h, true
	}
	since := Histogram{
		Bounds: h.Bounds,
		Counts: make([]float64, len(h.Counts)),
		Sum:    h.Sum - before.Sum,
		Count:  h.Count - before.Count,
	}
	for i := range h.Bounds {
		if h.Bounds[i] != before.Bounds[i] || h.Counts[i] < before.Counts[i] {
			return h, true
		}
		since.Counts[i] = h.Counts[i] - before.Counts[i]
	}
	// Sums of durations only grow; rounding must not make them shrink.
	since.Sum = math.Max(since.Sum, 0)
	return since, false
}
