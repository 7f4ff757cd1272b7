package metrics

import (
	"time"

	"tokenfactory/metrics"
	"tokenfactory/views/ui"
)

// row is a line of the table view: one step, or a run of steps without samples.
type row struct {
	From, To time.Time
	Empty    bool
	Readings []reading
	Samples  string
	Few      bool // too few for a p99
}

// heads are the table's columns after the time.
func (p Panel) heads() []ui.Column {
	out := []ui.Column{{Label: "From"}}
	if p.Metric.Shape == metrics.Gauge {
		return append(out, ui.Column{Label: "Average", Num: true}, ui.Column{Label: "Peak", Num: true}, ui.Column{Label: "Spread", Num: true}, ui.Column{Label: "Samples", Num: true})
	}
	return append(out, ui.Column{Label: "p50", Num: true}, ui.Column{Label: "p90", Num: true}, ui.Column{Label: "p95", Num: true},
		ui.Column{Label: "p99", Num: true}, ui.Column{Label: "Samples", Num: true})
}

// rows are the steps, newest first.
func (p Panel) rows() []row {
	var out []row
	for i := len(p.Series.Times) - 1; i >= 0; i-- {
		from := p.Series.Times[i]
		if p.Series.N[i] == 0 {
			if n := len(out); n > 0 && out[n-1].Empty {
				out[n-1].From = from
				continue
			}
			out = append(out, row{From: from, To: from.Add(p.Series.Window.Step), Empty: true})
			continue
		}
		out = append(out, row{
			From: from, To: from.Add(p.Series.Window.Step), Readings: p.step(i), Samples: ui.Count(int64(p.Series.N[i] + 0.5)),
			Few: p.Metric.Shape == metrics.Distribution && p.Series.N[i] < metrics.FewSamples,
		})
	}
	return out
}

// step are the figures of one step.
func (p Panel) step(i int) []reading {
	one := Panel{Metric: p.Metric}
	if p.Metric.Shape == metrics.Gauge {
		one.Series.Summary.Average, one.Series.Summary.Peak = p.Series.Average[i], p.Series.Peak[i]
		return one.readings()
	}
	for _, q := range p.Series.Q {
		one.Series.Summary.Q = append(one.Series.Summary.Q, q[i])
	}
	return one.readings()
}
