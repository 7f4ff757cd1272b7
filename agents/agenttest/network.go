package agenttest

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Network is a way to a server that can fail in the ways that networks do.
type Network struct {
	URL string // where the server is reached over it
	to  string

	mu      sync.Mutex
	black   bool
	cut     bool
	through []net.Conn
}

// NewNetwork leads to a server's http:// address.
func NewNetwork(t *testing.T, to string) *Network {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &Network{URL: "http://" + ln.Addr().String(), to: strings.TrimPrefix(to, "http://")}
	t.Cleanup(func() {
		ln.Close()
		n.Cut()
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n.carry(c)
		}
	}()
	return n
}

func (n *Network) carry(near net.Conn) {
	far, err := net.Dial("tcp", n.to)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || n.cut {
		near.Close()
		if far != nil {
			far.Close()
		}
		return
	}
	n.through = append(n.through, near, far)
	go n.pipe(near, far)
	go n.pipe(far, near)
}

func (n *Network) pipe(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		read, err := from.Read(buf)
		n.mu.Lock()
		black := n.black
		n.mu.Unlock()
		switch {
		case err != nil && black:
			return
		case err != nil:
			to.Close()
			return
		case !black:
			_, _ = to.Write(buf[:read])
		}
	}
}

// Swallow has everything disappear on the way from now on, ends of connections too.
func (n *Network) Swallow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.black = true
}

// Cut breaks every connection and lets no other come about until Mend.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for _, c := range n.through {
		c.Close()
	}
	n.through = nil
}

// Mend ends what Cut began.
func (n *Network) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = false
}
