package node

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tokenfactory/agents"
)

// doorman takes tunnels and tells under which credentials they came.
type doorman struct {
	*httptest.Server
	came  chan string
	ended chan string
}

func newDoorman(t *testing.T) *doorman {
	d := &doorman{came: make(chan string, 16), ended: make(chan string, 16)}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credential := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		d.came <- credential
		if credential == "revoked" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind":"unauthenticated","message":"Join again."}`))
			return
		}
		if r.URL.Path != agents.PathTunnel {
			t.Errorf("a tunnel to %s", r.URL.Path)
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, _, _ = ws.Read(context.Background())
		d.ended <- credential
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *doorman) expect(t *testing.T, from chan string, want string, times int) {
	t.Helper()
	for range times {
		select {
		case got := <-from:
			if got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s never", want)
		}
	}
}

func TestATunnelIsOpenUnderTheCredentialThatReportsAreTakenUnder(t *testing.T) {
	d := newDoorman(t)
	c := newCarrier(d.URL+"/", func(string) (string, bool) { return "", false }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = c.Run(ctx) })
	defer loop.Wait()
	defer stop()
	select {
	case <-d.came:
		t.Fatal("a machine whose reports were not taken opened a tunnel")
	case <-time.After(100 * time.Millisecond):
	}
	c.admit("first", time.Second)
	d.expect(t, d.came, "first", tunnelsKept)
	c.admit("first", time.Second) // the next report
	c.admit("revoked", time.Minute)
	d.expect(t, d.ended, "first", tunnelsKept)
	d.expect(t, d.came, "revoked", tunnelsKept)
	c.admit("second", time.Minute) // at once, whatever pause the refusals are worth
	d.expect(t, d.came, "second", tunnelsKept)
	stop()
	d.expect(t, d.ended, "second", tunnelsKept)
}
