package agents

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/libp2p/go-yamux/v5"
)

// A tunnel is a WebSocket that an agent opened, with many streams in it. The
// factory opens the streams, each to one replica of that agent's machine; what
// follows the opening is what would go over a connection to the engine. Of all
// that passes firewalls and proxies on the way out, a WebSocket does best.
const (
	PathTunnel = "/agent/v1/tunnel"
	// HeaderProtocol carries Protocol, as the reports do in their body.
	HeaderProtocol = "Tokenfactory-Agent-Protocol"
)

// SchemeTunnel is the scheme of the address of a replica that is reached through
// its agent's tunnel: tunnel://<node id>/<replica id>, and a path when the engine
// has one.
const SchemeTunnel = "tunnel"

// TunnelURL is the address of a replica whose engine its agent reaches at base.
func TunnelURL(nodeID, replicaID, base string) string {
	path := ""
	if u, err := url.Parse(base); err == nil {
		path = strings.TrimSuffix(u.Path, "/")
	}
	return (&url.URL{Scheme: SchemeTunnel, Host: nodeID, Path: "/" + replicaID + path}).String()
}

// ownTunnel reports whether an address leads through a node's own tunnel to the
// replica itself: no agent may send clients to the machine of another.
func ownTunnel(u *url.URL, nodeID, replicaID string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	return u.Scheme == SchemeTunnel && u.Host == nodeID && first == replicaID && u.User == nil && u.RawQuery == ""
}

const (
	// The factory asks first, and often enough that the middleboxes on the way do not
	// forget the connection; the agent asks only when the factory has been silent.
	factoryAsks = 2 * time.Second
	agentAsks   = 5 * time.Second
	// answersWithin is how long an answer may take before the tunnel counts as broken.
	answersWithin = 5 * time.Second
	// mostStreams is at one tunnel; an engine has fewer places by far.
	mostStreams = 4096
	// mostWindow is what one stream may have under way, and thus what is held here of a
	// stream whose client reads slowly. 1 MiB is 20 MB/s over a path of 50 ms.
	mostWindow = 1 << 20
	// mostMessage lets other streams in between when one has much to say.
	mostMessage = 16 << 10
)

func tunnelConfig(asks time.Duration, streams uint32) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = 1024
	c.KeepAliveInterval = asks
	c.ConnectionWriteTimeout = answersWithin
	c.MaxIncomingStreams = streams
	c.MaxStreamWindowSize = mostWindow
	c.MaxMessageSize = mostMessage
	c.ReadBufSize = 16 << 10
	c.LogOutput = io.Discard // why a tunnel ended is in the session's error
	return c
}

// ServeTunnel is the agent's end of a tunnel: it accepts streams.
func ServeTunnel(ws *websocket.Conn) (*yamux.Session, error) {
	return yamux.Server(newWire(ws), tunnelConfig(agentAsks, mostStreams), nil)
}

// A stream begins with the replica's id behind one byte that is its length. The
// agent answers with the length of its refusal and the refusal's text; a length of
// zero means that the engine is connected.

// WriteOpening names the replica that a stream is for.
func WriteOpening(w io.Writer, replicaID string) error {
	if replicaID == "" || len(replicaID) > 255 {
		return fmt.Errorf("no replica has an id of %d bytes", len(replicaID))
	}
	_, err := w.Write(append([]byte{byte(len(replicaID))}, replicaID...))
	return err
}

// ReadOpening reads which replica a stream is for.
func ReadOpening(r io.Reader) (replicaID string, err error) { return readShort(r) }

// WriteVerdict tells that the engine is connected, or with a refusal why not.
func WriteVerdict(w io.Writer, refusal string) error {
	refusal = clip(refusal, 255)
	_, err := w.Write(append([]byte{byte(len(refusal))}, refusal...))
	return err
}

// readVerdict is nil when the engine is connected.
func readVerdict(r io.Reader) error {
	refusal, err := readShort(r)
	switch {
	case err != nil:
		return err
	case refusal != "":
		return refusedThere{errors.New(clip(refusal, 255))}
	}
	return nil
}

// refusedThere is the agent's own word: the tunnel is well.
type refusedThere struct{ error }

func readShort(r io.Reader) (string, error) {
	var b [256]byte
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return "", err
	}
	text := b[1 : 1+int(b[0])]
	_, err := io.ReadFull(r, text)
	return string(text), err
}
