// Package charts turns series into chart options and draws their hosts. Options are
// data: they travel as a JSON block, and the page's script gives them colours,
// fonts and number formats. Colours are names of custom properties ("var(--…)"),
// so that a chart follows the theme.
package charts

import (
	echarts "github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// Option is what the chart library takes, ready to be written as JSON.
type Option map[string]any

// base is what all charts share: one grid, a tooltip over all series of a step,
// and a legend that switches series on and off; one that does not fit is leafed through.
func base(legend []string, grid opts.Grid) []echarts.GlobalOpts {
	return []echarts.GlobalOpts{
		echarts.WithAnimation(false),
		echarts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis", AxisPointer: &opts.AxisPointer{Type: "line", Snap: opts.Bool(true)}}),
		echarts.WithLegendOpts(opts.Legend{Show: opts.Bool(true), Type: "scroll", Data: legend, Left: "0", Top: "0", ItemWidth: 28, ItemHeight: 8}),
		echarts.WithGridOpts(grid),
	}
}

// finish drops what go-echarts writes although it was never set.
func finish(m map[string]any) Option {
	for _, key := range []string{"title", "toolbox", "color"} {
		delete(m, key)
	}
	return m
}

// encoded makes a series read column y of the dataset, whose column 0 is the x axis.
func encoded(y int) echarts.SeriesOpts {
	return echarts.WithSeriesOpts(func(s *echarts.SingleSeries) {
		s.Data = nil
		s.Encode = &opts.Encode{X: 0, Y: y}
	})
}
