package metrics

import (
	"math"

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
		Lines: []charts.Line{{Name: "Good share", Values: shares(good, added(good, bad)), Color: "--chart-3"}},
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
	return plain(math.Floor(percent*100+1e-7) / 100)
}
