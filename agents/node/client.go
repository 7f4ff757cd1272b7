package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"tokenfactory/agents"
	"tokenfactory/factory"
)

// client speaks to the server. One connection is kept and used for everything.
type client struct {
	base string
	http http.Client
	// spread is over how long to spread a new connection after one was lost: all
	// agents lose theirs in the same moment.
	spread atomic.Int64 // nanoseconds
	// paced is set after a pause of the back-off, which is spread already.
	paced atomic.Bool
}

func (c *client) open(server string) {
	c.base = strings.TrimRight(server, "/")
	c.spread.Store(int64(firstPause))
	dialer := net.Dialer{Timeout: 10 * time.Second}
	var connected atomic.Bool
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxConnsPerHost = 1
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() && !c.paced.Load() {
			if !pause(ctx, time.Duration(rand.N(c.spread.Load())+1)) {
				return nil, ctx.Err()
			}
		}
		connected.Store(true)
		return dialer.DialContext(ctx, network, address)
	}
	c.http.Transport = t
}

// answerWithin bounds one exchange: a server that takes longer is as good as away.
const answerWithin = 15 * time.Second

func (c *client) post(ctx context.Context, path, credential string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin+time.Duration(c.spread.Load()))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var p agents.Problem
		if json.Unmarshal(answer, &p) != nil || p.Message == "" {
			return fmt.Errorf("%s answered %s; is this the address of a factory?", c.base, resp.Status)
		}
		return &factory.Error{Kind: p.Kind, Message: p.Message}
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("understand the answer of %s: %w", c.base, err)
	}
	return nil
}

// reason is what to log of a failure.
func reason(err error) string {
	var e *factory.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// slow reports whether only a person can help, so that asking often is no use.
func slow(err error) bool {
	switch factory.KindOf(err) {
	case factory.Unauthenticated, factory.Incompatible, factory.Conflict, factory.Forbidden, factory.Invalid:
		return true
	}
	return false
}

// localAddress is the address of this machine on the way to the server.
func localAddress(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}
