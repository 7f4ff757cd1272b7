package ui

import "tokenfactory/factory"

// Tone is the meaning of a colour. It is never shown alone: an icon and a word
// stand beside it.
type Tone string

const (
	Plain    Tone = "plain"
	Good     Tone = "good"
	Warn     Tone = "warn"
	Bad      Tone = "bad"
	Progress Tone = "progress" // something is under way
)

func (t Tone) icon() string {
	switch t {
	case Good:
		return "ok"
	case Warn:
		return "warn"
	case Bad:
		return "fail"
	case Progress:
		return "progress"
	}
	return "none"
}

type stateLook struct {
	tone Tone
	icon string
	word string
}

var stateLooks = map[factory.State]stateLook{
	factory.Pending:  {Plain, "clock", "Pending"},
	factory.Starting: {Progress, "progress", "Starting"},
	factory.Loading:  {Progress, "progress", "Loading"},
	factory.Ready:    {Good, "ok", "Ready"},
	factory.Degraded: {Warn, "warn", "Degraded"},
	factory.Failed:   {Bad, "fail", "Failed"},
	factory.Stopping: {Plain, "stopping", "Stopping"},
	factory.Stopped:  {Plain, "off", "Stopped"},
	factory.Asleep:   {Plain, "moon", "Asleep"},
}

func lookOf(s factory.State) stateLook {
	if l, ok := stateLooks[s]; ok {
		return l
	}
	return stateLook{Plain, "none", string(s)}
}
