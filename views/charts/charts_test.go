package charts

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tokenfactory/metrics"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// series of three minutes; the middle one has no samples.
func series(t *testing.T, name metrics.Name, values ...float64) metrics.Series {
	t.Helper()
	var r metrics.Recorder
	for _, v := range values {
		r.Observe(start, "d", "r", name, v, 1)
		r.Observe(start.Add(2*time.Minute), "d", "r", name, v, 2)
	}
	s, err := metrics.SeriesOf(name, metrics.Window{From: start, To: start.Add(3 * time.Minute), Step: time.Minute}, r.Flush())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// option is what the browser reads.
type option struct {
	Dataset []struct{ Source [][]any }
	Legend  struct{ Data []string }
	Grid    []any
	XAxis   []struct {
		Type     string
		Min, Max float64
	}
	Series []struct {
		Name         string
		Type         string
		Stack        string
		ConnectNulls *bool
		Encode       struct{ X, Y int }
		LineStyle    struct{ Type, Color string }
		MarkLine     struct {
			Data []struct {
				Name  string
				YAxis float64
			}
		}
	}
}

func read(t *testing.T, o Option) option {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out option
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return out
}

func TestLatencyChartDrawsPercentilesGapsAndObjective(t *testing.T) {
	o := read(t, Latency(series(t, metrics.TTFT, 100, 200), nil, &Objective{Value: 500, Label: "objective 500 ms"}))
	if got := strings.Join(o.Legend.Data, " "); got != "p50 p90 p95 p99" {
		t.Errorf("legend %q", got)
	}
	if len(o.Dataset[0].Source) != 3 || o.Dataset[0].Source[0][0] != float64(start.UnixMilli()) {
		t.Fatalf("rows %v", o.Dataset[0].Source)
	}
	for i, v := range o.Dataset[0].Source[1][1:5] {
		if v != nil {
			t.Errorf("column %d of a minute without samples is %v, not a gap", i+1, v)
		}
	}
	if n := o.Dataset[0].Source[2][5]; n != 4.0 {
		t.Errorf("%v samples, want 4", n)
	}
	dashes := map[string]bool{}
	for i, s := range o.Series {
		if s.Type != "line" || s.Encode.X != 0 || s.Encode.Y != i+1 || s.ConnectNulls == nil || *s.ConnectNulls {
			t.Errorf("series %+v", s)
		}
		if s.LineStyle.Color != "var(--chart-"+s.Name+")" {
			t.Errorf("%s has colour %q", s.Name, s.LineStyle.Color)
		}
		dashes[s.LineStyle.Type] = true
	}
	if len(dashes) != 4 {
		t.Errorf("the four lines have %d kinds of dashes", len(dashes))
	}
	if m := o.Series[0].MarkLine.Data; len(m) != 1 || m[0].YAxis != 500 || m[0].Name != "objective 500 ms" {
		t.Errorf("objective %+v", m)
	}
	if len(o.Grid) != 1 || o.XAxis[0].Type != "time" || o.XAxis[0].Max != float64(start.Add(3*time.Minute).UnixMilli()) {
		t.Errorf("grid %v, axis %+v", o.Grid, o.XAxis)
	}
}

func TestLatencyChartDrawsTheWindowBeforeUnderThisOne(t *testing.T) {
	v := 80.0
	o := read(t, Latency(series(t, metrics.TTFT, 100), []*float64{nil, &v, nil}, nil))
	if got := strings.Join(o.Legend.Data, " "); got != "p50 p90 p95 p99 p50 before" {
		t.Errorf("legend %q", got)
	}
	if rows := o.Dataset[0].Source; rows[0][5] != nil || rows[1][5] != 80.0 || rows[0][6] != 1.0 {
		t.Errorf("rows %v", rows)
	}
	if ghost := o.Series[4]; ghost.Encode.Y != 5 || ghost.LineStyle.Type != "1 4" {
		t.Errorf("ghost %+v", ghost)
	}
}

func TestLinesShareTheirTimesAndKeepGapsAndWords(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	w := metrics.Window{From: start, To: start.Add(3 * time.Minute), Step: time.Minute}
	o := Lines(w, []Line{
		{Name: "a", Color: "--chart-1", Values: []*float64{v(1.23456), nil, v(0)}},
		{Name: "b", Color: "--chart-2", Dash: "5 3", Values: []*float64{nil, nil, v(2)}, Said: map[int]string{1: "> 60 s"}},
	}, Plot{Digits: 2}).Marked([]Event{{start.Add(time.Minute), "restart", "The engine began anew."}})
	rows := read(t, o).Dataset[0].Source
	if len(rows) != 3 || rows[2][0] != float64(start.Add(2*time.Minute).UnixMilli()) || rows[0][1] != 1.23 || rows[1][1] != nil || rows[2][1] != 0.0 {
		t.Errorf("rows %v", rows)
	}
	b, err := json.Marshal(o)
	if err != nil || !strings.Contains(string(b), `"said":{"b":{"1":"\u003e 60 s"}}`) || !strings.Contains(string(b), `"kind":"restart"`) {
		t.Errorf("%v in %s", err, b)
	}
}

func TestGaugeChartShadesTheSpread(t *testing.T) {
	o := read(t, Gauge(series(t, metrics.KVCache, 0.2, 0.6), nil))
	row := o.Dataset[0].Source[0]
	if row[1] != 40.0 || row[2] != 60.0 || row[3] != 20.0 {
		t.Errorf("average, peak and spread are %v", row[1:4])
	}
	if o.Dataset[0].Source[1][1] != nil {
		t.Error("a minute without samples is no gap")
	}
	stacked := 0
	for _, s := range o.Series {
		if s.Stack != "" {
			stacked++
		}
	}
	if stacked != 2 || len(o.Legend.Data) != 3 {
		t.Errorf("%d stacked series, legend %v", stacked, o.Legend.Data)
	}
}

func TestColumnsKeepNamesAndMissingValues(t *testing.T) {
	o := read(t, Columns(Bars{Categories: []string{"1 Dec", "2 Dec"}, Series: []BarSeries{{"Input", []float64{1, 2}}, {"Output", []float64{3}}}}))
	if o.Dataset[0].Source[1][2] != nil || o.Dataset[0].Source[1][1] != 2.0 || o.Series[1].Type != "bar" || o.Series[1].Stack == "" {
		t.Errorf("%+v", o)
	}
}

func TestNamesCannotLeaveTheirBlock(t *testing.T) {
	var b bytes.Buffer
	evil := "</script><img src=x onerror=alert(1)>"
	c := FigureOf("f", evil, "g", "ms", "", Columns(Bars{Categories: []string{evil}, Series: []BarSeries{{evil, []float64{1}}}}))
	if err := c.Render(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<img") || strings.Count(b.String(), "</script>") != 1 {
		t.Errorf("a name got out: %s", b.String())
	}
	if strings.Contains(b.String(), "style=") {
		t.Error("an inline style")
	}
}

func TestSparklineLiftsThePenOverGaps(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		values []*float64
		want   string
	}{
		{nil, ""},
		{[]*float64{v(0), v(10), v(5)}, "M0.0 26.0L60.0 2.0L120.0 14.0"},
		{[]*float64{v(10), nil, v(10)}, "M0.0 2.0h1M120.0 2.0h1"},
		{[]*float64{v(0)}, "M0.0 26.0h1"},
	} {
		if got := sparkPath(c.values); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
