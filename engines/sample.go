package engines

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"

	"tokenfactory/metrics"
)

// number is a sample's value. Counters come untyped in OpenMetrics, whose TYPE line
// names a family that no sample has.
func number(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	}
	return math.NaN()
}

func size(m *dto.Metric) float64 {
	if m.Histogram != nil {
		return histogramOf(m.Histogram).Count
	}
	return number(m)
}

// whole reports whether all of a histogram's lines came: its end says how many there are.
func whole(h *dto.Histogram) bool {
	return h.SampleCount != nil || h.SampleCountFloat != nil || slices.ContainsFunc(h.Bucket, func(b *dto.Bucket) bool { return math.IsInf(b.GetUpperBound(), 1) })
}

func histogramOf(h *dto.Histogram) metrics.Histogram {
	out := metrics.Histogram{Sum: h.GetSampleSum(), Count: float64(h.GetSampleCount()) + h.GetSampleCountFloat()}
	for _, b := range h.Bucket {
		if math.IsInf(b.GetUpperBound(), 0) {
			out.Count = max(out.Count, float64(b.GetCumulativeCount())+b.GetCumulativeCountFloat())
			continue
		}
		out.Bounds = append(out.Bounds, b.GetUpperBound())
		out.Counts = append(out.Counts, float64(b.GetCumulativeCount())+b.GetCumulativeCountFloat())
	}
	if !slices.IsSorted(out.Bounds) {
		sortBounds(&out)
	}
	return out
}

// sortBounds orders buckets by bound; no rule says that a page lists them so.
func sortBounds(h *metrics.Histogram) {
	order := make([]int, len(h.Bounds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case h.Bounds[a] < h.Bounds[b]:
			return -1
		case h.Bounds[a] > h.Bounds[b]:
			return 1
		}
		return 0
	})
	bounds, counts := make([]float64, len(order)), make([]float64, len(order))
	for i, j := range order {
		bounds[i], counts[i] = h.Bounds[j], h.Counts[j]
	}
	h.Bounds, h.Counts = bounds, counts
}
