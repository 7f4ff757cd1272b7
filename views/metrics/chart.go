package metrics

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tokenfactory/metrics"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

// Chart is a figure of a layer: lines over time, what they come to over the whole
// window, and how to read them.
type Chart struct {
	Name  string // in ids
	Title string
	Long  string
	Unit  string
	Tell  string
	Do    string
	Lines []charts.Line
	Plot  charts.Plot
	// Facts are the window's own figures.
	Facts []reading
	// Notes are what has to be known to read it, such as what an engine does not report.
	Notes []remark
	// Absent says why there is nothing to draw.
	Absent string
	// After stands under the chart, also when there is nothing to draw.
	After  templ.Component
	Window metrics.Window
}

// Layer is one of the three parts of the page.
type Layer struct {
	Name   string
	Title  string
	About  string
	Panels []Panel
	Charts []Chart
}

func (c Chart) id() string { return "chart-" + c.Name }

func (c Chart) label(span string) string {
	names := make([]string, len(c.Lines))
	for i, l := range c.Lines {
		names[i] = l.Name
	}
	return c.Long + " over " + span + ": " + strings.Join(names, ", ") + ". The table view has the same numbers."
}

func (c Chart) option(events []charts.Event) charts.Option {
	return charts.Lines(c.Window, c.Lines, c.Plot).Marked(events)
}

// empty reports whether no line has a value.
func (c Chart) empty() bool {
	for _, l := range c.Lines {
		if len(l.Said) > 0 {
			return false
		}
		for _, v := range l.Values {
			if v != nil {
				return false
			}
		}
	}
	return true
}

// reason is why there is nothing to draw; empty when there is.
func (c Chart) reason() string {
	switch {
	case c.Absent != "":
		return c.Absent
	case c.empty():
		return "Nothing was measured of this in this range."
	}
	return ""
}

func (c Chart) heads() []ui.Column {
	out := []ui.Column{{Label: "From"}}
	for _, l := range c.Lines {
		out = append(out, ui.Column{Label: l.Name, Num: true})
	}
	return out
}

// rows are the steps, newest first; steps without a value are joined.
func (c Chart) rows() []row {
	var out []row
	for i := c.Window.Points() - 1; i >= 0; i-- {
		from := c.Window.From.Add(time.Duration(i) * c.Window.Step)
		r := row{From: from, To: from.Add(c.Window.Step), Empty: true}
		for _, l := range c.Lines {
			x, known := c.at(l, i)
			r.Readings = append(r.Readings, x)
			r.Empty = r.Empty && !known
		}
		if n := len(out); r.Empty && n > 0 && out[n-1].Empty {
			out[n-1].From = from
			continue
		}
		out = append(out, r)
	}
	return out
}

// at is a line's figure of one step.
func (c Chart) at(l charts.Line, i int) (reading, bool) {
	if text, ok := l.Said[i]; ok {
		return reading{Label: l.Name, Figure: text}, true
	}
	if i >= len(l.Values) || l.Values[i] == nil {
		return reading{Label: l.Name, Figure: noReading.Figure}, false
	}
	return figure(l.Name, *l.Values[i], c.Unit), true
}

// figure writes a value in a unit of the catalogue; shares come as percent.
func figure(label string, v float64, unit string) reading {
	switch unit {
	case "ms":
		text, unit := ui.Millis(v)
		return reading{label, text, unit}
	case "%":
		return reading{label, ui.Significant(v), "%"}
	}
	return reading{label, amount(v), unit}
}

// amount writes a number as short as it is exact: whole ones without a point.
func amount(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return ui.Count(int64(v))
	}
	if a := math.Abs(v); a > 0 && a < 0.01 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return ui.Significant(v)
}
