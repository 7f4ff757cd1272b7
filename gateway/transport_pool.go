package gateway

import (
	"sync"
	"syscall"
	"time"
)

// idleMost bounds the idle connections to one engine.
const idleMost = 4096

// connPool keeps connections for the next request, by engine.
type connPool struct {
	mu    sync.Mutex
	idle  map[string][]*engineConn // the longest idle first
	sweep *time.Timer
}

// take returns the connection that was used last, if it has not been idle since
// before a moment and is still open; nil when there is none.
func (p *connPool) take(host string, since time.Time) *engineConn {
	for {
		p.mu.Lock()
		list := p.idle[host]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := list[len(list)-1]
		list[len(list)-1] = nil
		p.idle[host] = list[:len(list)-1]
		p.mu.Unlock()
		if c.idle.After(since) && (time.Since(c.idle) < quietFor || c.open()) {
			return c
		}
		c.cut()
	}
}

// put keeps a connection for as long.
func (p *connPool) put(c *engineConn, idleFor time.Duration) {
	c.idle = time.Now()
	c.unhook = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle[c.host]) >= idleMost {
		c.cut()
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*engineConn{}
	}
	p.idle[c.host] = append(p.idle[c.host], c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleFor, func() { p.sweepAgain(idleFor) })
	}
}

// sweepAgain closes what has been idle for too long, and comes back for the rest.
func (p *connPool) sweepAgain(idleFor time.Duration) {
	p.expire(time.Now().Add(-idleFor))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		p.sweep = nil
		return
	}
	p.sweep.Reset(idleFor / 4)
}

// expire closes what has been idle since before a moment.
func (p *connPool) expire(before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, list := range p.idle {
		n := 0
		for n < len(list) && !list[n].idle.After(before) {
			list[n].cut()
			n++
		}
		// The rest moves: a list that was long once must not stay so.
		if list = append([]*engineConn(nil), list[n:]...); len(list) > 0 {
			p.idle[host] = list
		} else {
			delete(p.idle, host)
		}
	}
}

// open looks whether the engine has closed a connection meanwhile, or has sent
// something that nobody asked for. Of one that cannot be looked at, such as one
// through a tunnel, it is taken for granted.
func (c *engineConn) open() bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
		return true
	})
	return err == nil && quiet
}
