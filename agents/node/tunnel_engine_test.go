package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/agents"
	"tokenfactory/factory"
)

// anyone lets every agent in.
type anyone struct{}

func (anyone) NodeByCredential(context.Context, string) (factory.Node, error) {
	return factory.Node{ID: "n"}, nil
}

func (anyone) NodeCredentials(context.Context) (map[string]string, error) { return nil, nil }

// tunnelTo is the way to an engine through the real ends of a tunnel.
func tunnelTo(t testing.TB, engine string) func(context.Context) (net.Conn, error) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	tunnels := &agents.Tunnels{Fleet: anyone{}, Log: log}
	server := httptest.NewServer(&agents.Intake{Tunnels: tunnels, Log: log, Now: time.Now})
	t.Cleanup(server.Close)
	c := newCarrier(server.URL, func(string) (string, bool) { return engine, true }, log)
	c.admit("tfa-credential", time.Second)
	var loop sync.WaitGroup
	loop.Go(func() { _ = c.Run(t.Context()) })
	t.Cleanup(loop.Wait)
	through := func(ctx context.Context) (net.Conn, error) { return tunnels.DialReplica(ctx, "n", "r") }
	for {
		if conn, err := through(t.Context()); err == nil {
			conn.Close()
			return through
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// rawEngine does one thing with every connection.
func rawEngine(t *testing.T, do func(c *net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				do(c.(*net.TCPConn))
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

func TestTheEndOfAnEnginesConnectionIsPassedOnAsWhatItIs(t *testing.T) {
	for what, c := range map[string]struct {
		end   func(*net.TCPConn)
		whole bool
	}{
		"it has said all": {func(c *net.TCPConn) { _ = c.CloseWrite(); _, _ = c.Read(make([]byte, 1)) }, true},
		"it closed":       {func(c *net.TCPConn) { _ = c.Close() }, true},
		"it died":         {func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() }, false},
	} {
		through := tunnelTo(t, rawEngine(t, func(e *net.TCPConn) {
			if _, err := io.ReadFull(e, make([]byte, 2)); err == nil { // else it was only looked whether the tunnel is open
				_, _ = io.WriteString(e, "half")
				_, _ = io.ReadFull(e, make([]byte, 2))
				c.end(e)
			}
		}))
		conn, err := through(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(conn, "go")
		if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
			t.Fatal(what, err)
		}
		_, _ = io.WriteString(conn, "on")
		if _, err := conn.Read(make([]byte, 1)); (err == io.EOF) != c.whole {
			t.Errorf("%s: %v", what, err)
		}
		conn.Close()
	}
}

// An engine may refuse a request before it has read all of it.
func TestAnEarlyRefusalIsCarriedBack(t *testing.T) {
	through := tunnelTo(t, rawEngine(t, func(e *net.TCPConn) {
		if _, err := io.ReadFull(e, make([]byte, 2)); err == nil {
			_, _ = io.WriteString(e, "too large")
		}
	}))
	conn, err := through(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	go func() { _, _ = conn.Write(make([]byte, 8<<20)) }()
	if _, err := io.ReadFull(conn, make([]byte, len("too large"))); err != nil {
		t.Error(err)
	}
}

// An engine may read to the end of what it is sent before it answers.
func TestAHalfClosedConnectionStillCarriesTheAnswer(t *testing.T) {
	through := tunnelTo(t, rawEngine(t, func(e *net.TCPConn) {
		if asked, err := io.ReadAll(e); err == nil {
			_, _ = e.Write(asked)
		}
	}))
	conn, err := through(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, "all of it")
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "all of it" {
		t.Errorf("%q %v", got, err)
	}
}

// The gateway speaks plain HTTP into the tunnel; past this machine that would be seen.
func TestAnEngineThatSpeaksTLSIsMetSo(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	local := localEngines{at: func(string) (string, bool) { return secure.URL, true }}
	if c, err := local.dial(t.Context(), "r"); err == nil {
		c.Close()
		t.Error("its certificate was not looked at")
	} else if !strings.Contains(err.Error(), "certificate") {
		t.Errorf("it was not met with TLS: %v", err)
	}
}
