package channels

import (
	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// Delivery is one thing to be told, with what a list of them is about: the channel on an
// alert's page, the alert on a channel's.
type Delivery struct {
	factory.Delivery
	Label string
	Href  string // empty where there is nothing to lead to
}

// look is a delivery's state as people read it.
func (d Delivery) look() (ui.Tone, string) {
	switch d.State {
	case factory.DeliveryDone:
		return ui.Good, "Delivered"
	case factory.DeliveryFailed:
		return ui.Bad, "Given up"
	case factory.DeliverySilenced:
		return ui.Plain, "Silenced"
	case factory.DeliverySuperseded:
		return ui.Plain, "Superseded"
	case factory.DeliveryWaiting:
		if d.Attempts > 0 {
			return ui.Warn, "Trying again"
		}
		return ui.Progress, "Waiting"
	}
	return ui.Plain, string(d.State)
}

// waiting reports whether it is still to be told.
func (d Delivery) waiting() bool { return d.State == factory.DeliveryWaiting }

// answer is what the receiver said, or why nothing was told.
func (d Delivery) answer() string {
	switch {
	case d.Answer != "":
		return d.Answer
	case d.State == factory.DeliverySilenced:
		return "A silence was in force."
	case d.State == factory.DeliverySuperseded:
		return "It was over before it could be told."
	}
	return ""
}

var changeWords = map[factory.Change]string{
	factory.ChangeFiring: "Firing", factory.ChangeResolved: "Resolved", factory.ChangeTest: "Test",
}
