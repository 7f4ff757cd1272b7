package gateway

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

const (
	defaultHoldMost     = 50
	defaultHoldFor      = 300 * time.Second
	defaultCommentEvery = 10 * time.Second
	// absentGrace is how long waiting requests outlive the news that nothing is coming:
	// an engine that is started anew is between two states for a moment.
	absentGrace = 5 * time.Second
)

// waiter is a request that waits for a replica. The pool's lock guards it until it
// is decided.
type waiter struct {
	choice
	model   string        // as asked
	decided chan struct{} // closed once one of the next two is set
	lease   lease
	refusal *problem
}

// lease takes a replica of the route, and waits for one where that makes sense.
// With neither a lease nor a problem, all there is was tried, or the client left.
func (x *exchange) lease(tried []string) (lease, *problem) {
	p := x.route.pool
	now := time.Now()
	c := choice{tried: tried}
	if len(x.route.replicas) > 1 {
		c.conversation = x.affinity()
	}
	p.mu.Lock()
	if p.asleep {
		p.wake(now)
	}
	o := full // nobody overtakes those who wait
	if len(p.waiting) == 0 {
		var l lease
		if l, o = p.find(c, now); o == found {
			p.mu.Unlock()
			return l, nil
		}
	}
	if !o.waits() {
		problem := p.problem(o, x.name, now)
		p.mu.Unlock()
		return lease{}, problem
	}
	if len(p.waiting) >= x.g.HoldMost {
		p.mu.Unlock()
		return lease{}, tooManyWait(x.name, x.g.HoldMost)
	}
	w := &waiter{choice: c, model: x.name, decided: make(chan struct{})}
	if len(tried) > 0 {
		p.waiting = slices.Insert(p.waiting, 0, w) // it had its turn before
	} else {
		p.waiting = append(p.waiting, w)
	}
	p.dispatch(now)
	p.mu.Unlock()
	return x.wait(p, w)
}

// dispatch gives replicas to those who wait, in their order. Only one that was at a
// replica already may have to let others pass. mu is held.
func (p *pool) dispatch(now time.Time) {
	kept := p.waiting[:0]
	for i, w := range p.waiting {
		l, o := p.find(w.choice, now)
		switch {
		case o == full && len(w.tried) == 0:
			// Nothing is free for anybody.
			kept = append(kept, p.waiting[i:]...)
			clear(p.waiting[len(kept):])
			p.waiting = kept
			return
		case o.waits(), o == absent && now.Sub(p.lost) < absentGrace:
			kept = append(kept, w)
			continue
		case o == found:
			w.lease = l
		default:
			w.refusal = p.problem(o, w.model, now)
		}
		close(w.decided)
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
}

// leave takes a waiter out of the line. It reports false when it was decided in
// this moment.
func (p *pool) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return true
}

// wait holds the request until it is decided, for as long as it may be held.
func (x *exchange) wait(p *pool, w *waiter) (lease, *problem) {
	x.g.held.Add(1)
	x.holding = true
	since := time.Now()
	refusal, decided := x.await(w)
	now := time.Now()
	x.waited, x.queued = now.Sub(x.ready), x.queued+now.Sub(since)
	x.g.held.Add(-1)
	if !decided && !p.leave(w) {
		// It was decided in the same moment.
		if decided = !x.gone(); !decided {
			w.lease.release() // whoever is next may have it
		}
	}
	if !decided {
		x.holding = refusal == nil // who left stays marked as one that left the line
		return lease{}, refusal
	}
	x.holding = false
	if w.lease.replica != nil && now.Sub(since) > keyFresh {
		if p := x.still(); p != nil {
			w.lease.release()
			return lease{}, p
		}
	}
	return w.lease, w.refusal
}

// still reports whether a request that waited may still be served: its key may have
// been revoked meanwhile, or the model be shared no more.
func (x *exchange) still() *problem {
	_, p := x.g.authenticate(x.r.Context(), x.r.Header)
	if p == nil {
		var table *routeTable
		if table, p = x.g.routes.table(x.g); p == nil {
			if r := table.byName[x.route.name]; r != nil && table.usable(r, x.key.TenantID, x.r.Host) {
				return nil
			}
			p = unknownModel(x.name)
		}
	}
	p.final = true
	return p
}

// await reports whether the waiter was decided; if not, why it waits no longer, or
// nothing when the client left. Streams are told now and then that they are not
// forgotten: proxies and clients give up on a silent connection.
func (x *exchange) await(w *waiter) (*problem, bool) {
	patience := time.NewTimer(x.g.HoldFor - time.Since(x.ready))
	defer patience.Stop()
	var comment <-chan time.Time
	if x.request.stream {
		t := time.NewTicker(x.g.CommentEvery)
		defer t.Stop()
		comment = t.C
	}
	for {
		select {
		case <-w.decided:
			return nil, true
		case <-comment:
			if x.comment() != nil {
				x.left = true
				return nil, false
			}
		case <-x.r.Context().Done():
			return nil, false
		case <-x.g.running.Done():
			return unavailable("The gateway is being restarted. Try again in a moment."), false
		case <-patience.C:
			return waitedInVain(x.name, x.g.HoldFor), false
		}
	}
}

// comment sends a sign of life on a stream. From then on its header is out, and
// another replica can still be tried: no event was sent.
func (x *exchange) comment() error {
	if !x.started {
		x.streamHeader()
	}
	if err := x.write([]byte(": waiting for a replica\n\n")); err != nil {
		return err
	}
	if err := x.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
