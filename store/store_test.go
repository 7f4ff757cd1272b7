package store_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestTheDatabaseFileIsOursAlone(t *testing.T) {
	// A name with every character that means something in an address.
	path := filepath.Join(t.TempDir(), "a ?&#%20 file.db")
	s := must[*store.Store](t)(store.Open(t.Context(), "sqlite:"+path))
	ok(t, s.SaveSetting(t.Context(), "a", "1"))
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	ok(t, s.Close())
	s = must[*store.Store](t)(store.Open(t.Context(), "sqlite:"+path))
	if v := must[string](t)(s.Setting(t.Context(), "a")); v != "1" {
		t.Errorf("read %q", v)
	}
	ok(t, s.Close())
}

func TestSeveralProcessesMayStartAtOnce(t *testing.T) {
	several := func(t *testing.T, address string) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				s, err := store.Open(t.Context(), address)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				defer s.Close()
				if err := s.SaveSetting(t.Context(), fmt.Sprint(i), "x"); err != nil {
					t.Errorf("write: %v", err)
				}
			})
		}
		wg.Wait()
	}
	t.Run("sqlite", func(t *testing.T) { several(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db")) })
	t.Run("postgres", func(t *testing.T) { several(t, storetest.PostgresURL(t)) })
}

func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	s := storetest.Open(t)
	ctx := t.Context()
	ok(t, s.SaveSetting(ctx, "a", "old"))
	ok(t, s.InTx(ctx, func(tx *store.Store) error {
		ok(t, tx.SaveSetting(ctx, "a", "new"))
		if v := must[string](t)(s.Setting(ctx, "a")); v != "old" {
			t.Errorf("outside, before the commit: %q", v)
		}
		return nil
	}))
	if v := must[string](t)(s.Setting(ctx, "a")); v != "new" {
		t.Errorf("after the commit: %q", v)
	}
}

func TestAnAwayDatabaseIsUnavailableAndComesBack(t *testing.T) {
	address, err := url.Parse(storetest.PostgresURL(t))
	ok(t, err)
	gate := newGate(t, address.Host)
	address.Host = gate.listener.Addr().String()
	s := must[*store.Store](t)(store.Open(t.Context(), address.String()))
	t.Cleanup(func() { _ = s.Close() })
	ok(t, s.SaveSetting(t.Context(), "a", "1"))
	gate.set(false)
	wantKind(t, s.SaveSetting(t.Context(), "a", "2"), factory.Unavailable)
	wantKind(t, second(s.AllClusters(t.Context())), factory.Unavailable)
	wantKind(t, s.InTx(t.Context(), func(*store.Store) error { return nil }), factory.Unavailable)
	wantKind(t, s.AppendUsage(t.Context(), []factory.Usage{request("r1", start, 1, 1)}), factory.Unavailable)
	gate.set(true)
	// Connections that broke unnoticed may still be in the pool.
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := s.AppendUsage(t.Context(), []factory.Usage{request("r1", start, 1, 1)})
		if err == nil {
			break
		}
		if factory.KindOf(err) != factory.Unavailable || time.Now().After(deadline) {
			t.Fatalf("still away: %v", err)
		}
	}
	if v := must[string](t)(s.Setting(t.Context(), "a")); v != "1" {
		t.Errorf("read %q", v)
	}
}

// gate passes connections on while it is open, and cuts them when it closes.
type gate struct {
	listener net.Listener
	mu       sync.Mutex
	open     bool
	conns    []net.Conn
}

func newGate(t *testing.T, to string) *gate {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	g := &gate{listener: l, open: true}
	t.Cleanup(func() { _ = l.Close(); g.set(false) })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			g.mu.Lock()
			if g.open {
				g.conns = append(g.conns, in, out)
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
			} else {
				_, _ = in.Close(), out.Close()
			}
			g.mu.Unlock()
		}
	}()
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	if !open {
		for _, c := range g.conns {
			_ = c.Close()
		}
		g.conns = nil
	}
}
