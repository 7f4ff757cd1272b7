package agents

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/libp2p/go-yamux/v5"

	"tokenfactory/agents/agenttest"
	"tokenfactory/factory"
)

// gate is who may have a tunnel, by the hash of a credential.
type gate struct {
	mu    sync.Mutex
	nodes map[string]factory.Node
	away  bool
}

func (g *gate) NodeByCredential(_ context.Context, hash string) (factory.Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.nodes[hash]
	if !ok {
		return n, factory.Errorf(factory.NotFound, "none")
	}
	return n, nil
}

func (g *gate) NodeCredentials(context.Context) (map[string]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return nil, errors.New("the database is away")
	}
	all := map[string]string{}
	for hash, n := range g.nodes {
		all[n.ID] = hash
	}
	return all, nil
}

func (g *gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// station is a server that takes tunnels of one node, n.
type station struct {
	*testing.T
	*gate
	tunnels *Tunnels
	server  *httptest.Server
}

func newStation(t *testing.T) *station {
	hash := factory.HashSecret(credential)
	g := &gate{nodes: map[string]factory.Node{hash: {ID: "n", Name: "spark", CredentialHash: hash}}}
	log := slog.New(slog.DiscardHandler)
	s := &station{T: t, gate: g, tunnels: &Tunnels{Fleet: g, Log: log}}
	s.server = httptest.NewServer(&Intake{Tunnels: s.tunnels, Log: log, Now: time.Now})
	t.Cleanup(s.server.Close)
	t.Cleanup(s.tunnels.close)
	return s
}

func opening(changes ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + credential}, HeaderProtocol: {strconv.Itoa(Protocol)}}
	for i := 0; i < len(changes); i += 2 {
		h.Set(changes[i], changes[i+1])
	}
	return h
}

// agent opens a tunnel at an address, and serves its streams.
func (s *station) agent(at string, serve func(replica string, stream *yamux.Stream)) *yamux.Session {
	s.Helper()
	before := s.open()
	ws, _, err := websocket.Dial(s.Context(), at+PathTunnel, &websocket.DialOptions{HTTPHeader: opening()})
	if err != nil {
		s.Fatal(err)
	}
	session, err := ServeTunnel(ws)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { session.Close() })
	go func() {
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				defer stream.Reset()
				if id, err := ReadOpening(stream); err == nil {
					serve(id, stream)
				}
			}()
		}
	}()
	s.eventually("the tunnel is in use", func() bool { return s.open() > before })
	return session
}

func (s *station) open() int {
	s.tunnels.mu.Lock()
	defer s.tunnels.mu.Unlock()
	return len(s.tunnels.of["n"])
}

func (s *station) eventually(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("never: %s", what)
		}
	}
}

// dial connects to replica r of node n.
func (s *station) dial() net.Conn {
	s.Helper()
	c, err := s.tunnels.DialReplica(s.Context(), "n", "r")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(15 * time.Second)) // a test that fails does not hang
	return c
}

func accept(stream *yamux.Stream) { _ = WriteVerdict(stream, "") }

// echo says back what it is told, until it is told no more.
func echo(_ string, stream *yamux.Stream) {
	accept(stream)
	_, _ = io.Copy(stream, stream)
	_ = stream.Close()
}

