package gateway

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// ejectFor is how long a replica that does not answer is passed over before somebody
	// looks whether it is back; it doubles while it is not. Short: routes forget a dead
	// node by themselves, and a restarted engine is back soon.
	ejectFor  = 3 * time.Second
	ejectMost = 30 * time.Second
	// failuresMost is how many requests in a row may break off at a replica before it
	// answers anything. One alone may be the request's own fault.
	failuresMost = 3
	// probePatience is long because some engines generate a token when they are asked how
	// they are.
	probePatience = 10 * time.Second
)

// restore is for a replica that answered a client.
func (l *load) restore() {
	// Rarely; a needless write would cost every core its copy.
	if l.failures.Load() != 0 {
		l.failures.Store(0)
	}
	if l.strikes.Load() != 0 {
		l.strikes.Store(0)
	}
	if l.ejected.Load() != 0 {
		l.ejected.Store(0)
	}
}

// strike counts a request that broke off before its answer.
func (x *exchange) strike(l *lease) {
	if l.failures.Add(1) >= failuresMost && x.eject(l) {
		x.g.Log.Warn("a replica breaks off again and again; others are preferred until it answers", "replica", l.id, "at", l.host)
	}
}

// eject passes a replica over until a probe finds it well, so that no client has to
// find out, and tells whether that is news.
func (x *exchange) eject(l *lease) bool {
	before := l.ejected.Swap(int64(1<<63 - 1))
	if l.probing.CompareAndSwap(false, true) {
		go x.g.probe(l.replica, x.route.pool, backoff(l.strikes.Add(1)-1))
	}
	if before == 0 {
		x.g.telemetry.ejected(x.route)
	}
	return before == 0
}

// backoff doubles from ejectFor on.
func backoff(strikes int32) time.Duration {
	return min(ejectFor<<min(strikes, 8), ejectMost)
}

// probe asks an ejected replica how it is, at growing intervals, until it is well,
// gone, or was found well by a client that had no other.
func (g *Gateway) probe(rep *replica, p *pool, pause time.Duration) {
	defer func() {
		rep.probing.Store(false)
		// Who ejected it after it was found well saw a probe that was about to end.
		if rep.ejected.Load() != 0 && g.running.Err() == nil && rep.probing.CompareAndSwap(false, true) {
			go g.probe(rep, p, ejectFor)
		}
	}()
	for ; ; pause = min(2*pause, ejectMost) {
		select {
		case <-g.running.Done():
			return
		case <-time.After(pause + rand.N(pause/8)): // not all gateways at once
		}
		switch {
		case rep.ejected.Load() == 0:
			return
		case rep.gone.Load():
			// Should it come back, it starts with a clean sheet.
			rep.failures.Store(0)
			rep.ejected.Store(0)
			return
		case g.well(rep):
			rep.failures.Store(0)
			rep.ejected.Store(0)
			p.mu.Lock()
			p.dispatch(time.Now())
			p.mu.Unlock()
			g.Log.Info("a replica answers again", "replica", rep.id, "at", rep.host)
			return
		}
	}
}

// well makes a new connection to an engine and asks how it is. Any answer will do
// that is not an engine's own word that it cannot serve.
func (g *Gateway) well(rep *replica) bool {
	ctx, cancel := context.WithTimeout(g.running, probePatience)
	defer cancel()
	req := (&http.Request{Method: http.MethodGet, URL: rep.health, Host: rep.health.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	resp, err := g.upstream.fresh.RoundTrip(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.CopyN(io.Discard, resp.Body, maxRefusal)
	return (err == nil || err == io.EOF) && resp.StatusCode < http.StatusInternalServerError
}
