package node

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

const (
	// openingWithin bounds how long a stream may take to say what it is for.
	openingWithin = 5 * time.Second
	// engineWithin is shorter than what the server grants the whole opening.
	engineWithin = 700 * time.Millisecond
	// lastWords is how long what an engine said before it broke off has to be read.
	lastWords = 50 * time.Millisecond
)

// localEngines is where streams may lead: to the replicas that this machine looks after
// and nowhere else, whatever the server asks for.
type localEngines struct {
	at func(replicaID string) (base string, ok bool)
}

// dial connects to a replica's engine.
func (e localEngines) dial(ctx context.Context, replicaID string) (net.Conn, error) {
	base, ok := e.at(replicaID)
	if !ok {
		return nil, errors.New("no engine of this replica runs on this machine")
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New("the engine's address cannot be used")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	address := net.JoinHostPort(u.Hostname(), port)
	ctx, cancel := context.WithTimeout(ctx, engineWithin)
	defer cancel()
	var dialer net.Dialer
	if u.Scheme == "https" {
		// The gateway speaks plain HTTP into the tunnel; the engine is met as it wants.
		return (&tls.Dialer{NetDialer: &dialer, Config: &tls.Config{NextProtos: []string{"http/1.1"}}}).DialContext(ctx, "tcp", address)
	}
	return dialer.DialContext(ctx, "tcp", address)
}

// join carries bytes both ways until both ends have said all, or one breaks off. An
// end is passed on as what it is: no more to say as that, a broken connection as
// one, so that half an answer is never taken for a whole one, and an engine whose
// client has left hears of it at once.
func join(stream *yamux.Stream, engine net.Conn) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		err := carry(engine, stream)
		if err == nil {
			if half, ok := engine.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			return
		}
		if errors.As(err, new(unwritten)) {
			return // an engine that refuses a request halfway says so on the way back
		}
		_ = engine.Close()
		_ = stream.Reset()
	}()
	if carry(stream, engine) != nil {
		// A reset overtakes what the server has not read yet, which may be the reason why
		// the engine broke off.
		time.Sleep(lastWords)
		_ = stream.Reset()
		_ = engine.Close()
	} else {
		_ = stream.CloseWrite()
	}
	<-up
}

const (
	firstBuffer = 2 << 10 // an event fits, and thousands of idle streams cost little
	mostBuffer  = 32 << 10
)

// unwritten is an error of the side that is written to.
type unwritten struct{ error }

// carry copies until the end, which is no error.
func carry(to io.Writer, from io.Reader) error {
	buf := make([]byte, firstBuffer)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return unwritten{err}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n == len(buf) && n < mostBuffer {
			buf = make([]byte, 4*n)
		}
	}
}