func TestTunnelsAreRefusedLikeReports(t *testing.T) {
	for what, c := range map[string]struct {
		method string
		header http.Header
		status int
		says   string
	}{
		"no credential":   {"GET", opening("Authorization", ""), 401, "Join with a token"},
		"bad credential":  {"GET", opening("Authorization", "Bearer tfa-other"), 401, "not known here"},
		"basic":           {"GET", opening("Authorization", "Basic "+credential), 401, "Join with a token"},
		"no protocol":     {"GET", opening(HeaderProtocol, ""), 400, "protocol version"},
		"newer protocol":  {"GET", opening(HeaderProtocol, "7"), 426, "Update the server"},
		"a browser":       {"GET", opening("Origin", "https://evil.example"), 403, "browser"},
		"its own page":    {"GET", opening("Origin", "http://example.com"), 403, "browser"},
		"another method":  {"POST", opening(), 405, "GET"},
		"no WebSocket":    {"GET", opening("Upgrade", ""), 426, ""},
		"a query instead": {"GET", http.Header{HeaderProtocol: {"1"}}, 401, "Join with a token"},
	} {
		s := newStation(t)
		r := httptest.NewRequest(c.method, PathTunnel, nil)
		r.Header = c.header
		if _, set := c.header["Upgrade"]; !set {
			for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		s.server.Config.Handler.ServeHTTP(w, r)
		var p Problem
		if w.Code != c.status || (c.says != "" && (json.Unmarshal(w.Body.Bytes(), &p) != nil || !strings.Contains(p.Message, c.says))) {
			t.Errorf("%s: %d %s; want %d with %q", what, w.Code, w.Body, c.status, c.says)
		}
		if s.open() != 0 {
			t.Errorf("%s: a tunnel came about", what)
		}
	}
	in, _ := desk()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, PathTunnel, nil)
	r.Header = opening()
	if in.ServeHTTP(w, r); w.Code != http.StatusNotFound {
		t.Errorf("an intake without tunnels: %d", w.Code)
	}
}

func TestATunnelCarriesBytesBothWaysToTheReplicaThatWasNamed(t *testing.T) {
	s := newStation(t)
	named := make(chan string, 1)
	s.agent(s.server.URL, func(id string, stream *yamux.Stream) { named <- id; echo(id, stream) })
	c := s.dial()
	if id := <-named; id != "r" {
		t.Errorf("the stream is for %q", id)
	}
	text := strings.Repeat("a word or two ", 100_000) // more than a window
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || string(got) != text {
		t.Errorf("%d of %d bytes came back: %v", len(got), len(text), err)
	}
}

// A dialler that fails before anything was sent is what lets the gateway go elsewhere.
func TestWhatCannotBeReachedIsAnErrorOfDialling(t *testing.T) {
	s := newStation(t)
	dial := func(ctx context.Context, node string) error {
		t.Helper()
		_, err := s.tunnels.DialReplica(ctx, node, "r")
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" {
			t.Fatalf("%T %v", err, err)
		}
		return err
	}
	if err := dial(t.Context(), "n"); !errors.Is(err, errNoTunnel) {
		t.Error(err)
	}
	s.agent(s.server.URL, func(_ string, stream *yamux.Stream) {
		_ = WriteVerdict(stream, "connection refused by the engine")
		_ = stream.Close()
	})
	if err := dial(t.Context(), "n"); !strings.Contains(err.Error(), "refused by the engine") {
		t.Error(err)
	}
	if err := dial(t.Context(), "another"); !errors.Is(err, errNoTunnel) {
		t.Errorf("another node: %v", err)
	}
	if s.open() != 1 {
		t.Error("the tunnel ended with a refusal of the engine's")
	}

	left, leave := context.WithCancel(t.Context())
	quiet := newStation(t)
	s = quiet
	gone := make(chan struct{})
	quiet.agent(quiet.server.URL, func(_ string, stream *yamux.Stream) {
		leave()
		_, _ = stream.Read(make([]byte, 1)) // no verdict
		close(gone)
	})
	if err := dial(left, "n"); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial that was given up: %v", err)
	}
	<-gone
}

func TestEndsArePassedOnAsWhatTheyAre(t *testing.T) {
	s := newStation(t)
	end := make(chan func(*yamux.Stream) error, 1)
	s.agent(s.server.URL, func(_ string, stream *yamux.Stream) {
		accept(stream)
		_, _ = io.WriteString(stream, "half")
		select {
		case how := <-end:
			_ = how(stream)
		case <-t.Context().Done():
		}
		_, _ = stream.Read(make([]byte, 1)) // the client's end
	})
	read := func(how func(*yamux.Stream) error) error {
		c := s.dial()
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		end <- how
		_, err := c.Read(make([]byte, 1))
		return err
	}
	if err := read((*yamux.Stream).CloseWrite); err != io.EOF {
		t.Errorf("an engine that has said all: %v", err)
	}
	if err := read((*yamux.Stream).Reset); err == nil || err == io.EOF {
		t.Errorf("an engine that died: %v", err)
	}

	// The client leaves: the agent hears of it, although it may have more to say.
	s = newStation(t)
	broken := make(chan error, 1)
	s.agent(s.server.URL, func(_ string, stream *yamux.Stream) {
		accept(stream)
		_, err := stream.Read(make([]byte, 1))
		broken <- err
	})
	s.dial().Close()
	if err := <-broken; err == nil || err == io.EOF {
		t.Errorf("a client that left: %v", err)
	}
}

