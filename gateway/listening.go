package gateway

import (
	"time"

	"tokenfactory/factory"
)

const (
	// missed is how long nobody may have been heard before that counts as deafness.
	missed = 5 * time.Second
	// comeBack is how long agents may take to report again: their pauses grow while
	// nobody answers them, so that they do not all come in the same moment.
	comeBack = 2 * factory.OfflineAfter
)

// listening knows since when machines can be heard. Agents report to the store, so
// while it is away, or this process is not there, every machine falls silent and no
// engine has stopped. That time must not count against them: what they said last
// holds until they had the chance to say something new. A machine that is gone
// refuses connections, and its requests go elsewhere.
type listening struct {
	last  time.Time // when the store answered last
	since time.Time // when it began to answer again
	deaf  time.Duration
}

// asOf is the moment for which a machine's silence is judged. The times are those of
// one monotonic clock, the result is on the wall clock that now is on.
func (l *listening) asOf(mono, now time.Time) time.Time {
	switch {
	case l.last.IsZero():
		// A process that starts does not know for how long there was none.
		return now.Add(-outage)
	case mono.Sub(l.last) > missed:
		return now.Add(-mono.Sub(l.last) - comeBack)
	case mono.Sub(l.since) < comeBack:
		return now.Add(-l.deaf)
	}
	return now
}

// heard says that the store answered.
func (l *listening) heard(mono time.Time) {
	switch {
	case l.last.IsZero():
		l.since, l.deaf = mono, outage
	case mono.Sub(l.last) > missed:
		l.since, l.deaf = mono, mono.Sub(l.last)+comeBack
	}
	l.last = mono
}
