package layout

import (
	"time"

	"tokenfactory/views/ui"
)

// Spool is how usage stands that the ledger does not have yet.
type Spool struct {
	Waiting  int64     // rows on disk
	InMemory int       // rows that could not be written to disk
	Bytes    int64     // on disk
	Limit    int64     // of Bytes
	Full     bool      // requests are refused until the ledger takes rows again
	Lost     int64     // rows that neither disk nor memory could hold
	SetAside int64     // rows that the ledger will never take, kept in a file of their own
	Since    time.Time // when the ledger last took rows or had none to take
	Problem  string    // why nothing moves; empty when all is well
}

// Alarming reports whether every operator should see it, whatever they look at.
func (s Spool) Alarming() bool { return s.Full || s.Lost > 0 || s.Problem != "" }

// Tone is the colour of its state.
func (s Spool) Tone() ui.Tone {
	switch {
	case s.Full || s.Lost > 0:
		return ui.Bad
	case s.Problem != "" || s.SetAside > 0:
		return ui.Warn
	}
	return ui.Good
}

// Word is its state in a word or two.
func (s Spool) Word() string {
	switch {
	case s.Full:
		return "Full"
	case s.Lost > 0:
		return "Rows lost"
	case s.Problem != "":
		return "Held up"
	case s.SetAside > 0:
		return "Rows set aside"
	}
	return "Flowing"
}

func (s Spool) title() string {
	switch {
	case s.Full:
		return "The usage spool is full: requests are refused"
	case s.Lost > 0:
		return ui.Plural(s.Lost, "row") + " of usage could not be kept"
	}
	return "Usage does not reach the ledger"
}
