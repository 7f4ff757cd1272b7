package charts

import (
	"strconv"

	echarts "github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"

	"tokenfactory/metrics"
)

// Line is one of the lines of a chart over time, with a value for each step of the
// window; nil is a gap.
type Line struct {
	Name   string
	Values []*float64
	Color  string // a custom property: "--chart-1"
	Dash   string // "5 3"; empty is solid
	// Said are steps whose value is no plain number: "> 60 s" where an engine's histogram
	// knows no more. A tooltip says it in place of the value.
	Said map[int]string
}

// Plot says how lines are drawn together.
type Plot struct {
	// Stacked lines are parts of a whole, drawn as areas on top of each other.
	Stacked bool
	// Share is a plot of percentages: its axis ends at 100.
	Share bool
	// Floor is where the axis begins, when there are values below zero.
	Floor float64
	// Digits are kept after the point.
	Digits    int
	Objective *Objective
}

// Lines makes the option of lines over time that share one column of times.
func Lines(w metrics.Window, lines []Line, plot Plot) Option {
	names := make([]string, len(lines))
	said := map[string]map[string]string{}
	for i, l := range lines {
		names[i] = l.Name
		for step, text := range l.Said {
			if said[l.Name] == nil {
				said[l.Name] = map[string]string{}
			}
			said[l.Name][strconv.Itoa(step)] = text
		}
	}
	var most any
	if plot.Share {
		most = 100
	}
	c := overTime(w, names, most)
	if plot.Floor < 0 {
		c.YAxisList[0].Min = plot.Floor
	}
	c.AddDataset(opts.Dataset{Source: table(w, lines, plot.Digits)})
	for i, l := range lines {
		options := append([]echarts.SeriesOpts{encoded(i + 1)}, l.looks(plot.Stacked)...)
		if i == 0 && plot.Objective != nil {
			options = append(options, mark(*plot.Objective)...)
		}
		c.AddSeries(l.Name, nil, options...)
	}
	c.Validate()
	o := finish(c.JSON())
	if len(said) > 0 {
		o["said"] = said
	}
	return o
}

func table(w metrics.Window, lines []Line, digits int) [][]any {
	rows := make([][]any, w.Points())
	for i := range rows {
		row := make([]any, 1, 1+len(lines))
		row[0] = w.From.UnixMilli() + int64(i)*w.Step.Milliseconds()
		for _, l := range lines {
			row = append(row, cell(valueAt(l.Values, i), digits))
		}
		rows[i] = row
	}
	return rows
}

func valueAt(values []*float64, i int) *float64 {
	if i >= len(values) {
		return nil
	}
	return values[i]
}

func (l Line) looks(stacked bool) []echarts.SeriesOpts {
	color := "var(" + l.Color + ")"
	dash := l.Dash
	if dash == "" {
		dash = "solid"
	}
	item := echarts.WithItemStyleOpts(opts.ItemStyle{Color: color})
	if !stacked {
		return []echarts.SeriesOpts{line, item, echarts.WithLineStyleOpts(opts.LineStyle{Color: color, Width: 1.75, Type: dash})}
	}
	return []echarts.SeriesOpts{
		echarts.WithLineChartOpts(opts.LineChart{Stack: "all", ShowSymbol: opts.Bool(false), ConnectNulls: opts.Bool(false)}), item,
		echarts.WithLineStyleOpts(opts.LineStyle{Color: color, Width: 1, Type: "solid"}),
		echarts.WithAreaStyleOpts(opts.AreaStyle{Color: color}),
	}
}
