// Package slo judges what was measured against what was promised: which share of
// requests stayed within a target, and whether that is enough. It is pure.
package slo

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Objective says how much of a metric has to stay within which bound.
type Objective struct {
	Name metrics.Name
	// Bound is in the metric's own unit: milliseconds, or a fraction for gauges.
	Bound float64
	// Share of the samples that has to stay within it, 0 to 1. Gauges have none:
	// their average has to.
	Share float64
}

const (
	// share is the default promise to interactive users.
	share = 0.95
	// kvBound is where engines begin to queue and to preempt.
	kvBound = 0.90
)

// ObjectiveOf is the objective of a deployment for one metric; nil when it has none.
func ObjectiveOf(spec factory.DeploymentSpec, name metrics.Name) *Objective {
	switch name {
	case metrics.TTFT:
		return latency(name, spec.TTFTTarget())
	case metrics.ITL:
		return latency(name, spec.ITLTarget())
	case metrics.KVCache:
		return &Objective{Name: name, Bound: kvBound}
	}
	return nil
}

func latency(name metrics.Name, target time.Duration) *Objective {
	if target <= 0 {
		return nil
	}
	return &Objective{Name: name, Bound: float64(target) / float64(time.Millisecond), Share: share}
}

// State is how a window stands against an objective.
type State string

const (
	NoObjective State = "no objective"
	NoData      State = "no data" // neither good nor bad
	Met         State = "met"
	Strained    State = "strained" // met on the whole, and over the bound at times
	Missed      State = "missed"
)

// Judgement is the outcome of Judge.
type Judgement struct {
	State State
	// Within is the share of samples within the bound, 0 to 1; only for latencies
	// with samples.
	Within float64
}

// Judge compares a window's summary with an objective; nil is none.
func Judge(o *Objective, s metrics.Summary) Judgement {
	switch {
	case o == nil:
		return Judgement{State: NoObjective}
	case s.N == 0:
		return Judgement{State: NoData}
	case metrics.ShapeOf(o.Name) == metrics.Gauge:
		return judgeGauge(o, s)
	}
	within := max(0, 1-s.Above(o.Bound)/s.N)
	if within >= o.Share {
		return Judgement{State: Met, Within: within}
	}
	return Judgement{State: Missed, Within: within}
}

func judgeGauge(o *Objective, s metrics.Summary) Judgement {
	switch {
	case s.Average != nil && *s.Average > o.Bound:
		return Judgement{State: Missed}
	case s.Peak != nil && *s.Peak > o.Bound:
		return Judgement{State: Strained}
	}
	return Judgement{State: Met}
}
