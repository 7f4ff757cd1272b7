package gateway

import (
	"compress/gzip"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"tokenfactory/factory"
)

// verdict is how an attempt at a replica ended.
type verdict int

const (
	answered verdict = iota // the client has its answer, or as much as it gets
	left                    // the client is gone
	again                   // nothing reached the client, and another replica may do better
	stale                   // the connection was dead before the engine saw anything
)

// forward tries deployments, of an alias, and their replicas until one answers. As
// soon as an event or an answer has reached the client there is no other attempt:
// it would repeat text.
func (x *exchange) forward() {
	for {
		p := x.try()
		switch {
		case p == nil:
			return
		case p.final:
			x.settle(p.status, p.flag())
		case x.turn():
			continue
		default:
			x.settle(p.status, factory.FlagFailed)
		}
		x.refuse(p)
		return
	}
}

// turn goes on to the next deployment that has room for the request, and gives back
// what was booked for the one before.
func (x *exchange) turn() bool {
	before, replica := x.route, x.replica
	for len(x.routes) > 0 {
		x.unreserve()
		x.route, x.routes, x.replica = x.routes[0], x.routes[1:], nil
		p := x.reserve()
		if p == nil {
			return true
		}
		if p.scope != factory.ScopeDeployment {
			break
		}
	}
	if x.route != before {
		// What failed counts where it failed. It was let in there a moment ago; should there
		// be no room any more, it is answered all the same.
		x.route, x.replica = before, replica
		_ = x.reserve()
	}
	return false
}

// try makes attempts at replicas of the route, and returns nil when the exchange
// has ended with one.
func (x *exchange) try() *problem {
	var tried []string
	var last *problem
	fresh := false
	for range maxAttempts {
		if x.gone() {
			x.settleGone()
			return nil
		}
		l, p := x.lease(tried)
		switch {
		case l.replica != nil:
		case x.gone():
			x.settleGone()
			return nil
		case last != nil: // what a replica said tells more than that there is no other
			return last
		default:
			return p
		}
		v, p := x.attempt(&l, fresh)
		fresh = false
		switch v {
		case answered:
			return nil
		case left:
			x.settleGone()
			return nil
		case stale:
			// Nothing was done there; a replica deserves a new connection.
			fresh = true
		case again:
			tried = append(tried, l.id)
		}
		if last != nil && last.retryAfter > 0 && p.retryAfter > last.retryAfter {
			p.retryAfter = last.retryAfter // the first to be free again
		}
		last = p
	}
	return last
}

// attempt makes one call and, if the engine answers, gives the answer to the client.
func (x *exchange) attempt(l *lease, fresh bool) (v verdict, p *problem) {
	defer l.release()
	x.attempts++
	x.replica = l.replica
	x.meter = meter{}
	c := x.newCall()
	defer c.end()
	defer func() {
		if v == again || v == stale {
			x.engines += time.Since(c.sent)
		}
	}()
	x.waited = c.sent.Sub(x.ready)
	running := x.route.running
	if l.noRunning.Load() || x.barred != "" || !x.request.stream || !endpoints[x.endpoint].streams {
		running = ""
	}
	x.outgoing = x.request.forEngine(l.served, endpoints[x.endpoint].streams, running)
	over := x.g.upstream.pooled
	if fresh {
		over = x.g.upstream.fresh
	}
	resp, err := c.roundTrip(over, x.engineRequest(c.ctx, l.replica))
	if err != nil {
		return x.callFailed(c, l, err)
	}
	defer func() {
		if !c.kept {
			resp.Body.Close()
		}
	}()
	body, p := decoded(resp)
	if p != nil {
		return again, p
	}
	if resp.StatusCode != http.StatusOK {
		return x.engineRefused(c, l, resp, body, running)
	}
	if x.barred == l.id && !l.noRunning.Swap(true) {
		// Without the option it answers: an engine of another age.
		x.g.learned(x.route, factory.LearnedNo)
		x.g.Log.Info("an engine does not know running usage; it is not asked for any more", "replica", l.id)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && kind == "text/event-stream" {
		return x.stream(c, l, resp.Body, body, running)
	}
	return x.plain(c, l, resp, body)
}

// callFailed sorts out a call without an answer.
func (x *exchange) callFailed(c *call, l *lease, err error) (verdict, *problem) {
	cause := context.Cause(c.ctx)
	switch {
	case x.gone():
		return left, nil
	case x.g.running.Err() != nil:
		return again, unavailable("The gateway is being restarted. Try again in a moment.")
	case refused(err):
		if x.eject(l) {
			x.g.Log.Warn("a replica refuses connections", "request", x.id, "replica", l.id, "at", l.host, "err", err)
		}
		return again, noReplica(x.name)
	case cause == errIdle:
		x.strike(l)
		return again, &problem{status: http.StatusGatewayTimeout, kind: typeUpstream, code: "upstream_timeout",
			message: "The engine did not answer within " + x.g.IdleTimeout.String() + ". Ask for less at once, or try again later."}
	case c.stale(err):
		return stale, upstreamFailed()
	}
	x.strike(l)
	x.g.Log.Warn("a replica broke off before it answered", "request", x.id, "replica", l.id, "at", l.host, "err", err)
	return again, upstreamFailed()
}

// engineRefused passes an engine's refusal on, unless another replica may accept.
func (x *exchange) engineRefused(c *call, l *lease, resp *http.Response, body io.Reader, running string) (verdict, *problem) {
	text, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	if x.gone() {
		return left, nil
	}
	if err != nil {
		text = nil // the status says enough
	}
	status := resp.StatusCode
	if status == http.StatusBadRequest && running != "" && strings.Contains(string(text), running) && x.request.stream &&
		!x.request.wantsRunning && !x.request.wantsTimings {
		// It may not know what only the gateway asked for, or repeat in its words what it
		// was sent. Asking without shows which.
		x.barred = l.id
		return stale, upstreamFailed()
	}
	asked := retryAfter(resp.Header)
	switch status {
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		x.strike(l)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		l.passOver(status, asked, time.Now())
		l.restore()
	default:
		l.restore()
	}
	p := engineProblem(status, text, asked)
	switch {
	case retriable(status):
		return again, p
	case unoffered(status, text):
		p = notOffered(x.name, endpoints[x.endpoint].path)
	}
	if p.status >= http.StatusInternalServerError {
		x.g.Log.Warn("an engine failed", "request", x.id, "replica", l.id, "at", l.host, "status", status)
	}
	x.settle(p.status, p.flag())
	x.refuse(p)
	return answered, nil
}

// decoded is the answer's body as text. Engines are asked not to compress; some
// proxies before them do it all the same.
func decoded(resp *http.Response) (io.Reader, *problem) {
	switch resp.Header.Get("Content-Encoding") {
	case "", "identity":
		return resp.Body, nil
	case "gzip":
		return &gunzip{src: resp.Body}, nil
	}
	return nil, &problem{status: http.StatusBadGateway, kind: typeUpstream, code: codeUpstream,
		message: "The engine's answer is compressed in a way that was not asked for. An operator has to check what stands before the engine."}
}

// gunzip reads the header only when somebody reads: it may come long after ours.
type gunzip struct {
	src io.Reader
	z   *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.src)
		if err != nil {
			return 0, err
		}
		g.z = z
	}
	return g.z.Read(p)
}
