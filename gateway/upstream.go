package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"
)

const (
	// idleConnection is how long a connection to an engine is kept for reuse. Servers in
	// use here close theirs after 5 s; reusing one in that moment loses a request.
	idleConnection = 3500 * time.Millisecond
	dialTimeout    = 2 * time.Second
	// staleWithin is how soon a reused connection fails when it had been closed
	// before the request got there. Later, the engine had begun to work.
	staleWithin = time.Second
	maxAttempts = 3
	// maxAnswer bounds an answer that is not streamed, maxRefusal an engine's error.
	maxAnswer  = 64 << 20
	maxRefusal = 1 << 20
)

// upstream is the way to engines.
type upstream struct {
	pooled http.RoundTripper
	// fresh makes a new connection each time: for the request that met a stale one.
	fresh          http.RoundTripper
	idleConnection time.Duration // zero: the default; tests shorten it
	closeIdle      func()
	dialer         net.Dialer
	tunnels        Tunnels // nil: there are none
}

func (u *upstream) open() {
	if u.idleConnection == 0 {
		u.idleConnection = idleConnection
	}
	u.dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	pooled := &http.Transport{
		DialContext:         u.dial,
		TLSHandshakeTimeout: 2 * dialTimeout,
		// An engine's answers are read as they come; the gateway decodes what an engine
		// compresses without being asked.
		DisableCompression:     true,
		MaxIdleConnsPerHost:    4096,
		IdleConnTimeout:        u.idleConnection,
		MaxResponseHeaderBytes: 64 << 10,
	}
	once := pooled.Clone()
	once.DisableKeepAlives = true
	keep := &transport{dial: u.dial, idleFor: u.idleConnection, secure: pooled}
	u.pooled, u.fresh = keep, &transport{dial: u.dial, secure: once}
	u.closeIdle = func() {
		keep.closeIdle()
		pooled.CloseIdleConnections()
	}
}

func (u *upstream) close() {
	if u.closeIdle != nil {
		u.closeIdle()
	}
}

// upload is a request body that lets go of its bytes once it was sent: a stream
// may stay open for long after.
type upload struct {
	mu sync.Mutex
	b  []byte
}

func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, u.b)
	u.b = u.b[n:]
	return n, nil
}

func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.b = nil
	return nil
}

// passed are the client's headers that engines get. Its key is not among them,
// nor anything about the connection.
var passed = []string{"Accept", "User-Agent", "Traceparent", "Tracestate"}

func (x *exchange) engineRequest(ctx context.Context, to *replica) *http.Request {
	h := make(http.Header, len(passed)+3)
	for _, name := range passed {
		if v := x.r.Header[name]; len(v) > 0 {
			h[name] = v
		}
	}
	h["Content-Type"] = []string{"application/json"}
	h["Accept-Encoding"] = []string{"identity"}
	h["X-Request-Id"] = []string{x.id}
	u := to.urls[x.endpoint]
	req := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: &upload{b: x.outgoing}, ContentLength: int64(len(x.outgoing)),
		// The transport asks for it only when nothing of the first was sent.
		GetBody: func() (io.ReadCloser, error) { return &upload{b: x.outgoing}, nil },
	}
	return req.WithContext(ctx)
}

// call is one request at one replica.
type call struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer // cuts an engine that says nothing
	unhook func() bool // from the client's request
	reset  time.Time
	sent   time.Time
	reused bool
	kept   bool // somebody else ends it
}

var (
	errIdle = errors.New("the engine said nothing for too long")
	errGone = errors.New("the client left")
)

// newCall ends when the client leaves, so that an engine stops working at once,
// and when the gateway has to stop. It does not end with the handler: a
// connection is good for another request only when its answer was read to the end.
func (x *exchange) newCall() *call {
	c := &call{sent: time.Now()}
	c.reset = c.sent
	c.ctx, c.cancel = context.WithCancelCause(x.g.running)
	c.idle = time.AfterFunc(x.g.IdleTimeout, func() { c.cancel(errIdle) })
	c.unhook = context.AfterFunc(x.r.Context(), func() { c.cancel(errGone) })
	return c
}

// alive puts the idle timeout off; at most once a second, because it is called for
// every event.
func (c *call) alive(now time.Time, timeout time.Duration) {
	if now.Sub(c.reset) > time.Second {
		c.idle.Reset(timeout)
		c.reset = now
	}
}

func (c *call) end() {
	if c.kept {
		return
	}
	c.idle.Stop()
	c.unhook()
	c.cancel(nil)
}

// drain reads what an engine sends after the end of its stream, apart from the
// client's request, and ends the call. The request counts at the replica until then.
func (c *call) drain(body io.ReadCloser, l *lease) {
	if !c.unhook() {
		return // the client left in this moment; the call is over already
	}
	c.kept = true
	c.idle.Reset(time.Second)
	held := *l
	l.pool = nil
	go func() {
		defer func() {
			c.idle.Stop()
			c.cancel(nil)
			held.release()
		}()
		defer body.Close()
		// Whether it works decides only on whether the connection is used again.
		_, _ = io.CopyN(io.Discard, body, smallEvents)
	}()
}

// roundTrip sends a request and tells whether it went out on a used connection.
func (c *call) roundTrip(over http.RoundTripper, req *http.Request) (resp *http.Response, err error) {
	if t, ok := over.(*transport); ok && !t.leaves(req) {
		resp, c.reused, err = t.send(req)
		return resp, err
	}
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { c.reused = i.Reused }}
	return over.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
}

// stale reports whether a call failed because its connection had been closed
// before: the engine never saw the request.
func (c *call) stale(err error) bool {
	var timeout net.Error
	return c.reused && time.Since(c.sent) < staleWithin && !(errors.As(err, &timeout) && timeout.Timeout())
}

// refused reports whether no connection came about.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// retryAfter reads an engine's own word on when to come back.
func retryAfter(h http.Header) time.Duration {
	const most = time.Hour
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 0), int(most/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(time.Until(at), 0), most)
}

// retriable statuses say that the replica did not take the request.
func retriable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
