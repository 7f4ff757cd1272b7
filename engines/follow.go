package engines

import (
	"slices"

	"tokenfactory/metrics"
)

// Base is the reading from which an engine that was found running is followed: its
// past is not ours to count. Something missing on a page with lines that could not be
// read may have been counting for long, so that its first appearance is no increase.
func Base(first Reading) Reading {
	first.unsure = first.ParseErrors > 0
	return first
}

// Follow is Delta for pages that may lack lines. It returns what the engine did since
// before, and the reading to give as before next time: a counter that a damaged page
// lacks keeps its last known value there, or its return would count as all new.
func Follow(before, after Reading) (did, next Reading) {
	switch {
	case restarted(before, after):
		return Delta(before, after), after
	case before.unsure && before.partial && !sameLoss(before, after):
		// Nothing that was counted from before is sure: begin here.
		return after.gauges(), Base(after)
	case after.ParseErrors == 0:
		return Delta(before, after), after
	}
	trusted := after
	if after.partial && !sameLoss(before, after) {
		trusted = after.whatIsSure(before)
	}
	did, next = Delta(before, trusted), trusted
	next.unsure = before.unsure
	next.eachCounter(before, func(was, now *float64) *float64 {
		if now == nil {
			return was
		}
		return now
	})
	next.Finished, next.Failed = filled(before.Finished, trusted.Finished), filled(before.Failed, trusted.Failed)
	next.Histograms = filled(before.Histograms, trusted.Histograms)
	if next.ProcessStart == nil {
		next.ProcessStart = before.ProcessStart
	}
	return did, next
}

// sameLoss reports whether two pages lack the same lines, as when something prints
// into an engine's page every time: what is left of them compares.
func sameLoss(before, after Reading) bool {
	return before.partial && after.partial && before.Samples == after.Samples && before.ParseErrors == after.ParseErrors && slices.Equal(before.Problems, after.Problems)
}

// gauges is the reading without its counters.
func (r Reading) gauges() Reading {
	r.eachCounter(Reading{}, func(_, _ *float64) *float64 { return nil })
	r.Finished, r.Failed, r.Histograms = nil, nil, nil
	return r
}

// whatIsSure leaves out the counters that fell, because a sum that lacks a part does,
// and histograms that may lack a bound. Whether the engine began anew shows on the
// next page that is whole.
func (r Reading) whatIsSure(before Reading) Reading {
	trusted := r
	trusted.eachCounter(before, func(was, now *float64) *float64 {
		if was != nil && now != nil && *now < *was {
			return nil
		}
		return now
	})
	trusted.Finished, trusted.Failed = notFallen(before.Finished, r.Finished), notFallen(before.Failed, r.Failed)
	trusted.Histograms = map[metrics.Name]metrics.Histogram{}
	for n, h := range r.Histograms {
		was, known := before.Histograms[n]
		if _, anew := h.Sub(was); known && !anew {
			trusted.Histograms[n] = h
		}
	}
	return trusted
}

// eachCounter replaces every counter by what combine makes of it and of before's.
func (r *Reading) eachCounter(before Reading, combine func(was, now *float64) *float64) {
	r.PromptTokens = combine(before.PromptTokens, r.PromptTokens)
	r.GenerationTokens = combine(before.GenerationTokens, r.GenerationTokens)
	r.CachedTokens = combine(before.CachedTokens, r.CachedTokens)
	r.PrefixHits = combine(before.PrefixHits, r.PrefixHits)
	r.PrefixQueries = combine(before.PrefixQueries, r.PrefixQueries)
	r.Preemptions = combine(before.Preemptions, r.Preemptions)
}

func notFallen(was, now map[string]float64) map[string]float64 {
	if now == nil {
		return nil
	}
	out := make(map[string]float64, len(now))
	for reason, n := range now {
		if n >= was[reason] {
			out[reason] = n
		}
	}
	return out
}

// filled is now with what it lacks of was.
func filled[K comparable, V any](was, now map[K]V) map[K]V {
	if was == nil && now == nil {
		return nil
	}
	out := make(map[K]V, len(was)+len(now))
	for k, v := range was {
		out[k] = v
	}
	for k, v := range now {
		out[k] = v
	}
	return out
}
