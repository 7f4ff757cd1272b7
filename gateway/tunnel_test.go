package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// burrow is tunnels that lead to engines by node/replica.
type burrow struct {
	mu sync.Mutex
	to map[string]string
}

func (b *burrow) DialReplica(ctx context.Context, nodeID, replicaID string) (net.Conn, error) {
	b.mu.Lock()
	address := b.to[nodeID+"/"+replicaID]
	b.mu.Unlock()
	if address == "" {
		return nil, &net.OpError{Op: "dial", Net: "tunnel", Err: errors.New("no tunnel")}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func (b *burrow) lead(replica, engine string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to[replica] = strings.TrimPrefix(engine, "http://")
}

func TestAReplicaBehindATunnelIsLikeAnyOther(t *testing.T) {
	hosts := make(chan string, 2)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		hosts <- r.Host + r.URL.Path
		sse(w, running(1)+done)
	})
	tunnels := &burrow{to: map[string]string{}}
	b := newBench(t, []string{"tunnel://n1/a", "tunnel://n1/b/base/v1"}, func(b *bench) { b.g.Tunnels = tunnels })
	if r := b.chat(streamed); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("without a tunnel: %d %s", r.status, r.body)
	}
	tunnels.lead("n1/b", e.URL)
	b.until("the replica that is reached answers", func() bool { return b.chat(streamed).status == http.StatusOK })
	if host := <-hosts; !strings.HasPrefix(host, "b.n1.tunnel.internal/base/") {
		t.Errorf("the engine is asked as %s", host)
	}
}

func TestWhichAddressesLeadWhere(t *testing.T) {
	for address, want := range map[string]string{
		"http://10.0.0.7:8000":             "http://10.0.0.7:8000",
		"https://llm.example.org/x":        "https://llm.example.org/x",
		"tunnel://n1/r1":                   "http://r1.n1.tunnel.internal/",
		"tunnel://n1/r1/base":              "http://r1.n1.tunnel.internal/base",
		"tunnel://n1/":                     "",
		"tunnel://n1":                      "",
		"tunnel:///r1":                     "",
		"tunnel://n.1/r1":                  "",
		"tunnel://n1/r1.other":             "",
		"tunnel://n1:80/r1":                "",
		"ftp://10.0.0.7":                   "",
		"http://":                          "",
		"http://r2.n2.tunnel.internal":     "",
		"http://R2.N2.Tunnel.Internal.:80": "",
	} {
		u, err := engineURL(address)
		if got := ""; err == nil {
			if got = u.String(); got != want {
				t.Errorf("%s: %s, want %s", address, got, want)
			}
		} else if want != "" {
			t.Errorf("%s: %v", address, err)
		}
	}
}
