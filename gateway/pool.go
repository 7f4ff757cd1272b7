package gateway

import (
	"slices"
	"sync"
	"time"
)

// pool is what a deployment has to serve with at this moment, and who waits for it.
// It outlives pictures of routes, so that a request that came with an old one still
// meets the newest.
type pool struct {
	g          *Gateway
	deployment string // its id

	mu       sync.Mutex
	replicas []*replica
	most     int64 // requests at one replica at once; 0: no bound
	stopped  bool  // by an operator
	asleep   bool
	coming   bool
	lost     time.Time // since when nothing has been coming
	turn     int

	waiting []*waiter // first come, first served

	waking     bool      // somebody is asking
	wakeNext   time.Time // not to be asked again before
	wokenUntil time.Time // by then a replica should be on its way
}

// lease is one request at a replica. It is released on every path, once.
type lease struct {
	*replica
	pool *pool
}

func (l *lease) release() {
	if l.pool == nil {
		return
	}
	p := l.pool
	l.pool = nil
	p.mu.Lock()
	l.inFlight.Add(-1)
	p.dispatch(time.Now())
	p.mu.Unlock()
}

// choice is what matters about a request when a replica is chosen for it.
type choice struct {
	tried        []string
	conversation uint64 // zero: any replica is as good
}

// outcome is what came of looking for a replica.
type outcome int

const (
	found     outcome = iota
	full              // all have as much as they may have
	coming            // there is none yet
	exhausted         // all were tried
	resting           // all asked to be left alone for a while
	absent            // there is none
	stopped           // by an operator
)

// waits tells whether waiting makes sense.
func (o outcome) waits() bool { return o == full || o == coming }

// find leases a replica, or says why there is none. mu is held.
func (p *pool) find(c choice, now time.Time) (lease, outcome) {
	l, o := p.pick(c, now)
	switch {
	case o != exhausted || len(c.tried) > 0:
	case p.stopped:
		o = stopped
	case p.coming || now.Before(p.wokenUntil):
		o = coming
	default:
		o = absent
	}
	return l, o
}

// close is for a deployment that is no more: nobody waits for it any longer.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas, p.asleep, p.coming, p.wokenUntil, p.lost = nil, false, false, time.Time{}, time.Time{}
	p.dispatch(time.Now())
}

// update takes over what the newest picture says.
func (p *pool) update(r *route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	d := &r.Deployment
	p.replicas, p.most = r.replicas, int64(d.ReplicaConcurrency)
	p.stopped, p.coming = d.Stopped, r.Coming && !d.Stopped
	if p.asleep = d.Asleep; !p.asleep {
		p.wakeNext = time.Time{}
	}
	if len(p.replicas) > 0 {
		p.wokenUntil = time.Time{}
	}
	switch {
	case p.coming || len(p.replicas) > 0:
		p.lost = time.Time{}
	case p.lost.IsZero():
		p.lost = now
	}
	p.dispatch(now)
}

// held is how many requests wait.
func (p *pool) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// down reports whether none of the replicas answers.
func (p *pool) down() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().UnixNano()
	return len(p.replicas) > 0 && !slices.ContainsFunc(p.replicas, func(r *replica) bool { return r.standing(at) != ejectedNow })
}
