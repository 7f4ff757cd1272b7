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

// forward tries replicas until one answers. As soon as a byte has reached the
// client there is no other attempt: it would repeat text.
func (x *exchange) forward() {
	var tried []string
	var last *problem
	fresh := false
	for x.attempts < maxAttempts {
		if x.gone() {
			x.settleGone()
			return
		}
		l, ok := x.route.pick(tried, time.Now())
		if !ok {
			break
		}
		v, p := x.attempt(&l, fresh)
		fresh = false
		switch v {
		case answered:
			return
		case left:
			x.settleGone()
			return
		case stale:
			// Nothing was done there; the same replica deserves a new connection.
			fresh = true
		case again:
			tried = append(tried, l.id)
		}
		last = p
	}
	if last == nil {
		last = noReplica(x.route.name)
	}
	x.settle(last.status, factory.FlagFailed)
	x.refuse(last)
}

// attempt makes one call and, if the engine answers, gives the answer to the client.
func (x *exchange) attempt(l *lease, fresh bool) (verdict, *problem) {
	defer l.release()
	x.attempts++
	x.replica = l.replica
	x.meter = meter{}
	c := x.newCall()
	defer c.end()
	x.waited = c.sent.Sub(x.ready)
	running := x.route.running
	if l.noRunning.Load() {
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
	l.restore()
	body, p := decoded(resp)
	if p != nil {
		x.engines += time.Since(c.sent)
		return again, p
	}
	if resp.StatusCode != http.StatusOK {
		return x.engineRefused(c, l, resp, body, running)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && kind == "text/event-stream" {
		return x.stream(c, resp.Body, body, running)
	}
	return x.plain(c, resp, body)
}

// callFailed sorts out a call without an answer.
func (x *exchange) callFailed(c *call, l *lease, err error) (verdict, *problem) {
	x.engines += time.Since(c.sent)
	cause := context.Cause(c.ctx)
	switch {
	case x.gone():
		return left, nil
	case x.g.running.Err() != nil:
		return again, unavailable("The gateway is being restarted. Try again in a moment.")
	case refused(err):
		if l.eject(time.Now()) {
			x.g.Log.Warn("a replica refuses connections", "request", x.id, "replica", l.id, "at", l.host, "err", err)
		}
		return again, noReplica(x.route.name)
	case cause == errIdle:
		return again, &problem{status: http.StatusGatewayTimeout, kind: typeUpstream, code: "upstream_timeout",
			message: "The engine did not answer within " + x.g.IdleTimeout.String() + ". Ask for less at once, or try again later."}
	case c.stale(err):
		return stale, upstreamFailed()
	}
	x.g.Log.Warn("a replica broke off before it answered", "request", x.id, "replica", l.id, "at", l.host, "err", err)
	return again, upstreamFailed()
}

// engineRefused passes an engine's refusal on, unless another replica may accept.
func (x *exchange) engineRefused(c *call, l *lease, resp *http.Response, body io.Reader, running string) (verdict, *problem) {
	text, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	x.engines += time.Since(c.sent)
	if x.gone() {
		return left, nil
	}
	if err != nil {
		text = nil // the status says enough
	}
	status := resp.StatusCode
	if status == http.StatusBadRequest && running != "" && strings.Contains(string(text), running) && x.request.stream &&
		!x.request.wantsRunning && !x.request.wantsTimings {
		// An engine of another age, that does not know what only the gateway asked for.
		l.noRunning.Store(true)
		x.g.Log.Info("an engine does not know running usage; it is not asked for any more", "replica", l.id, "option", running)
		return stale, upstreamFailed()
	}
	p := engineProblem(status, text, retryAfter(resp.Header))
	if retriable(status) {
		return again, p
	}
	if p.status >= http.StatusInternalServerError {
		x.g.Log.Warn("an engine failed", "request", x.id, "replica", l.id, "at", l.host, "status", status)
	}
	x.settle(p.status, factory.FlagFailed)
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
