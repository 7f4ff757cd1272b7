package slo

import (
	"encoding/json"
	"time"

	"tokenfactory/factory"
)

// PayloadVersion grows when a receiver of the older shape would misread the newer one. New
// fields do not change it.
const PayloadVersion = 1

// Payload is what our own webhook sends about an alert. Times are RFC 3339 in UTC. Figures
// that are not known are null, and which there are depends on the rule:
//
//	burn     burn_long, burn_short, burn_limit, objective (0 to 1), budget_left (1 is all of it), good, bad
//	drift    gateway_tokens, engine_tokens, drift (0.01 is one percent more at the engine)
//	offline  silent_seconds
//	absent   silent_seconds, the least that it can be
//	budget   budget_used (1 is all of it)
//
// The same alert keeps its id from firing to resolved; id and change together say what a
// receiver has seen already.
type Payload struct {
	Version  int              `json:"version"`
	ID       string           `json:"id"`
	Subject  string           `json:"subject"`
	Change   factory.Change   `json:"change,omitempty"` // empty while an alert is pending
	Rule     factory.Rule     `json:"rule"`
	Severity factory.Severity `json:"severity"`
	Title    string           `json:"title"`

	Deployment *Ref `json:"deployment,omitempty"`
	Node       *Ref `json:"node,omitempty"`
	Tenant     *Ref `json:"tenant,omitempty"`

	Figures map[string]*float64 `json:"figures"`
	// Diagnosis is of the window that made the alert fire, also once it is resolved.
	Diagnosis *Diagnosis `json:"diagnosis,omitempty"`

	// AlertURL is the alert's own page; URL opens the window from From to To.
	AlertURL string     `json:"alert_url,omitempty"`
	URL      string     `json:"url,omitempty"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`

	At         time.Time  `json:"at"` // of the change
	PendingAt  time.Time  `json:"pending_at"`
	FiringAt   *time.Time `json:"firing_at,omitempty"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
}

// Ref names a noun.
type Ref struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// about fills in what the alert itself says.
func (p Payload) about(a factory.Alert, change factory.Change, now time.Time) Payload {
	p.Version, p.ID, p.Subject, p.Change = PayloadVersion, a.ID, a.Subject, change
	p.Rule, p.Severity, p.Title = a.Rule, a.Severity, a.Title
	p.At, p.PendingAt, p.FiringAt, p.ResolvedAt = now, a.PendingAt, a.FiringAt, a.ResolvedAt
	if p.Figures == nil {
		p.Figures = map[string]*float64{}
	}
	return p
}

// encode leaves figures and diagnosis out when one cannot be written: an alert that says
// little is better than none.
func (p Payload) encode() json.RawMessage {
	b, err := json.Marshal(p)
	if err != nil {
		p.Figures, p.Diagnosis = map[string]*float64{}, nil
		b, _ = json.Marshal(p)
	}
	return b
}
