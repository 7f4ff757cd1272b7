package agents

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/libp2p/go-yamux/v5"

	"tokenfactory/factory"
)

// Admissions is what the tunnels need of the store.
type Admissions interface {
	NodeByCredential(ctx context.Context, hash string) (factory.Node, error)
	// NodeCredentials lists the hash of every machine's credential by the machine's id.
	NodeCredentials(ctx context.Context) (map[string]string, error)
}

const (
	// checkEvery is how often open tunnels are held against the credentials that are
	// good still: revocation works within two seconds.
	checkEvery = time.Second
	// mostTunnels is how many tunnels one machine may have: those that an agent keeps,
	// and as many again while it replaces them.
	mostTunnels = 4
	// openWithin is how long it may take until an engine is connected. While there is
	// another tunnel to try, each gets half.
	openWithin = 2 * time.Second
)

// Tunnels are the ways to machines that have no address of their own. The intake
// hands new ones over; the gateway dials through them.
type Tunnels struct {
	Fleet Admissions
	Log   *slog.Logger

	mu     sync.Mutex
	of     map[string][]*tunnel // by node; the newest last
	closed bool
}

// tunnel is one connection that an agent opened.
type tunnel struct {
	node    factory.Node
	session *yamux.Session
	wire    *wire
	// doubted is when an answer stayed away, in Unix nanoseconds; a sound clears it.
	doubted atomic.Int64
}

// doubtful reports whether a tunnel has not made a sound since an answer stayed away.
func (tun *tunnel) doubtful() bool {
	at := tun.doubted.Load()
	return at > 0 && tun.wire.silentSince(time.Unix(0, at))
}

// Run closes the tunnels of machines that were removed or joined anew, until ctx
// ends; then it closes all.
func (t *Tunnels) Run(ctx context.Context) error {
	defer t.close()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := t.check(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			t.Log.Warn("the credentials of tunnels could not be checked; they stay open", "err", err)
		}
		failing = err != nil
	}
}

func (t *Tunnels) check(ctx context.Context) error {
	if t.count() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	good, err := t.Fleet.NodeCredentials(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	var ended []*tunnel
	for id, all := range t.of {
		for _, tun := range all {
			if good[id] != tun.node.CredentialHash {
				ended = append(ended, tun)
			}
		}
	}
	t.mu.Unlock()
	for _, tun := range ended {
		t.Log.Warn("a tunnel is closed: its machine's credential is not good any more", "node", tun.node.Name)
		tun.end()
	}
	return nil
}

func (t *Tunnels) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of)
}

func (t *Tunnels) close() {
	t.mu.Lock()
	t.closed = true
	var all []*tunnel
	for _, of := range t.of {
		all = append(all, of...)
	}
	t.mu.Unlock()
	for _, tun := range all {
		tun.end()
	}
}

// end cuts a tunnel and all that runs through it.
func (tun *tunnel) end() {
	// The wire first: the session would wait for what it is writing.
	_ = tun.wire.Close()
	_ = tun.session.Close()
}

// add takes a new tunnel of a node into use.
func (t *Tunnels) add(ws *websocket.Conn, n factory.Node) error {
	w := newWire(ws)
	// The agent opens no streams: its place is to answer.
	session, err := yamux.Client(w, tunnelConfig(factoryAsks, 0), nil)
	if err != nil {
		_ = w.Close()
		return err
	}
	tun := &tunnel{node: n, session: session, wire: w}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		tun.end()
		return nil
	}
	if t.of == nil {
		t.of = map[string][]*tunnel{}
	}
	all := append(t.of[n.ID], tun)
	t.of[n.ID] = all
	var oldest *tunnel
	if len(all) > mostTunnels {
		oldest = all[0]
	}
	t.mu.Unlock()
	if oldest != nil {
		t.Log.Warn("a machine has too many tunnels; the oldest is closed", "node", n.Name)
		oldest.end()
	}
	t.Log.Info("a tunnel is open", "node", n.Name, "cluster", n.ClusterName)
	go t.watch(tun)
	return nil
}

// watch forgets a tunnel when it has ended.
func (t *Tunnels) watch(tun *tunnel) {
	<-tun.session.CloseChan()
	id := tun.node.ID
	t.mu.Lock()
	rest := slices.DeleteFunc(t.of[id], func(o *tunnel) bool { return o == tun })
	if t.of[id] = rest; len(rest) == 0 {
		delete(t.of, id)
	}
	t.mu.Unlock()
	t.Log.Info("a tunnel has ended", "node", tun.node.Name, "cluster", tun.node.ClusterName, "left", len(rest))
}

// choose lists a node's tunnels, the best first: the one with the least to carry,
// and of equals the newest. One that has died unnoticed carries on with what it
// had, so that a new one beside it is preferred.
func (t *Tunnels) choose(nodeID string) []*tunnel {
	t.mu.Lock()
	all := slices.Clone(t.of[nodeID])
	t.mu.Unlock()
	slices.Reverse(all)
	if len(all) > 1 {
		load := make(map[*tunnel]int, len(all))
		for _, tun := range all {
			load[tun] = tun.session.NumStreams()
			if tun.doubtful() {
				load[tun] += mostStreams
			}
		}
		slices.SortStableFunc(all, func(a, b *tunnel) int { return cmp.Compare(load[a], load[b]) })
	}
	return all
}

var errNoTunnel = errors.New("its agent has no tunnel open")

// DialReplica connects to the engine of a replica through its agent's tunnel. An
// error is one of dialling: nothing has reached the engine.
func (t *Tunnels) DialReplica(ctx context.Context, nodeID, replicaID string) (net.Conn, error) {
	err := errNoTunnel
	all := t.choose(nodeID)
	for i, tun := range all {
		within := openWithin
		if i < len(all)-1 {
			within /= 2
		}
		var conn net.Conn
		if conn, err = tun.dial(ctx, replicaID, within); err == nil {
			return conn, nil
		}
		var there refusedThere
		if errors.As(err, &there) || ctx.Err() != nil {
			break // the tunnel is not to blame
		}
	}
	return nil, &net.OpError{Op: "dial", Net: SchemeTunnel, Addr: tunnelAddr(nodeID + "/" + replicaID), Err: err}
}

// dial opens a stream to a replica's engine.
func (tun *tunnel) dial(ctx context.Context, replicaID string, within time.Duration) (net.Conn, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stream, err := tun.session.OpenStream(ctx)
	if err == nil {
		unhook := context.AfterFunc(ctx, func() { _ = stream.Reset() })
		if err = WriteOpening(stream, replicaID); err == nil {
			err = readVerdict(stream)
		}
		if !unhook() && err == nil {
			err = ctx.Err()
		}
		if err == nil {
			return engineConn{stream}, nil
		}
		_ = stream.Reset()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
		// Not a sound while an answer was due. Others are tried first from now on; what it
		// carries may only be held up, and the keep-alive says when it is lost.
		if time.Since(began) >= within && tun.wire.silentSince(began) {
			tun.doubted.Store(time.Now().UnixNano())
		}
	}
	return nil, err
}

// engineConn is a connection to an engine through a tunnel. Closing it ends it both
// ways at once, so that an engine whose client has left stops working.
type engineConn struct{ *yamux.Stream }

func (c engineConn) Close() error { return c.Reset() }
