package metrics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/views/charts"
)

// measuredOf reads what a recorder was told, in the window of four minutes.
func measuredOf(t *testing.T, tell func(r *metrics.Recorder)) Measured {
	t.Helper()
	var r metrics.Recorder
	tell(&r)
	buckets := r.Flush()
	m := Measured{Window: window, Now: window.To, Series: map[metrics.Name]metrics.Series{}}
	for _, row := range metrics.Catalogue {
		s, err := metrics.SeriesOf(row.Name, window, buckets)
		if err != nil {
			t.Fatal(err)
		}
		m.Series[row.Name] = s
	}
	return m
}

func near(v *float64, want float64) bool { return v != nil && *v > want-1e-6 && *v < want+1e-6 }

func TestRatesLeaveGapsAndTheUnfinishedStepOut(t *testing.T) {
	m := measuredOf(t, func(r *metrics.Recorder) {
		r.Observe(start, "d", "r", metrics.Requests, 1, 30)
		r.Observe(start.Add(3*time.Minute), "d", "r", metrics.Requests, 1, 6)
		r.Observe(start.Add(3*time.Minute), "d", "r", metrics.Failures, 1, 3)
	})
	lines := m.requests().Lines
	if v := lines[0].Values; !near(v[0], 0.5) || v[1] != nil || !near(v[3], 0.1) {
		t.Errorf("requests %v", v)
	}
	if v := lines[2].Values; !near(v[0], 0) || v[1] != nil || !near(v[3], 0.05) {
		t.Errorf("errors %v: none beside requests is zero, no bucket at all is a gap", v)
	}
	m.Now = m.Now.Add(-time.Second)
	if v := m.requests().Lines[0].Values[3]; v != nil {
		t.Errorf("the step under way has a rate: %v", *v)
	}
}

func TestGoodShareSaysNoTrafficWhereNothingWasJudged(t *testing.T) {
	d := factory.Deployment{DeploymentSpec: factory.DeploymentSpec{Workload: factory.Interactive}}
	if c := measuredOf(t, func(*metrics.Recorder) {}).goodShare(d); !strings.Contains(c.reason(), "No traffic") {
		t.Errorf("%q", c.reason())
	}
	m := measuredOf(t, func(r *metrics.Recorder) {
		r.Observe(start, "d", "r", metrics.Good, 1, 19999)
		r.Observe(start, "d", "r", metrics.Bad, 1, 1)
		r.Observe(start.Add(time.Minute), "d", "r", metrics.Bad, 1, 1)
	})
	c := m.goodShare(d)
	if v := c.Lines[0].Values; !near(v[1], 0) || v[2] != nil || c.Facts[0].Figure != "99.99" {
		t.Errorf("%v, %+v", v, c.Facts)
	}
}

func TestJourneySaysWhatTheEngineDoesNotReport(t *testing.T) {
	gateway := func(r *metrics.Recorder) {
		r.Observe(start, "d", "r", metrics.Queue, 100, 1)
		r.Observe(start, "d", "r", metrics.TTFT, 500, 1)
		r.Observe(start, "d", "r", metrics.Decode, 2000, 1)
	}
	c := measuredOf(t, gateway).journey()
	if len(c.Lines) != 3 || !near(c.Lines[1].Values[0], 400) || len(c.Notes) != 1 {
		t.Errorf("%+v", c)
	}
	c = measuredOf(t, func(r *metrics.Recorder) {
		gateway(r)
		for name, ms := range map[metrics.Name]float64{metrics.EngineQueue: 50, metrics.EnginePrefill: 300} {
			r.ObserveHistogram(start, metrics.Of{Deployment: "d", Replica: "r"}, name, metrics.Histogram{Bounds: []float64{1000}, Counts: []float64{1}, Count: 1, Sum: ms})
		}
	}).journey()
	var names []string
	for _, l := range c.Lines {
		names = append(names, l.Name)
	}
	if got := strings.Join(names, "|"); got != "Wait in the gateway|Engine's queue|Prefill|Network and other|Decoding" || !near(c.Lines[3].Values[0], 50) || len(c.Notes) != 0 {
		t.Errorf("%s: %+v", got, c)
	}
}

