package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// piece is how much is written under one deadline: a slow client is no stalled one.
	piece = 256 << 10
	// drainPatience and drainMost bound how a refused upload is taken in.
	drainPatience = 10 * time.Second
	drainMost     = 128 << 20
)

// setWriteDeadline puts the deadline of writes off. It need not be exact, so it is
// not set anew for every event.
func (x *exchange) setWriteDeadline(now time.Time) {
	limit := x.g.WriteTimeout
	if now.Sub(x.deadline) < min(time.Second, limit/8) {
		return
	}
	x.deadline = now
	if err := x.control.SetWriteDeadline(now.Add(limit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.g.Log.Debug("set a write deadline", "request", x.id, "err", err)
	}
}

// write sends b in pieces, each with time of its own.
func (x *exchange) write(b []byte) error {
	for {
		x.setWriteDeadline(time.Now())
		n := min(len(b), piece)
		if _, err := x.w.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

// unblock lets an answer go out while the request's body is still arriving.
func (x *exchange) unblock() {
	if err := x.control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.g.Log.Debug("answer before the body is read", "request", x.id, "err", err)
	}
}

// drain takes in the rest of a refused body, so that the client gets to read why.
func (x *exchange) drain() {
	if err := x.control.Flush(); err != nil {
		return
	}
	if err := x.control.SetReadDeadline(time.Now().Add(drainPatience)); err != nil {
		return
	}
	// How far it gets does not matter: the answer is out.
	_, _ = io.CopyN(io.Discard, x.r.Body, drainMost)
}
