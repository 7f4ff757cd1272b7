package slo

import (
	"encoding/json"
	"time"

	"tokenfactory/factory"
)

// Finding is what one look at a condition said.
type Finding int

const (
	// Unknown is a look that saw nothing: a missed scrape, no data, a figure beyond what
	// was measured. It is no good news and no bad news.
	Unknown Finding = iota
	Right
	Wrong
)

// Condition is one thing that can be wrong, as it was seen a moment ago.
type Condition struct {
	Subject      string // see factory.Alert
	Rule         factory.Rule
	Severity     factory.Severity
	DeploymentID string
	NodeID       string
	TenantID     string
	Title        string
	Detail       json.RawMessage
	Finding      Finding
}

// How long something has to be wrong before people are told, and how long it has to be
// right before they are told that it is over.
const (
	PendingFor  = 2 * time.Minute
	ResolveFor  = 5 * time.Minute
	forgetAfter = time.Minute
	// longestLook is the longest time that counts between two looks. What lies beyond, such
	// as a restart of the control plane, nobody saw.
	longestLook = 90 * time.Second
)

// Step takes one alert one look further. Open is the alert of the condition's subject that is
// not resolved, or nil. It returns what the alert is now, nil when there is none, and
// what has to be told.
//
// An alert begins pending with the first look that is wrong. It fires when a look is
// wrong and two minutes have passed since the first. A value around its limit comes to that as
// well: pending ends quietly only when looks were right for a whole minute. A firing alert
// is resolved when looks were right for five minutes on end; one that is wrong begins them
// anew. A look that is unknown changes nothing, and neither its time nor that in which
// nobody looked counts towards any of these.
func Step(open *factory.Alert, c Condition, now time.Time) (*factory.Alert, []factory.Change) {
	if open == nil {
		if c.Finding != Wrong {
			return nil, nil
		}
		return &factory.Alert{
			ID: factory.NewOrderedID(now), Subject: c.Subject, Rule: c.Rule, Severity: c.Severity,
			DeploymentID: c.DeploymentID, NodeID: c.NodeID, TenantID: c.TenantID,
			State: factory.AlertPending, Title: c.Title, Detail: c.Detail, PendingAt: now, UpdatedAt: now,
		}, nil
	}
	next := *open
	holdClocks(&next, c.Finding, now)
	next.UpdatedAt = now
	switch {
	case c.Finding == Unknown:
		return &next, nil
	case c.Finding == Wrong && next.State == factory.AlertPending:
		next.BelowAt = nil
		next.Title, next.Detail = c.Title, c.Detail
		if now.Sub(next.PendingAt) < PendingFor {
			return &next, nil
		}
		next.State, next.FiringAt = factory.AlertFiring, &now
		return &next, []factory.Change{factory.ChangeFiring}
	case c.Finding == Wrong:
		next.BelowAt = nil
		return &next, nil
	case next.BelowAt == nil:
		next.BelowAt = &now
		return &next, nil
	case next.State == factory.AlertPending && now.Sub(*next.BelowAt) >= forgetAfter:
		next.State, next.ResolvedAt = factory.AlertResolved, &now
		return &next, nil
	case next.State == factory.AlertFiring && now.Sub(*next.BelowAt) >= ResolveFor:
		next.State, next.ResolvedAt = factory.AlertResolved, &now
		return &next, []factory.Change{factory.ChangeResolved}
	}
	return &next, nil
}

// holdClocks moves the beginnings that are waited from by the time in which nothing was
// seen. When an alert fired is history, and stays.
func holdClocks(a *factory.Alert, f Finding, now time.Time) {
	unseen := now.Sub(a.UpdatedAt)
	if f != Unknown {
		unseen -= longestLook
	}
	if unseen <= 0 {
		return
	}
	if a.State == factory.AlertPending {
		a.PendingAt = a.PendingAt.Add(unseen)
	}
	if a.BelowAt != nil {
		at := a.BelowAt.Add(unseen)
		a.BelowAt = &at
	}
}