// Whoever does not read is waited for, with little held, and alone.
func TestASlowReaderHoldsUpOnlyItself(t *testing.T) {
	s := newStation(t)
	var mu sync.Mutex
	said := 0
	s.agent(s.server.URL, func(id string, stream *yamux.Stream) {
		accept(stream)
		for piece := make([]byte, 16<<10); ; {
			n, err := stream.Write(piece)
			mu.Lock()
			said += n
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	s.dial() // and never reads
	wait := func() (n int) {
		for {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			was := n
			n = said
			mu.Unlock()
			if n == was && n > 0 {
				return n
			}
		}
	}
	if n := wait(); n > mostWindow+mostWaiting {
		t.Errorf("%d bytes are held for one that does not read", n)
	}
	other := s.dial()
	if _, err := io.ReadFull(other, make([]byte, 8<<20)); err != nil {
		t.Errorf("another stream of the tunnel: %v", err)
	}
}

// A network that takes nothing holds writers up, until the tunnel is given up.
func TestWhatWaitsForTheNetworkIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := websocket.Accept(w, r, nil); err == nil {
			<-t.Context().Done() // and never reads
			_ = ws.CloseNow()
		}
	}))
	defer server.CloseClientConnections()
	ws, _, err := websocket.Dial(t.Context(), server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(ws)
	const most = 64 << 20 // far above what the system's own buffers take
	var total atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for total.Load() < most {
			n, err := w.Write(make([]byte, mostMessage))
			if total.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	for before := int64(-1); before <= 0 || before != total.Load(); time.Sleep(100 * time.Millisecond) {
		before = total.Load()
	}
	if n := total.Load(); n == 0 || n >= most {
		t.Errorf("%d bytes were taken from a writer", n)
	}
	w.Close()
	<-ended
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("a closed wire takes more")
	}
}

func TestATunnelEndsWithItsCredential(t *testing.T) {
	for what, change := range map[string]func(g *gate){
		"removed":      func(g *gate) { clear(g.nodes) },
		"joined again": func(g *gate) { g.nodes = map[string]factory.Node{"other": {ID: "n", CredentialHash: "other"}} },
	} {
		s := newStation(t)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.tunnels.Run(ctx) }()
		session := s.agent(s.server.URL, echo)
		c := s.dial()
		s.set(func() { s.away = true }) // nobody knows: the tunnel stays
		time.Sleep(checkEvery + checkEvery/4)
		if s.open() != 1 {
			t.Fatalf("%s: the tunnel ended because the store was away", what)
		}
		s.set(func() { s.away = false; change(s.gate) })
		select {
		case <-session.CloseChan():
		case <-time.After(10 * time.Second):
			t.Errorf("%s: its tunnel is still open", what)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, yamux.ErrStreamReset) {
			t.Errorf("%s: what it carried ended as if in order: %v", what, err)
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

func TestTheEndOfTheServerEndsItsTunnels(t *testing.T) {
	s := newStation(t)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.tunnels.Run(ctx) }()
	session := s.agent(s.server.URL, echo)
	stop()
	<-ran
	<-session.CloseChan()
	s.eventually("it is forgotten", func() bool { return s.tunnels.count() == 0 })
	ws, _, err := websocket.Dial(t.Context(), s.server.URL+PathTunnel, &websocket.DialOptions{HTTPHeader: opening()})
	if err == nil {
		if _, _, err = ws.Read(t.Context()); err == nil {
			t.Error("a server that ends took a tunnel")
		}
	}
}

func TestAnAgentOpensNoStreams(t *testing.T) {
	s := newStation(t)
	session := s.agent(s.server.URL, echo)
	stream, err := session.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, yamux.ErrStreamReset) {
		t.Errorf("the server took a stream of an agent: %v", err)
	}
	if _, err := io.WriteString(s.dial(), "x"); err != nil {
		t.Errorf("the tunnel ended with it: %v", err)
	}
}

