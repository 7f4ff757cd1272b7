package main

import (
	"math"
	"slices"
	"time"

	"tokenfactory/metrics"
)

// exact are all values of a metric, in milliseconds and in order.
type exact []float64

// quantile is the value at the nearest rank: one that was measured, never one between.
func (v exact) quantile(q float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	return &v[max(0, int(math.Ceil(q*float64(len(v))))-1)]
}

func (v exact) mean() *float64 {
	if len(v) == 0 {
		return nil
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	sum /= float64(len(v))
	return &sum
}

// seen is what the client measured of all its requests.
type seen struct {
	Sent, Whole, Failed int
	Late                int
	Latest              time.Duration
	Prompt, Output      int64
	Uncounted           int // whole answers without a usage
	Values              map[metrics.Name]exact
	Problems            map[string]int // of those that failed
	First, Last         time.Time      // of all that was under way
}

func look(outcomes []outcome) seen {
	s := seen{Sent: len(outcomes), Values: map[metrics.Name]exact{}, Problems: map[string]int{}}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Late > lateAfter {
			s.Late++
		}
		s.Latest = max(s.Latest, o.Late)
		if s.First.IsZero() || o.Sent.Before(s.First) {
			s.First = o.Sent
		}
		if end := o.Sent.Add(o.E2E); end.After(s.Last) {
			s.Last = end
		}
		if !o.whole() {
			s.Failed++
			s.Problems[o.Err.Error()]++
			continue
		}
		s.Whole++
		s.Prompt, s.Output = s.Prompt+o.Prompt, s.Output+o.Output
		if !o.counted {
			s.Uncounted++
		}
		if o.TTFT > 0 {
			s.Values[metrics.TTFT] = append(s.Values[metrics.TTFT], inMilliseconds(o.TTFT))
		}
		s.Values[metrics.E2E] = append(s.Values[metrics.E2E], inMilliseconds(o.E2E))
		s.Values[metrics.ITL] = append(s.Values[metrics.ITL], o.perToken()...)
	}
	for _, v := range s.Values {
		slices.Sort(v)
	}
	return s
}
