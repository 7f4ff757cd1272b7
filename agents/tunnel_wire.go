package agents

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// mostWaiting bounds what waits to be written at one end of a tunnel.
	mostWaiting = 128 << 10
	// keptBuffer is the most that an idle wire holds on to.
	keptBuffer = 16 << 10
	// stuckAfter is how long one write may take.
	stuckAfter = 10 * time.Second
)

// wire is a WebSocket as the stream of bytes that a session runs on. Frames that
// come while a message is being written wait and go out together as the next one:
// under load that halves the system calls, and alone nothing waits.
type wire struct {
	ws     *websocket.Conn
	reader io.Reader // of the message that is being read

	heard atomic.Int64 // when bytes last came, in Unix nanoseconds

	mu      sync.Mutex
	room    sync.Cond
	waiting []byte
	err     error
	more    chan struct{}
	done    chan struct{}
}

func newWire(ws *websocket.Conn) *wire {
	// Messages are read in pieces as they come; what bounds memory are the windows of
	// the streams.
	ws.SetReadLimit(-1)
	w := &wire{ws: ws, more: make(chan struct{}, 1), done: make(chan struct{})}
	w.room.L = &w.mu
	w.heard.Store(time.Now().UnixNano())
	go w.run()
	return w
}

// run writes what waits until the wire is closed.
func (w *wire) run() {
	stuck := time.AfterFunc(stuckAfter, func() { w.fail(context.DeadlineExceeded) })
	stuck.Stop()
	var spare []byte
	for {
		select {
		case <-w.more:
		case <-w.done:
			return
		}
		for {
			w.mu.Lock()
			out := w.waiting
			w.waiting = spare[:0]
			w.room.Broadcast()
			w.mu.Unlock()
			spare = out
			if len(out) == 0 {
				break
			}
			stuck.Reset(stuckAfter)
			err := w.ws.Write(context.Background(), websocket.MessageBinary, out)
			stuck.Stop()
			if err != nil {
				w.fail(err)
				return
			}
		}
		if cap(spare) > keptBuffer {
			spare = nil
		}
	}
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	for len(w.waiting) >= mostWaiting && w.err == nil {
		w.room.Wait()
	}
	if w.err != nil {
		w.mu.Unlock()
		return 0, w.err
	}
	w.waiting = append(w.waiting, p...)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		if w.reader == nil {
			kind, r, err := w.ws.Reader(context.Background())
			if err != nil {
				return 0, err
			}
			if kind != websocket.MessageBinary {
				_ = w.ws.CloseNow()
				return 0, net.ErrClosed
			}
			w.reader = r
		}
		n, err := w.reader.Read(p)
		if err == io.EOF {
			w.reader, err = nil, nil
		}
		if n > 0 || err != nil {
			w.heard.Store(time.Now().UnixNano())
			return n, err
		}
	}
}

// fail ends the wire without a farewell: one would wait for a peer that may be gone.
func (w *wire) fail(err error) {
	w.mu.Lock()
	first := w.err == nil
	if first {
		w.err = err
		close(w.done)
	}
	w.room.Broadcast()
	w.mu.Unlock()
	if first {
		_ = w.ws.CloseNow()
	}
}

// Close ends the wire at once.
func (w *wire) Close() error {
	w.fail(net.ErrClosed)
	return nil
}

// silentSince reports whether nothing has come since a moment.
func (w *wire) silentSince(t time.Time) bool { return w.heard.Load() < t.UnixNano() }

// A session asks for deadlines of its writes only, and those are bounded here.

func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
func (w *wire) LocalAddr() net.Addr              { return tunnelAddr("") }
func (w *wire) RemoteAddr() net.Addr             { return tunnelAddr("") }

// tunnelAddr is the address of what is reached through a tunnel.
type tunnelAddr string

func (tunnelAddr) Network() string  { return SchemeTunnel }
func (a tunnelAddr) String() string { return string(a) }
