package engines

import "tokenfactory/metrics"

// Delta is what an engine did between two readings: counters and histograms become
// increases, gauges are those of after. Increases are never negative: a counter
// that fell began anew, and with another process start all of them did.
//
// before is the last reading of the same engine. When the engine was started in
// between, give the empty Reading: everything in after is new then. Never give it
// for an engine that was found running, whose past is not ours to count.
func Delta(before, after Reading) Reading {
	if restarted(before, after) {
		before = Reading{}
	}
	out := after
	out.eachCounter(before, func(was, now *float64) *float64 { return increase(was, now, before.unsure) })
	out.Finished = increases(before.Finished, after.Finished, before.unsure)
	out.Failed = increases(before.Failed, after.Failed, before.unsure)
	out.Histograms = nil
	for n, h := range after.Histograms {
		was, known := before.Histograms[n]
		if !known && before.unsure {
			continue
		}
		if out.Histograms == nil {
			out.Histograms = map[metrics.Name]metrics.Histogram{}
		}
		out.Histograms[n], _ = h.Sub(was)
	}
	return out
}

func restarted(before, after Reading) bool {
	return before.ProcessStart != nil && after.ProcessStart != nil && *before.ProcessStart != *after.ProcessStart
}

// increase takes a counter that was not on the page before as zero then: engines
// create their series with the first request. It is unknown when the page before was
// damaged and may have lacked it for that.
func increase(before, after *float64, unsure bool) *float64 {
	if after == nil || (before == nil && unsure) {
		return nil
	}
	d := *after
	if before != nil && *after >= *before {
		d -= *before
	}
	return &d
}

func increases(before, after map[string]float64, unsure bool) map[string]float64 {
	if after == nil || (before == nil && unsure) {
		return nil
	}
	out := make(map[string]float64, len(after))
	for reason, n := range after {
		was, known := before[reason]
		if !known && unsure {
			continue
		}
		if n >= was {
			n -= was
		}
		out[reason] = n
	}
	return out
}
