package alerts

import (
	"fmt"
	"math"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/views/ui"
)

// figure is one number that an alert rests on.
type figure struct {
	name, value string
}

// figureWords are the figures of alerts in words, in the order in which they are read.
var figureWords = []struct {
	key, name string
	show      func(float64) string
}{
	{"burn_long", "Burn over the long window", times},
	{"burn_short", "Burn over the short window", times},
	{"burn_limit", "Fires above", times},
	{"objective", "Objective", share},
	{"budget_left", "Error budget left", share},
	{"good", "Good requests in the long window", whole},
	{"bad", "Bad requests in the long window", whole},
	{"gateway_tokens", "Tokens that the gateway counted", whole},
	{"engine_tokens", "Tokens that the engine counted", whole},
	{"drift", "Difference", share},
	{"silent_seconds", "Nothing heard for at least", seconds},
	{"budget_used", "Used of the budget", share},
}

func times(v float64) string   { return ui.Significant(v) + " times as fast as planned" }
func share(v float64) string   { return ui.Percent(100 * v) }
func whole(v float64) string   { return ui.Count(int64(v)) }
func seconds(v float64) string { return ui.Significant(v) + " s" }

// figures are what was seen when the alert fired, or now while it is pending.
func (a Alert) figures() []figure {
	var out []figure
	for _, w := range figureWords {
		v, ok := a.Seen.Figures[w.key]
		switch {
		case !ok:
		case v == nil:
			out = append(out, figure{w.name, "Not known"})
		default:
			out = append(out, figure{w.name, w.show(*v)})
		}
	}
	return out
}

// shares are metrics whose evidence is a part of one.
var shares = map[metrics.Name]bool{metrics.KVCache: true, metrics.Preemptions: true, metrics.Failures: true}

// evidenceValue writes a figure of the diagnosis with its unit; a nil one is a dash.
func evidenceValue(name metrics.Name, v *float64) string {
	if v == nil {
		return "–"
	}
	m, _ := metrics.Find(name)
	switch {
	case shares[name]:
		return share(*v)
	case m.Unit == "ms":
		return ui.MillisText(*v)
	case m.Unit == "tokens" || m.Unit == "MHz":
		return whole(*v) + " " + m.Unit
	case *v == math.Trunc(*v):
		return strings.TrimSpace(whole(*v) + " " + m.Unit)
	}
	return strings.TrimSpace(ui.Significant(*v) + " " + m.Unit)
}

// measured reports whether a diagnosis compares figures. Where there was too little
// traffic its one line counts samples, which is no figure of a metric.
func measured(d slo.Diagnosis) bool { return d.Signature != slo.NotEnough && len(d.Evidence) > 0 }

// stateSentence says what a state means for people.
func (a Alert) stateSentence() string {
	switch {
	case a.Alert.State == factory.AlertPending:
		return fmt.Sprintf("Wrong, but not for %s yet. Nobody is told.", ui.Span(slo.PendingFor))
	case a.Alert.State == factory.AlertFiring && a.BelowAt != nil:
		return fmt.Sprintf("Right again. It is over when it stays so for %s.", ui.Span(slo.ResolveFor))
	case a.Alert.State == factory.AlertFiring:
		return "It is wrong now."
	}
	return "It is over."
}
