package charts

import "time"

// Event is something that happened to what a chart shows.
type Event struct {
	At   time.Time
	Kind string
	Text string
}

// Marked returns the option with marks where something happened. The page's script
// draws them, and says what they were in tooltips.
func (o Option) Marked(events []Event) Option {
	if len(events) == 0 {
		return o
	}
	marks := make([]map[string]any, len(events))
	for i, e := range events {
		marks[i] = map[string]any{"at": e.At.UnixMilli(), "kind": e.Kind, "text": e.Text}
	}
	o["events"] = marks
	return o
}
