//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The engine is as cheap as it can be made, so that the cores are left to what is
// measured: one thread, a fixed answer, and a wheel that writes the events of paced
// streams when they are due.
type engine struct {
	poll    *poller
	listen  int
	conns   map[int]*engineConn
	wheel   [pace / tick][]*engineConn
	running int // streams on the wheel
	ticked  int64
	piece   []byte
	buf     [64 << 10]byte
}

// pace is the time between two events of a paced stream.
const (
	pace = 20 * time.Millisecond
	tick = time.Millisecond
)

type engineConn struct {
	fd     int
	in     []byte
	out    []byte // what the socket did not take yet
	events int    // of the stream that is being answered
	sent   int
	usage  bool
	counts bool // running usage
	closed bool
}

// serveEngine answers on a port until the process is ended.
func serveEngine(port int) error {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer file.Close()
	e := &engine{listen: int(file.Fd()), conns: map[int]*engineConn{}}
	if e.poll, err = newPoller(); err != nil {
		return err
	}
	if err := syscall.SetNonblock(e.listen, true); err != nil {
		return err
	}
	if err := e.poll.add(e.listen); err != nil {
		return err
	}
	runtime.LockOSThread()
	for {
		patience := time.Duration(-1)
		if e.running > 0 {
			patience = tick
		}
		news, err := e.poll.wait(patience)
		if err != nil {
			return err
		}
		for _, n := range news {
			if int(n.Fd) == e.listen {
				e.accept()
				continue
			}
			if c := e.conns[int(n.Fd)]; c != nil {
				e.serve(c, n.Events)
			}
		}
		e.turn()
	}
}

func (e *engine) accept() {
	for {
		fd, _, err := syscall.Accept4(e.listen, syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
		if err != nil {
			return // none is waiting any more
		}
		if ready(fd) != nil || e.poll.add(fd) != nil {
			_ = syscall.Close(fd)
			continue
		}
		e.conns[fd] = &engineConn{fd: fd}
	}
}

func (e *engine) serve(c *engineConn, events uint32) {
	if events&syscall.EPOLLOUT != 0 {
		e.write(c, nil)
	}
	if events&^uint32(syscall.EPOLLOUT) == 0 || c.closed {
		return
	}
	n, err := syscall.Read(c.fd, e.buf[:])
	if errors.Is(err, syscall.EAGAIN) {
		return
	}
	if err != nil || n == 0 {
		e.close(c)
		return
	}
	whole := e.buf[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, whole...)
		whole = c.in
	}
	for len(whole) > 0 && !c.closed {
		head, rest, ok := bytes.Cut(whole, []byte("\r\n\r\n"))
		if !ok {
			break
		}
		size := contentLength(head)
		if len(rest) < size {
			break
		}
		e.answer(c, head, rest[:size])
		whole = rest[size:]
	}
	c.in = append(c.in[:0], whole...)
}

func contentLength(head []byte) int {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(name) == len("Content-Length") && strings.EqualFold(string(name), "Content-Length") {
			n, _ := strconv.Atoi(string(bytes.TrimSpace(value)))
			return n
		}
	}
	return 0
}

const jsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "

var (
	plainResponse  = []byte(jsonHead + strconv.Itoa(len(plainAnswer)) + "\r\n\r\n" + plainAnswer)
	modelsAnswer   = `{"object":"list","data":[{"id":"` + modelName + `","object":"model","max_model_len":32768}]}`
	modelsResponse = []byte(jsonHead + strconv.Itoa(len(modelsAnswer)) + "\r\n\r\n" + modelsAnswer)
	healthResponse = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	nothing        = []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	streamHead     = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
)

func (e *engine) answer(c *engineConn, head, body []byte) {
	switch {
	case bytes.HasPrefix(head, []byte("GET /health ")):
		e.write(c, healthResponse)
	case bytes.HasPrefix(head, []byte("GET /v1/models ")):
		e.write(c, modelsResponse)
	case !bytes.HasPrefix(head, []byte("POST /v1/chat/completions ")):
		e.write(c, nothing)
	case !bytes.Contains(body, []byte(`"stream":true`)):
		e.write(c, plainResponse)
	default:
		e.stream(c, body)
	}
}

// stream begins a streamed answer: at once as a whole, each event in a write of its
// own, or paced.
func (e *engine) stream(c *engineConn, body []byte) {
	c.events, c.sent = max(1, number(body, `"max_tokens":`)), 0
	c.usage = bytes.Contains(body, []byte(`"include_usage":true`))
	c.counts = bytes.Contains(body, []byte(`"continuous_usage_stats":true`))
	e.write(c, streamHead)
	if !bytes.Contains(body, []byte(`"paced":true`)) {
		for c.sent < c.events && !c.closed {
			e.event(c, time.Now().UnixNano())
		}
		e.end(c)
		return
	}
	now := time.Now().UnixNano()
	if e.running == 0 {
		e.ticked = now / int64(tick)
	}
	e.event(c, now)
	slot := e.ticked % int64(len(e.wheel))
	e.wheel[slot] = append(e.wheel[slot], c)
	e.running++
}

// turn writes what has become due. When the thread had no processor for a while, it
// makes up for every tick that passed, each under the time at which it was due.
func (e *engine) turn() {
	for now := time.Now().UnixNano() / int64(tick); e.running > 0 && e.ticked < now; {
		e.ticked++
		slot := &e.wheel[e.ticked%int64(len(e.wheel))]
		kept := (*slot)[:0]
		for _, c := range *slot {
			if !c.closed {
				e.event(c, e.ticked*int64(tick))
			}
			if c.sent >= c.events && !c.closed {
				e.end(c)
			}
			if c.closed || c.sent >= c.events {
				e.running--
				continue
			}
			kept = append(kept, c)
		}
		clear((*slot)[len(kept):])
		*slot = kept
	}
}

func (e *engine) event(c *engineConn, due int64) {
	c.sent++
	e.piece = appendToken(e.piece[:0], due, c.sent, c.counts)
	var b [1024]byte
	e.write(c, appendHTTPChunk(b[:0], e.piece))
}

func (e *engine) end(c *engineConn) {
	e.piece = e.piece[:0]
	if c.usage {
		e.piece = appendFinal(e.piece, c.sent)
	}
	e.piece = append(e.piece, doneEvent...)
	var b [1024]byte
	e.write(c, append(appendHTTPChunk(b[:0], e.piece), "0\r\n\r\n"...))
}

// write sends b after what still waits; what the socket does not take waits too.
func (e *engine) write(c *engineConn, b []byte) {
	if c.closed {
		return
	}
	waiting := len(c.out) > 0
	if waiting {
		c.out = append(c.out, b...)
		b = c.out
	}
	n, err := syscall.Write(c.fd, b)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		e.close(c)
		return
	}
	rest := b[max(0, n):]
	c.out = append(c.out[:0], rest...)
	if now := len(c.out) > 0; now != waiting {
		if e.poll.wantWrite(c.fd, now) != nil {
			e.close(c)
		}
	}
}

func (e *engine) close(c *engineConn) {
	if !c.closed {
		c.closed = true
		delete(e.conns, c.fd)
		_ = syscall.Close(c.fd)
	}
}

// number reads the number after a key.
func number(body []byte, key string) int {
	_, rest, _ := bytes.Cut(body, []byte(key))
	n := 0
	for _, b := range bytes.TrimLeft(rest, " ") {
		if b < '0' || b > '9' {
			break
		}
		n = n*10 + int(b-'0')
	}
	return n
}