func TestCostPerMillionIsExactAndFreeIsFree(t *testing.T) {
	m := measuredOf(t, func(r *metrics.Recorder) {
		r.Observe(start, "d", "r", metrics.Requests, 1, 1)
		r.Observe(start, "d", "r", metrics.InputTokens, 3_000_000, 1)
		r.Observe(start, "d", "r", metrics.OutputTokens, 1_000_000, 1)
	})
	d := factory.Deployment{Price: &factory.Price{Currency: "USD", Input: "0.10", CachedInput: "0.10", Output: "0.50"}}
	c, err := m.cost(d)
	if err != nil || c.Facts[0].Figure != "0.20" || c.Facts[1].Figure != "0.80" || !near(c.Lines[0].Values[0], 0.2) || c.Lines[0].Values[1] != nil {
		t.Errorf("%v, %+v", err, c)
	}
	d.Price = &factory.Price{Free: true}
	if c, err = m.cost(d); err != nil || !strings.Contains(c.reason(), "free") {
		t.Errorf("%v, %q", err, c.reason())
	}
}

func TestDriftBeyondHalfAPercentIsAWarning(t *testing.T) {
	for _, c := range []struct {
		ours, theirs float64
		icon, want   string
	}{
		{1_000_000, 1_000_000, "ok", "Both count the same"}, {1_000_000, 1_004_000, "ok", "0.4 % more"},
		{1_000_000, 990_000, "warn", "1 % less"}, {1_000_000, 1_006_000, "warn", "0.6 % more"},
		{0, 5, "none", "Too few"}, {856, 324, "none", "Too few"},
	} {
		m := measuredOf(t, func(r *metrics.Recorder) {
			r.Observe(start, "d", "r", metrics.Requests, 1, 10_000)
			r.Observe(start, "d", "r", metrics.Running, 2, 1)
			r.Observe(start, "d", "r", metrics.InputTokens, c.ours/2, 2)
			r.Observe(start, "d", "r", metrics.PromptTokens, c.theirs/2, 1)
			r.Observe(start, "d", "r", metrics.GenerationTokens, c.theirs/2, 1)
		})
		if got := m.drift(); got.Icon != c.icon || !strings.Contains(plainText(got.Text), c.want) {
			t.Errorf("%v and %v: %+v", c.ours, c.theirs, got)
		}
	}
}

// Charts of the page switch their lines on and off together by name.
func TestLinesOfDifferentMeaningHaveDifferentNames(t *testing.T) {
	m := measuredOf(t, func(r *metrics.Recorder) {
		for _, row := range metrics.Catalogue {
			if row.Shape == metrics.Bucketed {
				r.ObserveHistogram(start, metrics.Of{Deployment: "d", Replica: "r"}, row.Name, metrics.Histogram{Bounds: []float64{1000}, Counts: []float64{1}, Count: 1, Sum: 10})
			} else {
				r.Observe(start, "d", "r", row.Name, 1, 2)
			}
		}
	})
	left := 0.5
	m.Budget = &Budget{Share: 0.95, Left: []*float64{&left}}
	layers, err := Layers(factory.Deployment{Price: &factory.Price{Currency: "USD", Input: "1", CachedInput: "1", Output: "1"}}, m, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{"Average": "KV cache", "Peak": "KV cache", "Spread": "KV cache"}
	for _, l := range layers {
		for _, c := range l.Charts {
			for _, line := range c.Lines {
				if slices.Contains(charts.PercentileNames, line.Name) {
					continue
				}
				if other, taken := seen[line.Name]; taken {
					t.Errorf("%q is a line of %s and of %s", line.Name, other, c.Title)
				}
				seen[line.Name] = c.Title
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d lines", len(seen))
	}
}
