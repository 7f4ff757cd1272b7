package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxHeader bounds the header of an engine's answer.
	maxHeader = 64 << 10
	// atOnce is how large a request may be that is written before its answer is looked
	// for: so much fits into the buffers of a connection. Of a larger one the engine may
	// say no before it has read all of it.
	atOnce = 64 << 10
	// together is how large a request may be that is copied for one write: in a tunnel
	// every write is a frame.
	together = 16 << 10
	// quietFor is how long a connection may have been idle and still be taken for open
	// without a look.
	quietFor = 50 * time.Millisecond
	// readAhead is the buffer of a connection. It serves headers and the frames of chunks;
	// thousands of streams have one each, and what is read through it has buffers itself.
	readAhead = 2 << 10
	// sentWithin is how long the end of a large request is waited for when its answer is
	// there: an engine that accepts one has read all of it, so only the news can be late.
	sentWithin = 50 * time.Millisecond
	// interims bounds the answers of status 1xx before the one that counts.
	interims = 8
)

// transport speaks HTTP/1.1 with engines, in the goroutine of whoever asks. That of
// net/http hands every request to two goroutines of its connection and the answer
// back: for answers of a few hundred bytes that is the larger part of the time, and
// for thousands of open streams of the memory. A request fails here when its
// connection turns out to be dead; whether to send it again is the caller's to say.
type transport struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// idleFor is how long a connection is kept for another request; zero: not at all.
	idleFor time.Duration
	// secure is for https.
	secure http.RoundTripper

	pool connPool
}

// leaves reports whether a request is one for the other transport.
func (t *transport) leaves(req *http.Request) bool { return req.URL.Scheme != "http" }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.leaves(req) {
		return t.secure.RoundTrip(req)
	}
	resp, _, err := t.send(req)
	return resp, err
}

// send is RoundTrip over http, and tells whether the connection had been used before.
// The answer's body has to be read to its end or closed, as always; the request's
// context ends both at any time.
func (t *transport) send(req *http.Request) (resp *http.Response, reused bool, err error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, false, err
	}
	ctx := req.Context()
	c, reused, err := t.conn(ctx, req.URL.Host)
	if err != nil {
		return nil, false, err
	}
	c.unhook = context.AfterFunc(ctx, c.cut)
	if resp, err = c.ask(req, body); err != nil {
		c.end(false)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, reused, err
	}
	return resp, reused, nil
}

func bodyOf(req *http.Request) ([]byte, error) {
	switch b := req.Body.(type) {
	case nil:
		return nil, nil
	case *upload:
		return b.take(), nil
	default:
		defer b.Close()
		return io.ReadAll(b)
	}
}

// take hands the bytes over at once.
func (u *upload) take() []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.b
	u.b = nil
	return b
}

func (t *transport) conn(ctx context.Context, host string) (c *engineConn, reused bool, err error) {
	if t.idleFor > 0 {
		if c := t.pool.take(host, time.Now().Add(-t.idleFor)); c != nil {
			return c, true, nil
		}
	}
	address := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		address = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	conn, err := t.dial(ctx, "tcp", address)
	if err != nil {
		return nil, false, err
	}
	c = &engineConn{Conn: conn, host: host, from: t}
	c.in = bufio.NewReaderSize(c, readAhead)
	return c, false, nil
}

// closeIdle closes what nobody uses.
func (t *transport) closeIdle() { t.pool.expire(time.Now().Add(time.Hour)) }

// engineConn is a connection to an engine, with at most one request on it.
type engineConn struct {
	net.Conn
	host string
	from *transport
	in   *bufio.Reader
	left int64 // how much may still be read, within a header

	unhook func() bool
	writes chan error // of a large request: how its writing ended
	agreed bool       // the engine's answer is no refusal
	idle   time.Time  // since when
	closed sync.Once
}

var errHeaderTooLong = errors.New("the header of the engine's answer is longer than 64 KiB")

// Read is what the buffer reads from.
func (c *engineConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderTooLong
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	if c.left != math.MaxInt64 {
		c.left -= int64(n)
	}
	return n, err
}

// cut ends whatever goes on.
func (c *engineConn) cut() {
	// How it closes does not matter: nobody reads or writes any more.
	c.closed.Do(func() { _ = c.Conn.Close() })
}

// ask sends a request and reads the answer's header.
func (c *engineConn) ask(req *http.Request, body []byte) (*http.Response, error) {
	head := heads.Get().(*[]byte)
	text, err := appendHead((*head)[:0], req, len(body), c.from.idleFor > 0)
	if err == nil {
		err = c.send(text, body)
	}
	if len(body) <= atOnce { // a larger one is still being written
		*head = text
		heads.Put(head)
	}
	if err != nil {
		return nil, err
	}
	for range interims {
		c.left = maxHeader
		resp, err := http.ReadResponse(c.in, req)
		c.left = math.MaxInt64
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200:
			c.agreed = resp.StatusCode < http.StatusBadRequest
			b := &engineBody{c: c, src: resp.Body, keep: !resp.Close && c.from.idleFor > 0}
			resp.Body = b
			if b.src == http.NoBody {
				b.end(true)
			}
			return resp, nil
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the engine wants to speak another protocol")
		}
	}
	return nil, fmt.Errorf("the engine sent %d answers that are none", interims)
}

var heads = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// send writes a request in one go, or goes on writing while the answer is awaited.
func (c *engineConn) send(head, body []byte) error {
	if len(body) <= atOnce {
		return c.write(head, body)
	}
	c.writes = make(chan error, 1)
	go func() { c.writes <- c.write(head, body) }()
	return nil
}

func (c *engineConn) write(head, body []byte) error {
	if len(head)+len(body) <= together {
		_, err := c.Conn.Write(append(head, body...))
		return err
	}
	_, err := (&net.Buffers{head, body}).WriteTo(c.Conn)
	return err
}

// sent reports whether the request is out; the rest of one that is not would go into
// the next.
func (c *engineConn) sent() bool {
	if c.writes == nil {
		return true
	}
	if !c.agreed && len(c.writes) == 0 {
		return false
	}
	give := time.NewTimer(sentWithin)
	defer give.Stop()
	select {
	case err := <-c.writes:
		c.writes = nil
		return err == nil
	case <-give.C:
		return false
	}
}

// end lets go of the connection: for another request, or for good.
func (c *engineConn) end(keep bool) {
	if !c.unhook() || !keep || !c.sent() || c.in.Buffered() > 0 {
		c.cut()
		return
	}
	c.from.pool.put(c, c.from.idleFor)
}

var errBadHeader = errors.New("a header value has a line end in it")

func appendHead(b []byte, req *http.Request, size int, keep bool) ([]byte, error) {
	b = append(append(b, req.Method...), ' ')
	b = append(append(b, req.URL.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	b = append(append(b, host...), "\r\n"...)
	for name, values := range req.Header {
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return b, errBadHeader
			}
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	if size > 0 || req.Method == http.MethodPost {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(size), 10), "\r\n"...)
	}
	if !keep {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// engineBody is the body of an answer. Its end lets go of the connection.
type engineBody struct {
	c      *engineConn
	src    io.ReadCloser
	keep   bool
	ended  atomic.Bool
	closed atomic.Bool
}

func (b *engineBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.src.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close ends the call, whatever is still to come.
func (b *engineBody) Close() error {
	b.closed.Store(true)
	b.end(false)
	return nil
}

func (b *engineBody) end(whole bool) {
	if !b.ended.Swap(true) {
		b.c.end(whole && b.keep)
	}
}
