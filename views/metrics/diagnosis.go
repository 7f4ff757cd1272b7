package metrics

import (
	"time"

	"tokenfactory/slo"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Verdict is what the diagnosis says of the window that is shown.
type Verdict struct {
	slo.Diagnosis
	From, To time.Time
	// Replica is the one that was looked at; empty is the whole deployment.
	Replica string
}

// long is a range in which a trouble of minutes no longer shows.
const long = 3 * 24 * time.Hour

// look is the state in colour, icon and word. A missed target is worse than a figure that
// only stands out from its past.
func (v Verdict) look() (ui.Tone, string) {
	switch v.Signature {
	case slo.Healthy:
		return ui.Good, "Healthy"
	case slo.NotEnough:
		return ui.Plain, "No verdict"
	case slo.Errors:
		return ui.Bad, "Requests fail"
	}
	for _, e := range v.Evidence {
		if e.Missed() {
			return ui.Bad, "Over target"
		}
	}
	return ui.Warn, "Stands out"
}

// calm reports whether there is nothing to do.
func (v Verdict) calm() bool { return v.Signature == slo.Healthy || v.Signature == slo.NotEnough }

// first is what to do first, and others what to do then.
func (v Verdict) first() string {
	if len(v.Do) == 0 {
		return ""
	}
	return v.Do[0]
}

func (v Verdict) others() []string { return v.Do[min(1, len(v.Do)):] }

// scope says what was looked at, and what that leaves out.
func (v Verdict) scope() string {
	text := "The whole deployment"
	if v.Replica != "" {
		text = "Replica " + ui.MiddleCut(v.Replica) + " alone, without requests that reached no replica"
	}
	return text + ", over the range shown."
}

// diluted reports whether the range is too long for short troubles to show.
func (v Verdict) diluted() bool { return v.To.Sub(v.From) > long }

var evidenceHeads = []ui.Column{{Label: "Figure"}, {Label: "Now", Num: true}, {Label: "Before", Num: true}, {Label: "Target", Num: true}}

// link is an address that shows this very window also later.
func (t Tab) link() string {
	q := t.Query
	q.Zoom, q.Range, q.View = "", "", ""
	q.From, q.To = t.Window.From.UTC().Format(time.RFC3339), t.Window.To.UTC().Format(time.RFC3339)
	return paths.With(paths.DeploymentMetrics(t.Deployment.ID), q.values())
}
