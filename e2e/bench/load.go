//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// load is one measurement: so many connections, each sending the same request as
// often as it is told to.
type load struct {
	port    int
	request []byte
	conns   int
	// each is how often a connection sends; 0 is until the time is over.
	each int
	time time.Duration
	// ramp spreads the first requests.
	ramp time.Duration
	// stream is for streamed answers, with so many tokens each.
	stream int
	// settle is how much of the beginning of a paced run is left out of delays.
	settle time.Duration
	// during is called once, when half of the time of a paced run is over.
	during func()
	// patience bounds the whole.
	patience time.Duration
}

// outcome is what became of a load.
type outcome struct {
	requests int // answered whole
	errors   int
	failure  error // the first one
	took     time.Duration
	times    []int64 // of whole answers, in ns
	delays   []int64 // of events after the moment they were due, in ns
	cpu      time.Duration
}

// run carries a load out in one thread.
func (l load) run() (outcome, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := &generator{load: l}
	var err error
	if g.poll, err = newPoller(); err != nil {
		return outcome{}, err
	}
	defer g.poll.close()
	defer g.closeAll()
	for range l.conns {
		fd, err := dial(l.port)
		if err != nil {
			return outcome{}, err
		}
		for len(g.conns) <= fd {
			g.conns = append(g.conns, nil)
		}
		c := &loadConn{fd: fd}
		c.onBody = func(b []byte) { g.body(c, b) }
		g.conns[fd] = c
		g.waiting = append(g.waiting, c)
		if err := g.poll.add(fd); err != nil {
			return outcome{}, err
		}
	}
	cpu := ownCPU()
	if err := g.run(); err != nil {
		return outcome{}, err
	}
	g.out.cpu = ownCPU() - cpu
	slices.Sort(g.out.times)
	slices.Sort(g.out.delays)
	return g.out, nil
}

type generator struct {
	load
	poll    *poller
	conns   []*loadConn // by file descriptor
	waiting []*loadConn // that have not sent anything yet
	open    int
	began   time.Time
	now     int64 // of this turn, ns since 1970
	out     outcome
	buf     [64 << 10]byte
}

type loadConn struct {
	fd     int
	sent   int
	begun  int64
	unsent []byte
	resp   response
	part   []byte // of an event, or of a plain answer
	tokens int
	ended  bool // the stream said so
	closed bool
	onBody func([]byte)
}

func (g *generator) run() error {
	g.began = time.Now()
	g.open = len(g.waiting)
	all := len(g.waiting)
	halfway := false
	for g.open > 0 {
		since := time.Since(g.began)
		if since > g.patience {
			g.fail(nil, fmt.Errorf("%d of %d connections have no whole answer after %s", g.open, all, g.patience))
			break
		}
		due := all
		if g.ramp > 0 {
			due = min(all, int(int64(all)*int64(since)/int64(g.ramp))+1)
		}
		g.now = time.Now().UnixNano()
		for all-len(g.waiting) < due {
			c := g.waiting[0]
			g.waiting = g.waiting[1:]
			g.send(c)
		}
		if !halfway && g.during != nil && since > g.ramp+g.settle {
			halfway = true
			g.during()
		}
		patience := 100 * time.Millisecond
		if len(g.waiting) > 0 {
			patience = time.Millisecond
		}
		news, err := g.poll.wait(patience)
		if err != nil {
			return err
		}
		for _, n := range news {
			if c := g.conns[n.Fd]; c != nil && !c.closed {
				g.serve(c, n.Events)
			}
		}
	}
	g.out.took = time.Since(g.began)
	return nil
}

func (g *generator) send(c *loadConn) {
	if g.each > 0 && c.sent >= g.each || g.each == 0 && time.Since(g.began) >= g.time {
		g.close(c)
		return
	}
	c.sent++
	c.resp.reset()
	c.part, c.tokens, c.ended = c.part[:0], 0, false
	c.begun = time.Now().UnixNano()
	g.write(c, g.request)
}

