package metrics

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/views/ui"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// window of four minutes.
var window = metrics.Window{From: start, To: start.Add(4 * time.Minute), Step: time.Minute}

// panel of a metric with a value seen so often in the first minute, and another
// window before it.
func panelOf(t *testing.T, name metrics.Name, now, before map[float64]int) Panel {
	t.Helper()
	i := slices.IndexFunc(metrics.Catalogue, func(m metrics.Metric) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("%s is not in the catalogue", name)
	}
	m := metrics.Catalogue[i]
	p := Panel{Metric: m, Objective: slo.ObjectiveOf(factory.DeploymentSpec{Workload: factory.Interactive}, name)}
	read := func(seen map[float64]int) metrics.Series {
		var r metrics.Recorder
		for v, n := range seen {
			r.Observe(start, "d", "r", name, v, n)
		}
		s, err := metrics.SeriesOf(name, window, r.Flush())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	p.Series, p.Previous = read(now), read(before).Summary
	return p
}

func plainText(s string) string { return strings.ReplaceAll(s, nbsp, " ") }

func TestTrendSaysDirectionInWords(t *testing.T) {
	for _, c := range []struct {
		name        metrics.Name
		now, before map[float64]int
		tone        ui.Tone
		want        string
	}{
		{metrics.TTFT, map[float64]int{100: 50}, map[float64]int{100: 50}, ui.Plain, "Same as previous 1 h"},
		{metrics.TTFT, map[float64]int{200: 50}, map[float64]int{160: 50}, ui.Warn, "slower than previous 1 h"},
		{metrics.TTFT, map[float64]int{105: 50}, map[float64]int{100: 50}, ui.Plain, "slower than previous 1 h"},
		{metrics.TTFT, map[float64]int{400: 50}, map[float64]int{100: 50}, ui.Warn, "× slower"},
		{metrics.E2E, map[float64]int{50: 50}, map[float64]int{100: 50}, ui.Good, "faster than previous 1 h"},
		{metrics.TTFT, map[float64]int{100: 50}, nil, ui.Plain, "Nothing in the previous 1 h"},
		{metrics.TTFT, nil, map[float64]int{100: 50}, ui.Plain, "Nothing to compare"},
		{metrics.TTFT, map[float64]int{100: 5}, map[float64]int{100: 50}, ui.Plain, "Too few samples"},
		{metrics.KVCache, map[float64]int{0.5: 5}, map[float64]int{0.3: 5}, ui.Plain, "20 points higher than"},
		{metrics.KVCache, map[float64]int{0.3: 5}, map[float64]int{0.5: 5}, ui.Plain, "20 points lower than"},
	} {
		got := panelOf(t, c.name, c.now, c.before).trend("1 h")
		if got.Tone != c.tone || !strings.Contains(plainText(got.Text), c.want) {
			t.Errorf("%s %v after %v: %+v, want %q", c.name, c.now, c.before, got, c.want)
		}
	}
}

func TestJudgementNeverRoundsUp(t *testing.T) {
	p := panelOf(t, metrics.TTFT, map[float64]int{100: 9499, 900: 501}, nil)
	if got := p.judgement(); got.Tone != ui.Bad || plainText(got.Text) != "Missed: 94.9 % within 500 ms" || plainText(got.Note) != "95 % promised" {
		t.Errorf("%+v", got)
	}
	p = panelOf(t, metrics.TTFT, map[float64]int{100: 95, 900: 5}, nil)
	if got := p.judgement(); got.Tone != ui.Good || plainText(got.Text) != "Met: 95 % within 500 ms" {
		t.Errorf("%+v", got)
	}
	if got := panelOf(t, metrics.E2E, map[float64]int{100: 5}, nil).judgement(); got.Text != "No objective" {
		t.Errorf("%+v", got)
	}
	if got := panelOf(t, metrics.TTFT, nil, nil).judgement(); got.Text != "No data" {
		t.Errorf("%+v", got)
	}
}

func TestFewSamplesAreToldOfLatenciesOnly(t *testing.T) {
	for n, want := range map[int]bool{0: false, 1: true, 99: true, 100: false} {
		if got := panelOf(t, metrics.TTFT, map[float64]int{100: n}, nil).few(); got != want {
			t.Errorf("%d samples: few %v", n, got)
		}
	}
	if panelOf(t, metrics.KVCache, map[float64]int{0.1: 3}, nil).few() {
		t.Error("a gauge has no percentiles to doubt")
	}
}

func TestTableJoinsStepsWithoutSamples(t *testing.T) {
	rows := panelOf(t, metrics.TTFT, map[float64]int{100: 120}, nil).rows()
	if len(rows) != 2 {
		t.Fatalf("%+v", rows)
	}
	if gap := rows[0]; !gap.Empty || !gap.From.Equal(start.Add(time.Minute)) || !gap.To.Equal(start.Add(4*time.Minute)) {
		t.Errorf("gap %+v", gap)
	}
	if r := rows[1]; r.Empty || r.Samples != "120" || r.Few || len(r.Readings) != 4 {
		t.Errorf("row %+v", r)
	}
}

func TestAddressesKeepWhatWasChosen(t *testing.T) {
	q := Query{Range: "6h", View: "table", Hide: "p95"}
	if got := q.url("d"); got != "/deployments/d/metrics?hide=p95&range=6h&view=table" {
		t.Error(got)
	}
	custom := Query{Range: DefaultRange, From: "2026-11-30T10:00", To: "2026-11-30T11:00"}
	if got := custom.url("d"); got != "/deployments/d/metrics?from=2026-11-30T10%3A00&to=2026-11-30T11%3A00" || custom.refresh() != "" {
		t.Error(got, custom.refresh())
	}
	of := Query{Range: DefaultRange, Tenant: "t", Key: "k", Compare: "previous"}
	if got := of.url("d"); got != "/deployments/d/metrics?compare=previous&key=k&tenant=t" || of.wider().url("d") != "/deployments/d/metrics?compare=previous" || of.LeastStep() != time.Minute {
		t.Error(got, of.wider().url("d"), of.LeastStep())
	}
	of.Places = Places{Page: "/t/acme/models/chat/metrics", CSV: "/t/acme/models/chat/metrics.csv"}
	if of.url("d") != "/t/acme/models/chat/metrics?compare=previous&key=k" || of.csv("d") != "/t/acme/models/chat/metrics.csv?key=k" || of.wider().url("d") != "/t/acme/models/chat/metrics?compare=previous" {
		t.Error(of.url("d"), of.csv("d"), of.wider().url("d"))
	}
	for _, l := range custom.ranges("d") {
		if l.Current || strings.Contains(l.Href, "from=") {
			t.Errorf("%+v", l)
		}
	}
}

func TestTabShowsWhatIsThereAndSaysWhatIsNot(t *testing.T) {
	kv := panelOf(t, metrics.KVCache, nil, nil)
	kv.Absent = "Not reported by this engine."
	last := start
	tab := Tab{
		Deployment: factory.Deployment{ID: "d", DeploymentSpec: factory.DeploymentSpec{PublicName: `it's "x"`}},
		Query:      Query{Range: "15m"}, Window: window, Now: start.Add(5 * time.Minute), BaseURL: "http://factory.example/v1", LastRequest: &last,
		Panels: []Panel{panelOf(t, metrics.TTFT, map[float64]int{100: 3}, nil), kv},
	}
	draw := func() string {
		var err error
		if tab.Layers, err = Layers(tab.Deployment, Measured{Window: window, Now: tab.Now}, tab.Panels, true); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Show(tab).Render(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	page := draw()
	for _, want := range []string{`data-card="ttft"`, "few for a p99", "Not reported by this engine.", `data-chart="chart-ttft-option"`, "hx-morph-skip", `hx-trigger="every 5s"`, "What it tells", "noscript"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, `id="chart-kv_cache"`) {
		t.Error("a chart of what is not reported")
	}
	tab.Query.View = "table"
	if page = draw(); strings.Contains(page, "data-chart=") || !strings.Contains(page, "no samples") {
		t.Error("the table view has charts, or no gap")
	}
	tab.Panels[0] = panelOf(t, metrics.TTFT, nil, nil)
	if page = draw(); !strings.Contains(page, "No requests in this range") {
		t.Error("a quiet range does not say so")
	}
	tab.LastRequest = nil
	if page = draw(); !strings.Contains(page, "curl http://factory.example/v1/chat/completions") || !strings.Contains(page, `it&#39;\&#39;&#39;s`) {
		t.Error("a deployment without traffic does not say how to send a first request")
	}
}
