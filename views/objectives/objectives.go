// Package objectives is how objectives look: what each deployment promises, how much of
// its error budget is left, and how fast it burns.
package objectives

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Objective is a deployment's promise with how it stands.
type Objective struct {
	factory.Deployment
	Counts slo.Counts      // requests of the objective's window
	Left   *float64        // share of the error budget, below 0 when overspent; nil without traffic
	Burn   []slo.BurnState // of every rule; nil where it was not read
	// Alert is the state of the worst open alert about its budget; empty without one.
	Alert factory.AlertState
}

// Compare puts the least budget left first, and what has no traffic last.
func (o Objective) Compare(x Objective) int {
	switch {
	case o.Left == nil && x.Left != nil:
		return 1
	case o.Left != nil && x.Left == nil:
		return -1
	case o.Left != nil && *o.Left != *x.Left:
		return cmp.Compare(*o.Left, *x.Left)
	}
	return strings.Compare(o.Name, x.Name)
}

// State is how an objective stands, in the API's word.
type State string

const (
	OK      State = "ok"
	Burning State = "burning" // too fast now, and not for long yet
	Firing  State = "firing"  // somebody has been told
	NoData  State = "no_data"
)

// State judges the alerts and, where they were read, the rules.
func (o Objective) State() State {
	switch {
	case o.Alert == factory.AlertFiring:
		return Firing
	case o.Alert == factory.AlertPending || slices.ContainsFunc(o.Burn, func(b slo.BurnState) bool { return b.Firing }):
		return Burning
	case o.Left == nil:
		return NoData
	}
	return OK
}

func (s State) badge() (ui.Tone, string) {
	switch s {
	case Firing:
		return ui.Bad, "Firing"
	case Burning:
		return ui.Warn, "Burning"
	case NoData:
		return ui.Plain, "No data"
	}
	return ui.Good, "OK"
}

// ChangedWithin reports whether requests that count were judged by other targets.
func (o Objective) ChangedWithin(now time.Time) bool {
	return o.TargetsAt.After(o.CreatedAt) && o.TargetsAt.After(now.Add(-factory.ObjectiveWindow))
}

// Promise says an objective in words.
func Promise(s factory.DeploymentSpec) string {
	var parts []string
	t := s.Targets()
	if t.TTFT > 0 {
		parts = append(parts, "TTFT ≤ "+ui.MillisText(millis(t.TTFT)))
	}
	if t.ITL > 0 {
		parts = append(parts, "ITL ≤ "+ui.MillisText(millis(t.ITL)))
	}
	if t.OutputRate > 0 {
		parts = append(parts, "output ≥ "+number(t.OutputRate)+" tokens/s")
	}
	with := "succeed"
	if len(parts) > 0 {
		with += " with " + joined(parts)
	}
	return number(math.Round(1e8*s.ObjectiveShare())/1e6) + " % of requests " + with
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// number keeps every digit: 99.999 % is not 100 %.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func joined(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// little is the part of the budget below which a bar warns.
const little = 0.25

// leftText is what is left as a percentage, with a minus when overspent.
func leftText(left float64) string {
	if left < 0 {
		return "−" + ui.Percent(-100*left)
	}
	return ui.Percent(100 * left)
}

// leftWord says the same as the bar's colour.
func leftWord(left float64) string {
	switch {
	case left < 0:
		return "overspent"
	case left == 0:
		return "used up"
	case left < little:
		return "left, low"
	}
	return "left"
}

// length bounds what a bar draws.
func length(left float64) string { return strconv.FormatFloat(min(max(left, 0), 1), 'f', 4, 64) }

func burn(v *float64) string {
	if v == nil {
		return "–"
	}
	return ui.Significant(*v)
}

func tone(s factory.Severity) ui.Tone {
	if s == factory.Page {
		return ui.Bad
	}
	return ui.Warn
}

// metrics leads to the Metrics tab of the time in which the budget is spent.
func metrics(o Objective) string {
	return paths.With(paths.DeploymentMetrics(o.ID), url.Values{"range": {"30d"}})
}

// columns has one for each rule; all objectives have the same.
func columns() []ui.Column {
	out := []ui.Column{{Label: "Deployment"}, {Label: "State"}, {Label: "Error budget"}, {Label: "Good", Num: true}, {Label: "Bad", Num: true}}
	for _, w := range slo.Windows {
		out = append(out, ui.Column{Label: ui.Span(w.Long) + " / " + ui.Span(w.Short) + " ≤ " + number(w.Factor) + "×", Num: true})
	}
	return append(out, ui.Column{Label: "Metrics", Hidden: true})
}

// days is the objective's window in words.
func days() string { return ui.Plural(int(factory.ObjectiveWindow/(24*time.Hour)), "day") }

// rules says which burn has which severity.
func rules(s factory.Severity) string {
	var parts []string
	for _, w := range slo.Windows {
		if w.Severity == s {
			parts = append(parts, number(w.Factor)+" over "+ui.Span(w.Long)+" and "+ui.Span(w.Short))
		}
	}
	return strings.Join(parts, ", or ")
}
