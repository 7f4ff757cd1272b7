package metrics

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tokenfactory/metrics"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

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
	known, first, decode := m.stretches()
	rest, undivided, missing := left(first, known)
	parts := append(slices.Clone(known), rest)
	if len(missing) > 0 {
		parts = append(parts, undivided)
		c.Notes = append(c.Notes, remark{Tone: ui.Plain, Icon: "info", Text: missed(undivided, first, missing)})
	}
	for _, p := range append(parts, decode) {
		if p.whole != nil {
			c.Facts = append(c.Facts, millis(p.name, p.whole))
		}
		if p.whole != nil || p.name == undivided.name {
			c.Lines = append(c.Lines, charts.Line{Name: p.name, Values: p.steps, Color: p.color})
		}
	}
	if m.OneTenant {
		c.Notes = append(c.Notes, remark{Tone: ui.Plain, Icon: "info", Text: "Engines do not tell tenants apart, so their queue and prefill are one part with the network."})
	} else if !m.any(metrics.EngineQueue) || !m.any(metrics.EnginePrefill) {
		text := "The engine does not report its queue and prefill apart in this range."
		if !m.any(metrics.EngineTTFT) {
			text = "The engine reports neither its queue nor its prefill in this range, so they are one part with the network."
		}
		c.Notes = append(c.Notes, remark{Tone: ui.Plain, Icon: "info", Text: text})
	}
	return c
}

// part is one stretch of a request: its mean of each step, and of the whole window; nil
// where it is unknown.
type part struct {
	name, color string
	steps       []*float64
	whole       *float64
}

// stretches cut a request up as finely as the engine's own figures allow: what is known
// before the first token, all of that time, and what comes after.
func (m Measured) stretches() (known []part, first, decode part) {
	measured := func(name, color string, n metrics.Name) part {
		return part{name: name, color: color, steps: m.averages(n), whole: m.summary(n).Average}
	}
	late := func(name, color string, n metrics.Name) part {
		p := measured(name, color, n)
		p.steps = m.inTime(p.steps)
		return p
	}
	known = []part{late("Wait in the gateway", "--chart-4", metrics.Queue)}
	rest := "Network and other"
	switch {
	case m.any(metrics.EngineQueue) && m.any(metrics.EnginePrefill):
		known = append(known, late("Engine's queue", "--chart-5", metrics.EngineQueue), late("Prefill", "--chart-1", metrics.EnginePrefill))
	case m.any(metrics.EngineTTFT):
		known = append(known, late("Engine before the first token", "--chart-1", metrics.EngineTTFT))
	default:
		rest = "Engine before the first token, and network"
	}
	return known, measured(rest, "--chart-6", metrics.TTFT), measured("Decoding", "--chart-2", metrics.Decode)
}

// lateStep is the longest step that a figure can miss by coming a few seconds late.
const lateStep = 30 * time.Second

// inTime puts a figure beside the first tokens that it is of. Engines are read every few
// seconds, and the wait is written down when a request is over, so that with sparse
// traffic they come in the step after.
func (m Measured) inTime(figure []*float64) []*float64 {
	first := m.averages(metrics.TTFT)
	if m.Window.Step > lateStep {
		return figure
	}
	out := slices.Clone(figure)
	for i := 0; i+1 < len(out); i++ {
		if out[i] == nil && first[i] != nil && first[i+1] == nil {
			out[i], out[i+1] = out[i+1], nil
		}
	}
	return out
}

// left is what remains of a stretch when the known parts are taken away. In a step in which
// one of them is not known the remainder has that one in it: it is no gap, and
// stands apart under a name of its own. The engine measures other requests than the
// gateway at the edges of a step, so a remainder may come out below zero.
func left(of part, known []part) (rest, undivided part, missing []string) {
	rest = part{name: of.name, color: of.color, steps: make([]*float64, len(of.steps))}
	undivided = part{name: "Not told apart", color: "--chart-3", steps: make([]*float64, len(of.steps))}
	for i, v := range of.steps {
		if v == nil {
			continue
		}
		remains, to := *v, rest.steps
		for _, p := range known {
			switch {
			case i < len(p.steps) && p.steps[i] != nil:
				remains -= *p.steps[i]
			case p.whole != nil:
				to = undivided.steps
				if !slices.Contains(missing, p.name) {
					missing = append(missing, p.name)
				}
			}
		}
		remains = max(remains, 0)
		to[i] = &remains
	}
	if of.whole != nil {
		remains := *of.whole
		for _, p := range known {
			if p.whole != nil {
				remains -= *p.whole
			}
		}
		remains = max(remains, 0)
		rest.whole = &remains
	}
	return rest, undivided, missing
}

// missed says in how many steps which parts are not known.
func missed(undivided, first part, missing []string) string {
	return fmt.Sprintf("In %d of %s with a first token nothing is known of: %s. Their time is in “%s” there.",
		count(undivided.steps), ui.Plural(int64(count(first.steps)), "step"), strings.Join(missing, ", "), undivided.name)
}

func count(values []*float64) int {
	n := 0
	for _, v := range values {
		if v != nil {
			n++
		}
	}
	return n
}

func (m Measured) averages(n metrics.Name) []*float64 {
	if s := m.Series[n]; s.Average != nil {
		return s.Average
	}
	return make([]*float64, m.Window.Points())
}