func (g *generator) write(c *loadConn, b []byte) {
	n, err := syscall.Write(c.fd, b)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		g.fail(c, fmt.Errorf("send: %w", err))
		return
	}
	before := len(c.unsent) > 0
	c.unsent = b[max(0, n):]
	if now := len(c.unsent) > 0; now != before {
		if err := g.poll.wantWrite(c.fd, now); err != nil {
			g.fail(c, err)
		}
	}
}

func (g *generator) serve(c *loadConn, events uint32) {
	if events&syscall.EPOLLOUT != 0 && len(c.unsent) > 0 {
		g.write(c, c.unsent)
	}
	if events&^uint32(syscall.EPOLLOUT) == 0 || c.closed {
		return
	}
	n, err := syscall.Read(c.fd, g.buf[:])
	if errors.Is(err, syscall.EAGAIN) {
		return
	}
	if err != nil || n == 0 {
		g.fail(c, fmt.Errorf("the connection ended within an answer (%d tokens of it): %v", c.tokens, err))
		return
	}
	g.now = time.Now().UnixNano()
	if err := c.resp.feed(g.buf[:n], c.onBody); err != nil {
		g.fail(c, err)
		return
	}
	if !c.resp.done {
		return
	}
	if err := g.check(c); err != nil {
		g.fail(c, err)
		return
	}
	g.out.requests++
	g.out.times = append(g.out.times, g.now-c.begun)
	g.send(c)
}

// check reports what is wrong with a whole answer.
func (g *generator) check(c *loadConn) error {
	switch {
	case c.resp.status != 200:
		return fmt.Errorf("status %d: %s", c.resp.status, c.part)
	case g.stream > 0 && (c.tokens != g.stream || !c.ended):
		return fmt.Errorf("a stream of %d tokens brought %d; its end: %v", g.stream, c.tokens, c.ended)
	case g.stream == 0 && string(c.part) != plainAnswer:
		return fmt.Errorf("the answer is another: %.200s", c.part)
	}
	return nil
}

// body looks at the events of a stream as they come, and keeps a plain answer.
func (g *generator) body(c *loadConn, b []byte) {
	if g.stream == 0 || c.resp.status != 200 {
		c.part = append(c.part, b...)
		return
	}
	if len(c.part) > 0 {
		c.part = append(c.part, b...)
		b = c.part
	}
	for {
		event, rest, ok := bytes.Cut(b, []byte("\n\n"))
		if !ok {
			break
		}
		g.event(c, event)
		b = rest
	}
	c.part = append(c.part[:0], b...)
}

func (g *generator) event(c *loadConn, event []byte) {
	i := bytes.Index(event, []byte(contentKey))
	if i < 0 {
		c.ended = c.ended || string(event) == "data: [DONE]"
		return
	}
	c.tokens++
	if g.settle == 0 || g.now < g.began.Add(g.ramp+g.settle).UnixNano() {
		return
	}
	i += len(contentKey)
	if len(event) < i+dueDigits {
		return
	}
	due, err := strconv.ParseInt(string(event[i:i+dueDigits]), 10, 64)
	if err == nil {
		g.out.delays = append(g.out.delays, g.now-due)
	}
}

func (g *generator) fail(c *loadConn, err error) {
	g.out.errors++
	if g.out.failure == nil {
		g.out.failure = err
	}
	if c != nil {
		g.close(c)
	}
}

func (g *generator) close(c *loadConn) {
	if !c.closed {
		c.closed = true
		g.open--
		_ = syscall.Close(c.fd)
	}
}

func (g *generator) closeAll() {
	for _, c := range g.conns {
		if c != nil && !c.closed {
			g.close(c)
		}
	}
}

// at is a quantile of sorted values, by the nearest rank.
func at(sorted []int64, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return time.Duration(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))])
}
