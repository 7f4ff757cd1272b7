package factory

import "time"

// EventKind says what happened to a deployment.
type EventKind string

const (
	EventDeploy  EventKind = "deploy"  // created, started, stopped, put to sleep, woken
	EventScale   EventKind = "scale"   // another number of replicas
	EventRestart EventKind = "restart" // an engine began anew, told to or not
	EventConfig  EventKind = "config"  // settings, targets or prices changed
	EventAlert   EventKind = "alert"   // an alert fired or was resolved
)

// Event is a mark on a deployment's charts.
type Event struct {
	ID           string
	DeploymentID string
	Kind         EventKind
	Text         string // a sentence: "TTFT target changed from 500 ms to 400 ms."
	Actor        string // a person's e-mail address, or empty for the system
	At           time.Time
}
