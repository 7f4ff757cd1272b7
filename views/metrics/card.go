package metrics

import (
	"math"
	"strconv"
	"strings"

	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

// reading is one figure of a card.
type reading struct{ Label, Figure, Unit string }

// remark is a short sentence with the icon and colour of what it means.
type remark struct {
	Tone ui.Tone
	Icon string
	Text string
	Note string // follows the text with less weight
}

var noReading = reading{Figure: "–"}

func millis(label string, v *float64) reading {
	if v == nil {
		return reading{Label: label, Figure: noReading.Figure}
	}
	figure, unit := ui.Millis(*v)
	return reading{label, figure, unit}
}

func percent(label string, v *float64) reading {
	if v == nil {
		return reading{Label: label, Figure: noReading.Figure}
	}
	return reading{label, ui.Significant(*v * 100), "%"}
}

// readings are a summary's figures; the first is the big one.
func (p Panel) readings() []reading {
	s := p.Series.Summary
	if p.Metric.Shape == metrics.Gauge {
		var spread *float64
		if s.Average != nil && s.Peak != nil {
			d := *s.Peak - *s.Average
			spread = &d
		}
		return []reading{percent("average", s.Average), percent("peak", s.Peak), percent("spread", spread)}
	}
	out := make([]reading, len(charts.PercentileNames))
	for i, name := range charts.PercentileNames {
		var v *float64
		if i < len(s.Q) {
			v = s.Q[i]
		}
		out[i] = millis(name, v)
	}
	return out
}

// spark are the values of the card's tiny line.
func (p Panel) spark() []*float64 {
	if p.Metric.Shape == metrics.Gauge {
		return p.Series.Average
	}
	if len(p.Series.Q) == 0 {
		return nil
	}
	return p.Series.Q[0]
}

func (p Panel) samples() string {
	n := int64(math.Round(p.Series.Summary.N))
	return ui.Plural(n, "sample")
}

// few reports whether a p99 rests on so few samples that one more could move it far.
func (p Panel) few() bool {
	n := p.Series.Summary.N
	return p.Metric.Shape == metrics.Distribution && n > 0 && n < metrics.FewSamples
}

// judgement says how the window stands against the objective.
func (p Panel) judgement() remark {
	j := slo.Judge(p.Objective, p.Series.Summary)
	if p.Metric.Shape == metrics.Gauge && p.Objective != nil {
		bound := plain(p.Objective.Bound*100) + nbsp + "%"
		switch j.State {
		case slo.Met:
			return remark{Tone: ui.Good, Icon: "ok", Text: "Below " + bound}
		case slo.Strained:
			return remark{Tone: ui.Warn, Icon: "warn", Text: "Over " + bound + " at peaks"}
		case slo.Missed:
			return remark{Tone: ui.Bad, Icon: "fail", Text: "Over " + bound + " on average"}
		}
	}
	switch j.State {
	case slo.Met:
		return remark{Tone: ui.Good, Icon: "ok", Text: "Met: " + p.within(j), Note: p.promised()}
	case slo.Missed:
		return remark{Tone: ui.Bad, Icon: "fail", Text: "Missed: " + p.within(j), Note: p.promised()}
	case slo.NoData:
		return remark{Tone: ui.Plain, Icon: "none", Text: "No data"}
	}
	return remark{Tone: ui.Plain, Icon: "none", Text: "No objective"}
}

// within writes the share inside the target, rounded down: 94.99 % is not 95 %.
func (p Panel) within(j slo.Judgement) string {
	share := math.Floor(j.Within*1000+1e-9) / 10
	return plain(share) + nbsp + "% within" + nbsp + joined(p.Objective.Bound)
}

func (p Panel) promised() string {
	return plain(p.Objective.Share*100) + nbsp + "%" + nbsp + "promised"
}

// A figure and its unit stay on one line.
const nbsp = "\u00a0"

func joined(ms float64) string { return strings.ReplaceAll(ui.MillisText(ms), " ", nbsp) }

// Fewer samples than these are no ground to compare two windows on; and a change
// within the sketch's error and a little noise is none.
const (
	leastToCompare = 20
	noChange       = 0.03
	muchChange     = 0.10
)

// trend compares the big figure with the window before.
func (p Panel) trend(span string) remark {
	before := "previous" + nbsp + strings.ReplaceAll(span, " ", nbsp)
	now, then := p.Series.Summary, p.Previous
	switch {
	case now.N == 0:
		return remark{Tone: ui.Plain, Icon: "none", Text: "Nothing to compare"}
	case then.N == 0:
		return remark{Tone: ui.Plain, Icon: "none", Text: "Nothing in the " + before}
	case p.Metric.Shape == metrics.Gauge:
		return pointsTrend((*now.Average-*then.Average)*100, before)
	case now.N < leastToCompare || then.N < leastToCompare:
		return remark{Tone: ui.Plain, Icon: "none", Text: "Too few samples to compare"}
	}
	return latencyTrend(*now.Q[0], *then.Q[0], before)
}

func latencyTrend(now, then float64, before string) remark {
	if then <= 0 {
		return remark{Tone: ui.Plain, Icon: "none", Text: "Nothing to compare"}
	}
	change := now/then - 1
	if math.Abs(change) < noChange {
		return remark{Tone: ui.Plain, Icon: "arrow-right", Text: "Same as " + before}
	}
	amount := strconv.Itoa(int(math.Round(math.Abs(change)*100))) + nbsp + "%"
	if change >= 1 {
		amount = ui.Significant(now/then) + nbsp + "×"
	}
	if change < 0 {
		return remark{Tone: ui.Good, Icon: "arrow-down", Text: amount + " faster than " + before}
	}
	tone := ui.Plain
	if change > muchChange {
		tone = ui.Warn
	}
	return remark{Tone: tone, Icon: "arrow-up", Text: amount + " slower than " + before}
}

// pointsTrend compares shares, in percentage points: full memory is no failure by
// itself, so a rise is not coloured.
func pointsTrend(change float64, before string) remark {
	amount := plain(math.Round(math.Abs(change)*10)/10) + " points "
	switch {
	case math.Abs(change) < 0.5:
		return remark{Tone: ui.Plain, Icon: "arrow-right", Text: "Same as " + before}
	case change < 0:
		return remark{Tone: ui.Plain, Icon: "arrow-down", Text: amount + "lower than " + before}
	}
	return remark{Tone: ui.Plain, Icon: "arrow-up", Text: amount + "higher than " + before}
}

// plain writes a number with as many digits as it has: 95, 99.9.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
