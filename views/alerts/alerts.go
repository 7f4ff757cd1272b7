// Package alerts is how alerts and silences look: what is wrong, since when, what to
// do first, and who was told.
package alerts

import (
	"net/url"
	"time"

	"github.com/a-h/templ"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Place is what an alert is about: a deployment, a machine or a tenant. One that is not
// there any more keeps the name that it had, and leads nowhere.
type Place struct {
	ID, Name, Href string
}

func (p Place) gone() bool { return p.ID != "" && p.Href == "" }

// Alert is an alert with what it is about, and the silence that covers it, if one does.
type Alert struct {
	factory.Alert
	Seen                     slo.Payload
	Deployment, Node, Tenant Place
	Silence                  *factory.Silence
}

// place is the first thing that an alert is about.
func (a Alert) place() Place {
	for _, p := range []Place{a.Deployment, a.Node, a.Tenant} {
		if p.ID != "" {
			return p
		}
	}
	return Place{}
}

// since is when an alert began to fire, or to be wrong if it never did.
func (a Alert) since() time.Time {
	if a.FiringAt != nil {
		return *a.FiringAt
	}
	return a.PendingAt
}

// lasted is how long it was wrong.
func (a Alert) lasted(now time.Time) string {
	if a.ResolvedAt != nil {
		now = *a.ResolvedAt
	}
	return ui.Span(max(now.Sub(a.since()), 0))
}

func (a Alert) lastedWord() string {
	if a.open() {
		return "Lasts for"
	}
	return "Lasted"
}

func (a Alert) open() bool { return a.ResolvedAt == nil }

// stateOf is an alert's state in a word. One that fires and is not wrong just now may
// fire on.
func stateOf(s factory.AlertState) (ui.Tone, string) {
	switch s {
	case factory.AlertFiring:
		return ui.Bad, "Firing"
	case factory.AlertPending:
		return ui.Warn, "Pending"
	case factory.AlertResolved:
		return ui.Good, "Resolved"
	}
	return ui.Plain, string(s)
}

func (a Alert) severity() (ui.Tone, string) {
	tone, word := ui.Warn, "Ticket"
	if a.Severity == factory.Page {
		tone, word = ui.Bad, "Page"
	}
	if !a.open() {
		tone = ui.Plain
	}
	return tone, word
}

// Rules are the reasons for alerts in words, in the order of a choice.
var Rules = []ui.Option{
	{Value: string(factory.RuleBurn), Label: "Error budget burns"},
	{Value: string(factory.RuleAbsent), Label: "Engine is not measured"},
	{Value: string(factory.RuleOffline), Label: "Machine is offline"},
	{Value: string(factory.RuleDrift), Label: "Token counts differ"},
	{Value: string(factory.RuleBudget), Label: "Money is used up"},
}

// RuleWord is a rule as people call it.
func RuleWord(r factory.Rule) string {
	for _, o := range Rules {
		if o.Value == string(r) {
			return o.Label
		}
	}
	return string(r)
}

// KnownRule reports whether there is such a rule.
func KnownRule(r factory.Rule) bool { return r != "" && RuleWord(r) != string(r) }

// KnownState reports whether an alert can be in that state.
func KnownState(s factory.AlertState) bool {
	return s == factory.AlertFiring || s == factory.AlertPending || s == factory.AlertResolved
}

// Tabs are the sides of alerts; current is the address of one.
func Tabs(current string) []ui.Link {
	return []ui.Link{
		{Label: "Alerts", Href: paths.Alerts, Current: current == paths.Alerts},
		{Label: "Silences", Href: paths.Silences, Current: current == paths.Silences},
		{Label: "Channels", Href: paths.Channels, Current: current == paths.Channels},
	}
}

// Page is one alert with who was told of it.
type Page struct {
	Alert
	Told     templ.Component // the deliveries; nil where there are none
	Channels int             // how many there are that are switched on
}

// window is where the measurements lie that made the alert fire.
func (a Alert) window() string {
	if a.Deployment.Href == "" || a.Seen.From == nil || a.Seen.To == nil {
		return ""
	}
	return paths.With(paths.DeploymentMetrics(a.Deployment.ID), url.Values{
		"from": {a.Seen.From.Format(time.RFC3339)}, "to": {a.Seen.To.Format(time.RFC3339)},
	})
}

// SilenceActions lead to the form that silences what the alert is about.
func (a Alert) SilenceActions() []ui.Action {
	about := "all of this kind"
	if a.DeploymentID != "" {
		about = "it"
	}
	var out []ui.Action
	for _, x := range []struct{ length, words string }{{"1h", "1 hour"}, {"8h", "8 hours"}, {"24h", "1 day"}, {"168h", "7 days"}} {
		out = append(out, ui.Action{Label: "Silence " + about + " for " + x.words, Icon: "bell-off", Href: paths.With(paths.NewSilence, url.Values{
			"rule": {string(a.Rule)}, "deployment": {a.DeploymentID}, "for": {x.length},
		})})
	}
	return out
}
