package gateway

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
)

// Tunnels reaches engines on machines that have no address of their own.
type Tunnels interface {
	// DialReplica connects to a replica's engine. Its errors are those of a dialler: no
	// request has been seen by anybody.
	DialReplica(ctx context.Context, nodeID, replicaID string) (net.Conn, error)
}

// A replica's address that leads through its agent's tunnel is
// tunnel://<node>/<replica>. Inside, it becomes a host of the reserved name below,
// so that such a replica is requested, pooled and probed like any other, and only
// the dialler knows.
const (
	schemeTunnel = "tunnel"
	tunnelDomain = ".tunnel.internal"
)

// engineURL is a replica's address as the transport takes it.
func engineURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address does not parse") // err would repeat it
	}
	switch {
	case u.Scheme == schemeTunnel:
		replica, path, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if !label(u.Host) || !label(replica) {
			return nil, errors.New("the address is not tunnel://node/replica")
		}
		return &url.URL{Scheme: "http", Host: replica + "." + u.Host + tunnelDomain, Path: "/" + path}, nil
	case u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, errors.New("the address is not http://host:port")
	case strings.HasSuffix(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), tunnelDomain):
		// Else an agent could have requests for its replica carried to another's machine.
		return nil, errors.New("hosts under " + tunnelDomain[1:] + " are not for addresses")
	}
	return u, nil
}

// label reports whether an id can be part of a host name as it is.
func label(id string) bool {
	return id != "" && len(id) <= 63 && strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}

// dial connects to an engine, directly or through its agent's tunnel.
func (u *upstream) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	name, through := strings.CutSuffix(host, tunnelDomain)
	if err != nil || !through {
		return u.dialer.DialContext(ctx, network, address)
	}
	replica, node, _ := strings.Cut(name, ".")
	if u.tunnels == nil {
		return nil, &net.OpError{Op: "dial", Net: schemeTunnel, Err: errors.New("this gateway has no tunnels")}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return u.tunnels.DialReplica(ctx, node, replica)
}
