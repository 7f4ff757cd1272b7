package metrics

import (
	"math"

	"tokenfactory/metrics"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

const noTraffic = "No traffic in this range."

func (m Measured) requests() Chart {
	c := Chart{
		Name: "requests", Title: "Requests", Long: "Requests, good ones and errors per second", Unit: "/s", Window: m.Window,
		Tell: "What clients asked, what of it met the targets (goodput), and what failed for reasons on our side.",
		Do:   "Errors without latency: look at the states of replicas and at their last log lines. Restart, or roll back.",
		Plot: charts.Plot{Digits: 4},
		Lines: []charts.Line{
			{Name: "Requests", Color: "--chart-1", Values: m.perSecond(m.sums(metrics.Requests, metrics.Requests))},
			{Name: "Good", Color: "--chart-3", Dash: "10 4", Values: m.perSecond(m.sums(metrics.Good, metrics.Bad))},
			{Name: "Errors", Color: "--chart-4", Dash: "2 3", Values: m.perSecond(m.sums(metrics.Failures, metrics.Requests))},
		},
	}
	if !m.any(metrics.Requests) {
		c.Absent = noTraffic
		return c
	}
	c.Facts = []reading{
		figure("requests/s", m.rate(metrics.Requests), ""), figure("goodput/s", m.rate(metrics.Good), ""), figure("errors/s", m.rate(metrics.Failures), ""),
		{"requests", ui.Count(int64(math.Round(m.summary(metrics.Requests).Sum))), ""},
		{"errors", ui.Count(int64(math.Round(m.summary(metrics.Failures).Sum))), ""},
	}
	return c
}

func (m Measured) tokens() Chart {
	c := Chart{
		Name: "tokens", Title: "Tokens", Long: "Tokens in and out per second", Unit: "tokens/s", Window: m.Window,
		Tell: "Prompt tokens read and output tokens made, as billed, in the step in which their request ended.",
		Do:   "Output that stays flat while requests grow is the engine's limit: add replicas.",
		Plot: charts.Plot{Digits: 2},
		Lines: []charts.Line{
			{Name: "In", Color: "--chart-1", Values: m.perSecond(m.sums(metrics.InputTokens, metrics.Requests))},
			{Name: "Cached", Color: "--chart-2", Dash: "5 3", Values: m.perSecond(m.sums(metrics.CachedTokens, metrics.Requests))},
			{Name: "Out", Color: "--chart-3", Values: m.perSecond(m.sums(metrics.OutputTokens, metrics.Requests))},
		},
	}
	if !m.any(metrics.InputTokens, metrics.OutputTokens) {
		c.Absent = noTraffic
		return c
	}
	c.Facts = []reading{
		figure("in/s", m.rate(metrics.InputTokens), ""), figure("out/s", m.rate(metrics.OutputTokens), ""),
		{"tokens in", ui.Count(int64(math.Round(m.summary(metrics.InputTokens).Sum))), ""},
		{"tokens out", ui.Count(int64(math.Round(m.summary(metrics.OutputTokens).Sum))), ""},
	}
	return c
}

func (m Measured) concurrency() Chart {
	c := Chart{
		Name: "concurrency", Title: "Concurrency", Long: "Requests at engines, and held in the gateway", Window: m.Window,
		Tell: "How many requests are under way at one time, and how many wait here for a replica.",
		Do:   "Requests that are held for long: add replicas, or let one replica take more at once.",
		Plot: charts.Plot{Digits: 2},
		Lines: []charts.Line{
			{Name: "Under way", Color: "--chart-1", Values: m.averages(metrics.InFlight)},
			{Name: "Under way at most", Color: "--chart-2", Dash: "5 3", Values: m.Series[metrics.InFlight].Peak},
			{Name: "Held", Color: "--chart-4", Dash: "2 3", Values: m.averages(metrics.Held)},
		},
	}
	if !m.any(metrics.InFlight, metrics.Held) {
		c.Absent = "Not sampled in this range."
		return c
	}
	c.Facts = []reading{
		optional("average", m.summary(metrics.InFlight).Average), optional("peak", m.summary(metrics.InFlight).Peak), optional("held at most", m.summary(metrics.Held).Peak),
	}
	return c
}

func optional(label string, v *float64) reading {
	if v == nil {
		return reading{Label: label, Figure: noReading.Figure}
	}
	return figure(label, *v, "")
}

// lengths is the distribution of prompts' or answers' lengths.
func (m Measured) lengths(n metrics.Name) Chart {
	row, _ := metrics.Find(n)
	s := m.Series[n]
	c := Chart{Name: string(n), Title: row.Title, Long: row.Long, Unit: row.Unit, Tell: row.Tell, Do: row.Do, Window: m.Window, Plot: charts.Plot{Digits: 0}}
	if s.Summary.N == 0 {
		c.Absent = noTraffic
		return c
	}
	dashes := []string{"", "10 4", "5 3", "2 3"}
	for p, name := range charts.PercentileNames {
		c.Lines = append(c.Lines, charts.Line{Name: name, Color: "--chart-" + name, Dash: dashes[p], Values: s.Q[p]})
		c.Facts = append(c.Facts, figure(name, math.Round(*s.Summary.Q[p]), ""))
	}
	c.Facts = append(c.Facts, figure("mean", *s.Summary.Average, ""))
	return c
}
