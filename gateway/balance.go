package gateway

import (
	"slices"
	"sync/atomic"
	"time"
)

// ejection is how long a replica that refused a connection is passed over. Short:
// routes forget a dead node by themselves, and a restarted engine is back soon.
const ejection = 3 * time.Second

// load is what is going on at a replica.
type load struct {
	inFlight atomic.Int64
	ejected  atomic.Int64 // unix nanoseconds until which others are preferred
	// noRunning is set when the engine turned out not to know the option that asks for
	// running counts.
	noRunning atomic.Bool
}

// lease is one request at a replica. It is released on every path, once.
type lease struct {
	*replica
	held bool
}

// pick leases the replica with the least in flight, leaving out those that were
// tried. A replica that refused connections is taken only when no other is left:
// when it is the only one, trying costs nothing and finds it back soonest.
func (r *route) pick(tried []string, now time.Time) (lease, bool) {
	var best *replica
	var bestLoad int64
	n := len(r.replicas)
	// Starting elsewhere each time spreads ties.
	start := int(r.turn.Add(1))
	for i := range n {
		rep := r.replicas[(start+i)%n]
		if slices.Contains(tried, rep.id) {
			continue
		}
		l := rep.inFlight.Load()
		if rep.ejected.Load() > now.UnixNano() {
			l += 1 << 40
		}
		if best == nil || l < bestLoad {
			best, bestLoad = rep, l
		}
	}
	if best == nil {
		return lease{}, false
	}
	best.inFlight.Add(1)
	return lease{replica: best, held: true}, true
}

func (l *lease) release() {
	if l.held {
		l.held = false
		l.inFlight.Add(-1)
	}
}

// eject passes the replica over for a while, and tells whether that is news.
func (l *load) eject(now time.Time) bool {
	before := l.ejected.Swap(now.Add(ejection).UnixNano())
	return before < now.UnixNano()
}

func (l *load) restore() {
	if l.ejected.Load() != 0 { // rarely; a needless write would cost every core its copy
		l.ejected.Store(0)
	}
}
