package gateway

import (
	"sync/atomic"
	"time"
)

// load is what is going on at a replica. It is written under the lock of its pool
// where that matters, and read by anyone.
type load struct {
	inFlight atomic.Int64
	ejected  atomic.Int64 // unix nanoseconds until which others are preferred; see eject
	// busy is until when the engine asked to be left alone, unix nanoseconds; asked says
	// that it named that time itself.
	busy       atomic.Int64
	asked      atomic.Bool
	busyStatus atomic.Int32 // the status it said so with

	failures atomic.Int32 // in a row, before an answer
	strikes  atomic.Int32 // ejections since the last answer
	probing  atomic.Bool
	gone     atomic.Bool // from the routes
	// noRunning is set when the engine turned out not to know the option that asks for
	// running counts.
	noRunning atomic.Bool
}

// standing is how a replica is thought of at a moment.
type standing int

const (
	inOrder        standing = iota
	passedOver              // it was too busy a moment ago
	ejectedNow              // it does not answer
	restingAsAsked          // it said when to come back
)

func (l *load) standing(at int64) standing {
	switch {
	case l.ejected.Load() > at:
		return ejectedNow
	case l.busy.Load() <= at:
		return inOrder
	case l.asked.Load():
		return restingAsAsked
	}
	return passedOver
}

// Bounds of how long a replica is left alone that said that it is too busy.
const (
	passOver = time.Second
	restMost = 30 * time.Second
)

// passOver leaves the replica alone for as long as its engine asked, or shortly.
func (l *load) passOver(status int, asked time.Duration, now time.Time) {
	l.asked.Store(asked > 0)
	l.busyStatus.Store(int32(status))
	if asked <= 0 {
		asked = passOver
	}
	l.busy.Store(now.Add(min(asked, restMost)).UnixNano())
}
