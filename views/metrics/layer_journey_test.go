package metrics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/metrics"
	"tokenfactory/views/charts"
)

func prefill(r *metrics.Recorder, at time.Time, queue, prefill float64) {
	for name, ms := range map[metrics.Name]float64{metrics.EngineQueue: queue, metrics.EnginePrefill: prefill} {
		r.ObserveHistogram(at, metrics.Of{Deployment: "d", Replica: "r"}, name, metrics.Histogram{Bounds: []float64{1000}, Counts: []float64{1}, Count: 1, Sum: ms})
	}
}

func lineOf(t *testing.T, c Chart, name string) []*float64 {
	t.Helper()
	i := slices.IndexFunc(c.Lines, func(l charts.Line) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no line %q", name)
	}
	return c.Lines[i].Values
}

func TestJourneyHasAGapOnlyWhereNothingIsKnown(t *testing.T) {
	c := measuredOf(t, func(r *metrics.Recorder) {
		for _, minute := range []time.Duration{0, 1} {
			r.Observe(start.Add(minute*time.Minute), "d", "r", metrics.Queue, 100, 1)
			r.Observe(start.Add(minute*time.Minute), "d", "r", metrics.TTFT, 500, 1)
		}
		prefill(r, start, 50, 300)
		r.Observe(start.Add(2*time.Minute), "d", "r", metrics.Decode, 2000, 1)
	}).journey()
	rest, undivided := lineOf(t, c, "Network and other"), lineOf(t, c, "Not told apart")
	if !near(rest[0], 50) || undivided[0] != nil {
		t.Errorf("all is known of the first minute: %v, %v", rest[0], undivided[0])
	}
	if rest[1] != nil || !near(undivided[1], 400) {
		t.Errorf("the engine's part of the second minute is unknown, not gone: %v, %v", rest[1], undivided[1])
	}
	if decode := lineOf(t, c, "Decoding"); decode[0] != nil || !near(decode[2], 2000) {
		t.Errorf("%v", decode)
	}
	for _, l := range c.Lines {
		if l.Values[3] != nil {
			t.Errorf("%s in a minute of which nothing is known: %v", l.Name, *l.Values[3])
		}
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0].Text, "In 1 of 2 steps") || !strings.Contains(c.Notes[0].Text, "Engine's queue, Prefill") {
		t.Errorf("%+v", c.Notes)
	}
}

func TestJourneySetsALateReadingBesideItsRequest(t *testing.T) {
	var r metrics.Recorder
	r.Observe(start, "d", "r", metrics.Queue, 100, 1)
	r.Observe(start, "d", "r", metrics.TTFT, 500, 1)
	r.Observe(start, "d", "r", metrics.Decode, 900, 1)
	prefill(&r, start.Add(12*time.Second), 50, 300)
	buckets := r.Flush()
	m := Measured{Window: metrics.Window{From: start, To: start.Add(time.Minute), Step: 10 * time.Second}, Now: start.Add(time.Minute), Series: map[metrics.Name]metrics.Series{}}
	for _, row := range metrics.Catalogue {
		s, err := metrics.SeriesOf(row.Name, m.Window, buckets)
		if err != nil {
			t.Fatal(err)
		}
		m.Series[row.Name] = s
	}
	c := m.journey()
	if v := lineOf(t, c, "Prefill"); !near(v[0], 300) || v[1] != nil {
		t.Errorf("prefill %v", v)
	}
	if v := lineOf(t, c, "Network and other"); !near(v[0], 50) || len(c.Notes) != 0 {
		t.Errorf("%v, %+v", v, c.Notes)
	}
}
