package gateway

import (
	"slices"
	"time"
)

// pick leases the best replica that was not tried: of those in good standing the
// one that the conversation was at before, unless it has much more to do than the
// others; otherwise the one with the least in flight. A replica that does not take
// connections is taken only when no other is left: when it is the only one, trying
// costs nothing and finds it back soonest. mu is held.
func (p *pool) pick(c choice, now time.Time) (lease, outcome) {
	at := now.UnixNano()
	var best, last *replica
	var bestLoad, lastLoad, all, good int64
	crowded := false // even those that are taken last
	ended := exhausted
	n := len(p.replicas)
	p.turn++ // starting elsewhere each time spreads ties
	for i := range n {
		rep := p.replicas[(p.turn+i)%n]
		if slices.Contains(c.tried, rep.id) {
			continue
		}
		l := rep.inFlight.Load()
		switch rep.standing(at) {
		case restingAsAsked:
			if ended != full {
				ended = resting
			}
			continue
		case ejectedNow:
			l += 1 << 40
			fallthrough
		case passedOver:
			switch {
			case p.most > 0 && l&(1<<40-1) >= p.most:
				crowded = true
			case last == nil || l < lastLoad:
				last, lastLoad = rep, l
			}
			continue
		}
		good++
		all += l
		if p.most > 0 && l >= p.most {
			ended = full
			continue
		}
		if best == nil || l < bestLoad {
			best, bestLoad = rep, l
		}
	}
	switch {
	case best == nil && ended == full:
		return lease{}, full
	case best == nil && last == nil && crowded:
		return lease{}, full
	case best == nil && last == nil:
		return lease{}, ended
	case best == nil:
		best = last
	case c.conversation != 0 && good > 1:
		best = p.preferred(c, at, (5*(all+1)+4*good-1)/(4*good), best)
	}
	best.inFlight.Add(1)
	return lease{replica: best, pool: p}, found
}

// preferred is the replica that ranks first for a conversation (rendezvous hashing:
// replicas that come and go move only their own conversations), of those whose
// load would stay within the bound of a quarter above the mean.
func (p *pool) preferred(c choice, at int64, bound int64, best *replica) *replica {
	if p.most > 0 {
		bound = min(bound, p.most)
	}
	var highest uint64
	for _, rep := range p.replicas {
		score := mix(c.conversation ^ rep.hash)
		if score >= highest && rep.inFlight.Load() < bound && rep.standing(at) == inOrder && !slices.Contains(c.tried, rep.id) {
			best, highest = rep, score
		}
	}
	return best
}
