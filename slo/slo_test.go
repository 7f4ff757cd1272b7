package slo

import (
	"math"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// summary of a minute in which each value was seen as often as it says.
func summary(t *testing.T, name metrics.Name, seen map[float64]int) metrics.Summary {
	t.Helper()
	var r metrics.Recorder
	for value, n := range seen {
		r.Observe(start, "d", "r", name, value, n)
	}
	s, err := metrics.SeriesOf(name, metrics.Window{From: start, To: start.Add(time.Minute), Step: time.Minute}, r.Flush())
	if err != nil {
		t.Fatal(err)
	}
	return s.Summary
}

func TestLatencyIsJudgedByTheShareWithinItsTarget(t *testing.T) {
	o := &Objective{Name: metrics.TTFT, Bound: 500, Share: 0.95}
	for _, c := range []struct {
		name   string
		seen   map[float64]int
		state  State
		within float64
	}{
		{"all fast", map[float64]int{100: 50}, Met, 1},
		{"exactly enough", map[float64]int{100: 95, 900: 5}, Met, 0.95},
		{"one too many", map[float64]int{100: 94, 900: 6}, Missed, 0.94},
		{"all slow", map[float64]int{900: 10}, Missed, 0},
		{"nothing measured", nil, NoData, 0},
	} {
		j := Judge(o, summary(t, metrics.TTFT, c.seen))
		if j.State != c.state || math.Abs(j.Within-c.within) > 1e-9 {
			t.Errorf("%s: %s with %v within, want %s with %v", c.name, j.State, j.Within, c.state, c.within)
		}
	}
}

func TestGaugeIsJudgedByAverageAndPeak(t *testing.T) {
	o := ObjectiveOf(factory.DeploymentSpec{}, metrics.KVCache)
	for _, c := range []struct {
		name string
		seen map[float64]int
		want State
	}{
		{"low", map[float64]int{0.2: 3, 0.8: 1}, Met},
		{"full at times", map[float64]int{0.2: 9, 0.97: 1}, Strained},
		{"full", map[float64]int{0.95: 10}, Missed},
		{"idle is no failure", map[float64]int{0: 5}, Met},
		{"nothing reported", nil, NoData},
	} {
		if got := Judge(o, summary(t, metrics.KVCache, c.seen)).State; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestObjectivesFollowTheDeployment(t *testing.T) {
	interactive := factory.DeploymentSpec{Workload: factory.Interactive}
	batch := factory.DeploymentSpec{Workload: factory.Batch}
	chosen := factory.DeploymentSpec{Workload: factory.Batch, TTFTTargetMS: 4000}
	for _, c := range []struct {
		spec  factory.DeploymentSpec
		name  metrics.Name
		bound float64 // zero: no objective
	}{
		{interactive, metrics.TTFT, 500}, {interactive, metrics.ITL, 250}, {interactive, metrics.E2E, 0},
		{batch, metrics.TTFT, 0}, {batch, metrics.ITL, 0}, {chosen, metrics.TTFT, 4000}, {batch, metrics.KVCache, 0.9},
	} {
		o := ObjectiveOf(c.spec, c.name)
		if (o == nil) != (c.bound == 0) || o != nil && o.Bound != c.bound {
			t.Errorf("%s %s: %+v, want bound %v", c.spec.Workload, c.name, o, c.bound)
		}
	}
	if j := Judge(nil, metrics.Summary{N: 3}); j.State != NoObjective {
		t.Errorf("without an objective: %s", j.State)
	}
}