func TestOnlySoManyTunnelsOfAMachineStayOpen(t *testing.T) {
	s := newStation(t)
	first := s.agent(s.server.URL, echo)
	for range mostTunnels - 1 {
		s.agent(s.server.URL, echo)
	}
	ws, _, err := websocket.Dial(t.Context(), s.server.URL+PathTunnel, &websocket.DialOptions{HTTPHeader: opening()})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	<-first.CloseChan()
	s.eventually("the oldest is forgotten", func() bool { return s.open() == mostTunnels })
}

// The network under one of two tunnels goes without a word: a request goes through
// the other, and what ran through the first is told that it is lost.
func TestATunnelThatWentSilentIsGivenUp(t *testing.T) {
	s := newStation(t)
	network := agenttest.NewNetwork(t, s.server.URL)
	s.agent(network.URL, echo)
	lost := s.dial()
	s.agent(s.server.URL, echo)
	network.Swallow()
	for range 3 { // the third finds both with as much to carry, and then the silent one with less
		c := s.dial()
		_, _ = io.WriteString(c, "hello")
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Error(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := lost.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || err == io.EOF {
			t.Errorf("what was lost ended as if in order: %v", err)
		}
	case <-time.After(factoryAsks + answersWithin + 5*time.Second):
		t.Error("nobody noticed that the tunnel is broken")
	}
	s.eventually("only the other tunnel is left", func() bool { return s.open() == 1 })
}

func TestOnlyANodesOwnTunnelIsAnAddressOfItsReplicas(t *testing.T) {
	in, f := desk()
	for address, good := range map[string]bool{
		"tunnel://n/r":           true,
		"tunnel://n/r/base":      true,
		"tunnel://other/r":       false,
		"tunnel://n/another":     false,
		"tunnel://n/r2":          false,
		"tunnel://n":             false,
		"tunnel://n/r?x=y":       false,
		"tunnel://u:p@n/r":       false,
		"tunnel:n/r":             false,
		"http://192.0.2.96:8000": true,
	} {
		rep := aReport()
		rep.Address = ""
		rep.Replicas = []factory.ReplicaStatus{{ID: "r", Revision: 1, State: factory.Ready, URL: address}}
		if status, body := send(t, in, PathReport, credential, rep); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if kept := f.reports[len(f.reports)-1].Replicas[0].URL; (kept != "") != good {
			t.Errorf("%s is kept as %q", address, kept)
		}
	}
	for base, want := range map[string]string{
		"http://127.0.0.1:8000": "tunnel://n/r", "http://127.0.0.1:8000/": "tunnel://n/r", "https://10.0.0.7/llm": "tunnel://n/r/llm",
	} {
		if got := TunnelURL("n", "r", base); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

func TestAMachineWithoutAnAddressMayJoin(t *testing.T) {
	in, f := desk()
	j := aJoin()
	j.Address = ""
	if status, body := send(t, in, PathJoin, "", j); status != http.StatusOK || f.redeemed.Address != "" {
		t.Errorf("%d %s", status, body)
	}
}

func TestAnAgentIsToldWhereItIsSeenFrom(t *testing.T) {
	for _, c := range []struct {
		remote, forwarded, want string
	}{
		{"198.51.100.7:4711", "", "198.51.100.7"},
		{"[::ffff:198.51.100.7]:4711", "", "198.51.100.7"},
		{"[fe80::1%eth0]:4711", "", "fe80::1"},
		{"127.0.0.1:4711", "203.0.113.1, 198.51.100.7", "198.51.100.7"},
		{"127.0.0.1:4711", "unknown", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, PathReport, nil)
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := seenFrom(r); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.remote, c.forwarded, got, c.want)
		}
	}
}
