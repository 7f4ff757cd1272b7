package charts

import (
	"math"
	"slices"
	"time"

	echarts "github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"

	"tokenfactory/metrics"
)

// PercentileNames are the entries of metrics.Percentiles as people call them.
var PercentileNames = []string{"p50", "p90", "p95", "p99"}

// One hue from light to dark, each with its own dashes: lines stay apart in print
// and for people who do not see the shades.
var percentileDashes = []string{"solid", "10 4", "5 3", "2 3"}

// Objective is a target drawn as a thin labelled line.
type Objective struct {
	Value float64 // in the unit of the series
	Label string
}

// beforeName is the median of the window before, drawn under this one.
const beforeName = "p50 before"

// Latency makes the option of a latency's percentiles over time. Steps without
// samples are gaps. before is the median of the window before, step by step, or nil.
func Latency(s metrics.Series, before []*float64, objective *Objective) Option {
	names := PercentileNames
	if before != nil {
		names = append(slices.Clone(names), beforeName)
	}
	c := overTime(s.Window, names, nil)
	rows := make([][]any, len(s.Times))
	for i, t := range s.Times {
		row := make([]any, 0, 3+len(PercentileNames))
		row = append(row, t.UnixMilli())
		for p := range PercentileNames {
			row = append(row, percentile(at(s.Q, p, i)))
		}
		if before != nil {
			row = append(row, percentile(valueAt(before, i)))
		}
		rows[i] = append(row, math.Round(s.N[i]))
	}
	c.AddDataset(opts.Dataset{Source: rows})
	for p, name := range PercentileNames {
		options := []echarts.SeriesOpts{
			encoded(p + 1), line,
			echarts.WithLineStyleOpts(opts.LineStyle{Color: "var(--chart-" + name + ")", Width: 1.75, Type: percentileDashes[p]}),
			echarts.WithItemStyleOpts(opts.ItemStyle{Color: "var(--chart-" + name + ")"}),
		}
		if p == 0 && objective != nil {
			options = append(options, mark(*objective)...)
		}
		c.AddSeries(name, nil, options...)
	}
	if before != nil {
		ghost := Line{Color: "--chart-text", Dash: "1 4"}
		c.AddSeries(beforeName, nil, append(ghost.looks(false), encoded(1+len(PercentileNames)))...)
	}
	c.Validate()
	return sampled(finish(c.JSON()))
}

// sampled says that the last column of an option's rows counts the samples.
func sampled(o Option) Option {
	o["samples"] = true
	return o
}

// Names of a gauge's series.
const (
	averageName = "Average"
	peakName    = "Peak"
	spreadName  = "Spread"
	// A name that begins with an underscore is no series of its own: the script
	// leaves it out of tooltips. It lifts the spread up to the average.
	liftName = "_lift"
)

// Gauge makes the option of a share's average and peak over time, with the spread
// between them shaded. Values are percent.
func Gauge(s metrics.Series, objective *Objective) Option {
	c := overTime(s.Window, []string{averageName, peakName, spreadName}, 100)
	rows := make([][]any, len(s.Times))
	for i, t := range s.Times {
		row := []any{t.UnixMilli(), nil, nil, nil, s.N[i]}
		if s.Average[i] != nil && s.Peak[i] != nil {
			average, peak := *s.Average[i]*100, *s.Peak[i]*100
			row[1], row[2], row[3] = round(average, 2), round(peak, 2), round(peak-average, 2)
		}
		rows[i] = row
	}
	c.AddDataset(opts.Dataset{Source: rows})
	stacked := echarts.WithLineChartOpts(opts.LineChart{Stack: "spread", ShowSymbol: opts.Bool(false), ConnectNulls: opts.Bool(false)})
	average := []echarts.SeriesOpts{
		encoded(1), line,
		echarts.WithLineStyleOpts(opts.LineStyle{Color: "var(--chart-p95)", Width: 1.75, Type: "solid"}),
		echarts.WithItemStyleOpts(opts.ItemStyle{Color: "var(--chart-p95)"}),
	}
	if objective != nil {
		average = append(average, mark(*objective)...)
	}
	c.AddSeries(liftName, nil, encoded(1), stacked, echarts.WithLineStyleOpts(opts.LineStyle{Color: "transparent", Width: 0.01}),
		echarts.WithItemStyleOpts(opts.ItemStyle{Color: "transparent"}))
	c.AddSeries(spreadName, nil, encoded(3), stacked,
		echarts.WithLineStyleOpts(opts.LineStyle{Color: "transparent", Width: 0.01}),
		echarts.WithItemStyleOpts(opts.ItemStyle{Color: "var(--chart-spread)"}),
		echarts.WithAreaStyleOpts(opts.AreaStyle{Color: "var(--chart-spread)"}))
	c.AddSeries(averageName, nil, average...)
	c.AddSeries(peakName, nil, encoded(2), line,
		echarts.WithLineStyleOpts(opts.LineStyle{Color: "var(--chart-p50)", Width: 1.75, Type: "5 3"}),
		echarts.WithItemStyleOpts(opts.ItemStyle{Color: "var(--chart-p50)"}))
	c.Validate()
	return sampled(finish(c.JSON()))
}

var line = echarts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(false), ConnectNulls: opts.Bool(false)})

func overTime(w metrics.Window, legend []string, most any) *echarts.Line {
	c := echarts.NewLine()
	// Fixed margins: charts above each other share their time axis to the pixel. Under
	// it is room for the zoom slider.
	grid := opts.Grid{Left: "60", Right: "16", Top: "36", Bottom: "46"}
	c.SetGlobalOptions(append(base(legend, grid),

		echarts.WithXAxisOpts(opts.XAxis{Type: "time", Min: w.From.UnixMilli(), Max: w.To.Truncate(time.Second).UnixMilli()}),
		echarts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, Max: most}),
		echarts.WithDataZoomOpts(opts.DataZoom{Type: "inside", FilterMode: "none"}, opts.DataZoom{Type: "slider", FilterMode: "none"}),
	)...)
	return c
}

func mark(o Objective) []echarts.SeriesOpts {
	return []echarts.SeriesOpts{
		echarts.WithMarkLineNameYAxisItemOpts(opts.MarkLineNameYAxisItem{Name: o.Label, YAxis: o.Value}),
		echarts.WithMarkLineStyleOpts(opts.MarkLineStyle{
			Symbol:    []string{"none", "none"},
			Label:     &opts.Label{Show: opts.Bool(true), Formatter: "{b}", Position: "insideEndTop", Color: "var(--chart-objective)"},
			LineStyle: &opts.LineStyle{Color: "var(--chart-objective)", Width: 1, Type: "solid"},
		}),
	}
}

func at(rows [][]*float64, row, i int) *float64 {
	if row >= len(rows) {
		return nil
	}
	return rows[row][i]
}

// percentile keeps what a sketch with 1 % of error can tell, and a little more.
func percentile(v *float64) any {
	if v != nil && math.Abs(*v) >= 100 {
		return cell(v, 1)
	}
	return cell(v, 3)
}

// cell writes a value with so many digits after the point; nil is a gap.
func cell(v *float64, digits int) any {
	if v == nil {
		return nil
	}
	return round(*v, digits)
}

func round(v float64, digits int) float64 {
	f := math.Pow(10, float64(digits))
	return math.Round(v*f) / f
}
