package metrics

import (
	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

func (m Measured) goodShare(d factory.Deployment) Chart {
	good, bad := m.sums(metrics.Good, metrics.Bad), m.sums(metrics.Bad, metrics.Good)
	promised := d.ObjectiveShare() * 100
	c := Chart{
		Name: "good", Title: "Good requests", Long: "Requests that succeeded and met the targets", Unit: "%", Window: m.Window,
		Tell:  "Each request is judged when it ends, by the targets in force when it came. A client's own mistakes do not count.",
		Do:    "Look at which of TTFT, ITL and errors moved at the same time.",
		Lines: []charts.Line{{Name: "Good", Values: shares(good, added(good, bad)), Color: "--chart-3"}},
		Plot:  charts.Plot{Share: true, Digits: 2, Objective: &charts.Objective{Value: promised, Label: "objective " + plain(promised) + " %"}},
	}
	of, failed := m.summary(metrics.Good).Sum, m.summary(metrics.Bad).Sum
	if of+failed == 0 {
		c.Absent = "No traffic: no request was judged in this range."
		return c
	}
	c.Facts = []reading{
		{"good", floored(100 * of / (of + failed)), "%"},
		{"requests good", ui.Count(int64(of + 0.5)), ""}, {"requests bad", ui.Count(int64(failed + 0.5)), ""},
	}
	return c
}

// floored writes a share so that 99.996 % does not read as 100 %.
func floored(percent float64) string {
	return plain(float64(int64(percent*100+1e-7)) / 100)
}

// journey is where the time of a request goes, on average: means add up, percentiles
// would not.
func (m Measured) journey() Chart {
	c := Chart{
		Name: "journey", Title: "Where the time goes", Long: "Average time of a request by part", Unit: "ms", Window: m.Window,
		Tell: "The gateway's wait, the engine's queue and the reading of the prompt come before the first token; decoding makes the rest. Averages add up, percentiles do not.",
		Do:   "The part that grew is the one to look at: replicas for queues, prompt lengths for prefill, the batch for decoding, the path for the network.",
		Plot: charts.Plot{Stacked: true, Digits: 1},
	}
	if !m.any(metrics.TTFT, metrics.Decode, metrics.Queue) {
		c.Absent = "No traffic: nothing to divide up in this range."
		return c
	}
	parts := m.parts()
	for _, p := range parts {
		if len(p.whole) == 0 {
			continue
		}
		c.Facts = append(c.Facts, millis(p.name, p.whole[0]))
		c.Lines = append(c.Lines, charts.Line{Name: p.name, Values: p.steps, Color: p.color})
	}
	if !m.any(metrics.EngineQueue) || !m.any(metrics.EnginePrefill) {
		text := "The engine does not report its queue and prefill apart in this range."
		if !m.any(metrics.EngineTTFT) {
			text = "The engine reports neither its queue nor its prefill in this range, so they are one part with the network."
		}
		c.Notes = append(c.Notes, remark{Tone: ui.Plain, Icon: "info", Text: text})
	}
	return c
}

// part is one stretch of a request: its mean of each step, and of the whole window.
type part struct {
	name, color string
	steps       []*float64
	whole       []*float64 // one value, or none when it is unknown
}

// parts cut a request up as finely as the engine's own figures allow.
func (m Measured) parts() []part {
	measured := func(name, color string, n metrics.Name) part {
		p := part{name: name, color: color, steps: m.averages(n)}
		if v := m.summary(n).Average; v != nil {
			p.whole = []*float64{v}
		}
		return p
	}
	queue := measured("Wait in the gateway", "--chart-4", metrics.Queue)
	out := []part{queue}
	taken := []part{queue}
	rest := "Network and other"
	switch {
	case m.any(metrics.EngineQueue) && m.any(metrics.EnginePrefill):
		taken = append(taken, measured("Engine's queue", "--chart-5", metrics.EngineQueue), measured("Prefill", "--chart-1", metrics.EnginePrefill))
	case m.any(metrics.EngineTTFT):
		taken = append(taken, measured("Engine before the first token", "--chart-1", metrics.EngineTTFT))
	default:
		rest = "Engine before the first token, and network"
	}
	out = append(out, taken[1:]...)
	first := measured(rest, "--chart-6", metrics.TTFT)
	out = append(out, left(first, taken), measured("Decoding", "--chart-2", metrics.Decode))
	return out
}

// left is what remains of a part when others are taken away; where one of those is
// unknown, so is the rest. The engine measures other requests than the gateway at the
// edges of a step, so it may come out below zero.
func left(of part, taken []part) part {
	less := func(v *float64, values func(part) []*float64, i int) *float64 {
		if v == nil {
			return nil
		}
		rest := *v
		for _, t := range taken {
			list := values(t)
			if i >= len(list) || list[i] == nil {
				return nil
			}
			rest -= *list[i]
		}
		rest = max(rest, 0)
		return &rest
	}
	out := part{name: of.name, color: of.color, steps: make([]*float64, len(of.steps))}
	for i, v := range of.steps {
		out.steps[i] = less(v, func(p part) []*float64 { return p.steps }, i)
	}
	for i, v := range of.whole {
		if rest := less(v, func(p part) []*float64 { return p.whole }, i); rest != nil {
			out.whole = append(out.whole, rest)
		}
	}
	return out
}

func (m Measured) averages(n metrics.Name) []*float64 {
	if s := m.Series[n]; s.Average != nil {
		return s.Average
	}
	return make([]*float64, m.Window.Points())
}
