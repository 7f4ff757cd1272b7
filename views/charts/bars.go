package charts

import (
	echarts "github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// Bars are stacked columns over categories such as days.
type Bars struct {
	Categories []string
	Series     []BarSeries
	Unit       string // of the values: tokens, USD
}

// BarSeries is one colour of Bars: a value for every category.
type BarSeries struct {
	Name   string
	Values []float64
}

// Columns makes the option of stacked columns.
func Columns(b Bars) Option {
	c := echarts.NewBar()
	names := make([]string, len(b.Series))
	for i, s := range b.Series {
		names[i] = s.Name
	}
	c.SetGlobalOptions(append(base(names, opts.Grid{Left: "4", Right: "14", Top: "36", Bottom: "4", ContainLabel: opts.Bool(true)}),
		echarts.WithXAxisOpts(opts.XAxis{Type: "category"}),
		echarts.WithYAxisOpts(opts.YAxis{Type: "value"}),
	)...)
	rows := make([][]any, len(b.Categories))
	for i, category := range b.Categories {
		row := make([]any, 1, 1+len(b.Series))
		row[0] = category
		for _, s := range b.Series {
			if i < len(s.Values) {
				row = append(row, s.Values[i])
			} else {
				row = append(row, nil)
			}
		}
		rows[i] = row
	}
	c.AddDataset(opts.Dataset{Source: rows})
	for i, s := range b.Series {
		c.AddSeries(s.Name, nil, encoded(i+1),
			echarts.WithBarChartOpts(opts.BarChart{Stack: "all"}),
			echarts.WithItemStyleOpts(opts.ItemStyle{Color: "var(--chart-" + digit(i%6+1) + ")"}),
			echarts.WithSeriesOpts(func(s *echarts.SingleSeries) { s.BarMaxWidth = "36" }),
		)
	}
	c.Validate()
	return finish(c.JSON())
}

func digit(n int) string { return string(rune('0' + n)) }
