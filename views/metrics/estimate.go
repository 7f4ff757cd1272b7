package metrics

import (
	"math"

	"tokenfactory/metrics"
	"tokenfactory/views/charts"
)

// estimated writes a percentile of an engine's histogram. Where the histogram is too
// coarse to tell, its bound is said as a bound, never as the value.
func estimated(label string, e metrics.Estimate) reading {
	if text := bounded(e); text != "" {
		return reading{Label: label, Figure: text}
	}
	return millis(label, e.Value)
}

// bounded is an estimate that is only a bound, in words: "≤ 300 ms", "> 60 s".
func bounded(e metrics.Estimate) string {
	switch {
	case e.AtMost != nil:
		return "≤" + nbsp + bound(*e.AtMost)
	case e.Value == nil && e.Above != nil:
		return ">" + nbsp + bound(*e.Above)
	}
	return ""
}

// bound writes a bound of a histogram with all its digits: it is a setting, no
// measurement.
func bound(ms float64) string {
	digits := func(v float64) string { return plain(math.Round(v*1e6) / 1e6) }
	if ms < 1000 {
		return digits(ms) + nbsp + "ms"
	}
	return digits(ms/1000) + nbsp + "s"
}

// percentileLine draws one percentile of an engine's histogram. Under the first bound
// the line runs along the bound; over the last one there is nothing to draw, and the
// tooltip and the table say how much it is at least.
func percentileLine(name string, s metrics.Series, p int, color, dash string) charts.Line {
	l := charts.Line{Name: name, Color: color, Dash: dash, Said: map[int]string{}}
	if p >= len(s.Estimates) {
		return l
	}
	l.Values = make([]*float64, len(s.Estimates[p]))
	for i, e := range s.Estimates[p] {
		l.Values[i] = e.Value
		if e.AtMost != nil {
			l.Values[i] = e.AtMost
		}
		if text := bounded(e); text != "" {
			l.Said[i] = text
		}
	}
	return l
}
