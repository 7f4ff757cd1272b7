package metrics

import (
	"math"
	"time"

	"tokenfactory/slo"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

// Budget is how a deployment's error budget stands.
type Budget struct {
	Share float64 // of requests that has to be good, 0 to 1
	// Left is what is left at the end of each step, 1 is all of it; nil where nothing was
	// judged in the objective's whole time before.
	Left []*float64
	// Burns are the rules of alerts as they stand now.
	Burns []slo.BurnState
	// TargetsAt is since when requests are judged by the present targets, when that changed
	// in the time that the budget rests on.
	TargetsAt *time.Time
	// Narrowed says that the rest of the page shows less than the whole deployment.
	Narrowed bool
}

// last is what is left at the end of the range.
func (b Budget) last() *float64 {
	for i := len(b.Left) - 1; i >= 0; i-- {
		if b.Left[i] != nil {
			return b.Left[i]
		}
	}
	return nil
}

func (m Measured) budget() Chart {
	b := *m.Budget
	c := Chart{
		Name: "budget", Title: "Error budget left", Long: "Of the last 30 days, at each moment", Unit: "%", Window: m.Window,
		Tell:  "How many more requests may be bad before the objective of 30 days is missed: 100 % is all of them, below 0 % it is missed.",
		Do:    "A budget that falls steeply is being burnt now: see the diagnosis. One that is low and level recovers as bad days fall out of the 30.",
		Lines: []charts.Line{{Name: "Budget left", Color: "--chart-1", Values: scaled(b.Left, 100)}},
		Plot:  charts.Plot{Share: true, Digits: 2, Objective: &charts.Objective{Value: 0, Label: "used up"}},
		After: burns(b),
	}
	least := 0.0
	for _, v := range c.Lines[0].Values {
		if v != nil {
			least = min(least, *v)
		}
	}
	c.Plot.Floor = math.Floor(least/10) * 10
	if b.Narrowed {
		c.Notes = append(c.Notes, remark{Tone: ui.Plain, Icon: "info", Text: "The budget is the whole deployment's, whatever the rest of the page is narrowed to."})
	}
	last := b.last()
	if last == nil {
		c.Absent = "No request was judged in the 30 days before: nothing is known of the budget."
		return c
	}
	c.Facts = []reading{{"left", floored(*last * 100), "%"}, {"objective", plain(math.Round(b.Share*1e6) / 1e4), "% good"}}
	if *last < 0 {
		c.Notes = append(c.Notes, remark{Tone: ui.Bad, Icon: "fail", Text: "More than all of the budget is used up: the objective is missed."})
	}
	return c
}

// burnHeads are the columns of the table of burn rules.
var burnHeads = []ui.Column{{Label: "Alert"}, {Label: "Over"}, {Label: "Limit", Num: true}, {Label: "Long", Num: true}, {Label: "Short", Num: true}, {Label: "State"}}

// burn writes how many times faster than planned a budget is used up.
func burn(v *float64) string {
	if v == nil {
		return "no data"
	}
	if *v == 0 {
		return "0" + nbsp + "×"
	}
	return ui.Significant(*v) + nbsp + "×"
}

// burnLook is the state of a rule in colour and word.
func burnLook(s slo.BurnState, share float64) (ui.Tone, string) {
	long := s.Long != nil && *s.Long > s.Window.Factor
	short := s.Short != nil && *s.Short > s.Window.Factor
	switch {
	case s.Firing:
		return ui.Bad, "Too fast"
	case !slo.Reachable(share, s.Window.Factor):
		return ui.Plain, "Cannot fire"
	case s.Long == nil:
		return ui.Plain, "No data"
	case long && short:
		return ui.Plain, "Few bad"
	case long:
		return ui.Warn, "Slowing"
	case short:
		return ui.Warn, "Rising"
	}
	return ui.Good, "Within"
}

func over(w slo.BurnWindow) string {
	return slo.WindowName(w.Long) + nbsp + "and" + nbsp + slo.WindowName(w.Short)
}
