package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/libp2p/go-yamux/v5"

	"tokenfactory/agents"
	"tokenfactory/factory"
)

const (
	// tunnelsKept is how many tunnels are open at once: while one that broke is being
	// replaced, requests go through the other.
	tunnelsKept = 2
	// shakenWithin bounds the opening of a tunnel.
	shakenWithin = 15 * time.Second
	// settledAfter is how long a tunnel must have held for the next one to be tried soon.
	settledAfter = 10 * time.Second
)

// carrier keeps this machine's tunnels to the server open, and connects what comes
// through them to engines.
type carrier struct {
	server  string
	engines localEngines
	log     *slog.Logger

	mu         sync.Mutex
	credential string
	spread     time.Duration
	changed    chan struct{} // closed when the credential has changed
}

func newCarrier(server string, at func(replicaID string) (base string, ok bool), log *slog.Logger) *carrier {
	return &carrier{server: strings.TrimRight(server, "/"), engines: localEngines{at: at}, log: log, changed: make(chan struct{})}
}

// admit tells under which credential the server takes reports from this machine, or
// with none that it takes none. Only then is a tunnel any use: a copy of this
// machine's disk must not be sent its requests.
func (c *carrier) admit(credential string, spread time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spread > 0 {
		c.spread = spread
	}
	if c.credential != credential {
		c.credential = credential
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *carrier) admission() (credential string, spread time.Duration, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.credential, c.spread, c.changed
}

// Run keeps the tunnels open until ctx ends.
func (c *carrier) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range tunnelsKept {
		all.Go(func() { c.keep(ctx) })
	}
	all.Wait()
	return nil
}

// keep has one tunnel open, again and again.
func (c *carrier) keep(ctx context.Context) {
	retry := newBackoff()
	for ctx.Err() == nil {
		credential, spread, changed := c.admission()
		if credential == "" {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		retry.spread(spread)
		began := time.Now()
		err := c.hold(ctx, credential, changed)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > settledAfter {
			retry.reset()
		}
		if slow(err) {
			retry.slow()
		}
		c.log.Warn("a tunnel to the server is not open; trying again", "server", c.server, "err", reason(err))
		again := time.NewTimer(retry.next())
		select {
		case <-ctx.Done():
		case <-changed: // what was wrong with the old credential is over
			retry.reset()
		case <-again.C:
		}
		again.Stop()
	}
}

var errAnotherCredential = errors.New("the machine has another credential now")

// hold opens a tunnel and serves what comes through it until it breaks.
func (c *carrier) hold(ctx context.Context, credential string, changed <-chan struct{}) error {
	ws, err := c.open(ctx, credential)
	if err != nil {
		return err
	}
	session, err := agents.ServeTunnel(ws)
	if err != nil {
		_ = ws.CloseNow()
		return err
	}
	defer session.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
		case <-changed:
		case <-ended:
			return
		}
		_ = session.Close()
	}()
	c.log.Info("a tunnel to the server is open", "server", c.server)
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			select {
			case <-changed:
				return errAnotherCredential
			default:
				return err
			}
		}
		go c.serve(ctx, stream)
	}
}

// open makes the connection.
func (c *carrier) open(ctx context.Context, credential string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, shakenWithin)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, c.server+agents.PathTunnel, &websocket.DialOptions{
		HTTPHeader: http.Header{
			"Authorization":       {"Bearer " + credential},
			agents.HeaderProtocol: {strconv.Itoa(agents.Protocol)},
		},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return ws, nil
	}
	if resp == nil {
		return nil, err
	}
	defer resp.Body.Close()
	// What websocket.Dial leaves of the answer is enough for a refusal.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	var p agents.Problem
	if json.Unmarshal(text, &p) == nil && p.Message != "" {
		return nil, &factory.Error{Kind: p.Kind, Message: p.Message}
	}
	return nil, fmt.Errorf("%s answered %s to a WebSocket; does a proxy before it let WebSockets through?", c.server, resp.Status)
}

// serve connects one stream to its engine.
func (c *carrier) serve(ctx context.Context, stream *yamux.Stream) {
	defer stream.Reset() // nothing happens to a stream that has ended in order
	_ = stream.SetDeadline(time.Now().Add(openingWithin))
	id, err := agents.ReadOpening(stream)
	if err != nil {
		return
	}
	engine, err := c.engines.dial(ctx, id)
	if err != nil {
		c.log.Warn("a request could not be carried to its engine", "replica", id, "err", err)
		if agents.WriteVerdict(stream, err.Error()) == nil {
			_ = stream.Close()
		}
		return
	}
	defer engine.Close()
	if agents.WriteVerdict(stream, "") != nil {
		return
	}
	_ = stream.SetDeadline(time.Time{})
	join(stream, engine)
}
