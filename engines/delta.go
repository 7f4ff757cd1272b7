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
	if before.ProcessStart != nil && after.ProcessStart != nil && *before.ProcessStart != *after.ProcessStart {
		before = Reading{}
	}
	out := after
	out.PromptTokens = increase(before.PromptTokens, after.PromptTokens)
	out.GenerationTokens = increase(before.GenerationTokens, after.GenerationTokens)
	out.CachedTokens = increase(before.CachedTokens, after.CachedTokens)
	out.PrefixQueries = increase(before.PrefixQueries, after.PrefixQueries)
	out.Finished = increases(before.Finished, after.Finished)
	out.Failed = increases(before.Failed, after.Failed)
	out.Histograms = nil
	for n, h := range after.Histograms {
		if out.Histograms == nil {
			out.Histograms = map[metrics.Name]metrics.Histogram{}
		}
		out.Histograms[n], _ = h.Sub(before.Histograms[n])
	}
	return out
}

// increase takes a counter that was not on the page before as zero then: engines
// create their series with the first request.
func increase(before, after *float64) *float64 {
	if after == nil {
		return nil
	}
	d := *after
	if before != nil && *after >= *before {
		d -= *before
	}
	return &d
}

func increases(before, after map[string]float64) map[string]float64 {
	if after == nil {
		return nil
	}
	out := make(map[string]float64, len(after))
	for reason, n := range after {
		if was := before[reason]; n >= was {
			n -= was
		}
		out[reason] = n
	}
	return out
}
