package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
)

func openTestSpool(t *testing.T, dir string, most int64) *spool {
	t.Helper()
	s, err := openSpool(dir, most, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill() })
	return s
}

// kill drops a spool as SIGKILL does: nothing is written any more.
func (s *spool) kill() {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments, s.memory, s.waiting, s.batch = nil, nil, 0, batch{}
	if s.open != nil {
		s.open.Close()
		s.open = nil
	}
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

func usageRow(i int) factory.Usage {
	return factory.Usage{ID: fmt.Sprintf("r%06d", i), TenantID: "t", PromptTokens: 10, CompletionTokens: 5, StartedAt: time.Unix(1_800_000_000, 123000).UTC()}
}

func TestWhatWasSpooledSurvivesAKillOnce(t *testing.T) {
	dir := t.TempDir()
	w := &world{}
	rng := rand.New(rand.NewPCG(3, 4))
	n := 0
	for round := range 20 {
		s := openTestSpool(t, dir, 1<<30)
		for range rng.IntN(400) {
			s.append(usageRow(n))
			n++
			if rng.IntN(97) == 0 {
				if err := s.drain(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.kill()
		// A row that was cut short while it was written: its client never saw the end.
		if files, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)); round%2 == 0 && len(files) > 0 {
			line, err := encodeRow(factory.Usage{ID: "torn"})
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.Write(line[:rng.IntN(len(line))])
			f.Close()
		}
	}
	s := openTestSpool(t, dir, 1<<30)
	if err := s.drain(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if len(w.rows) != n {
		t.Errorf("%d rows in the ledger, want %d", len(w.rows), n)
	}
	for _, u := range w.rows {
		var i int
		if _, err := fmt.Sscanf(u.ID, "r%d", &i); err != nil || u != usageRow(i) {
			t.Fatalf("row came back as %+v", u)
		}
	}
	if st := s.state(); st.Waiting != 0 || st.SetAside != 0 || st.Problem != "" {
		t.Errorf("state %+v", st)
	}
}

func TestEveryCutOfTheLastRowIsRecognised(t *testing.T) {
	line, err := encodeRow(usageRow(1))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range line {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "0000000000000001"+segmentSuffix), append(bytes.Clone(line), line[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		s, w := openTestSpool(t, dir, 1<<30), &world{}
		if err := s.drain(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if len(w.rows) != 1 || s.state().SetAside != 0 {
			t.Fatalf("cut at %d: %d rows, %+v", cut, len(w.rows), s.state())
		}
		s.kill()
	}
}

func TestADamagedRowIsSetAsideAndHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	s, w := openTestSpool(t, dir, 1<<30), &world{}
	for i := range 3 {
		s.append(usageRow(i))
	}
	s.kill()
	path := filepath.Join(dir, "0000000000000001"+segmentSuffix)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("r000001"))
	b[at] = 'X'
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openTestSpool(t, dir, 1<<30)
	if err := s.drain(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	aside, err := os.ReadFile(filepath.Join(dir, setAsideName))
	if err != nil || len(w.rows) != 2 || !strings.Contains(string(aside), "X000001") {
		t.Errorf("%d rows, aside %s, %v", len(w.rows), aside, err)
	}
	s.kill()
	if s = openTestSpool(t, dir, 1<<30); s.state().SetAside != 1 {
		t.Errorf("after a restart nobody knows of it: %+v", s.state())
	}
}

func TestRowsTheLedgerNeverTakesAreSetAside(t *testing.T) {
	for name, refusal := range map[string]error{
		"because they are invalid": factory.Errorf(factory.Invalid, "The row is refused."),
		"for reasons of its own":   errors.New("constraint failed"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, w := openTestSpool(t, dir, 1<<30), &world{}
			poison := map[string]bool{usageRow(7).ID: true, usageRow(641).ID: true, usageRow(642).ID: true}
			w.refuse = func(rows []factory.Usage) error {
				for _, u := range rows {
					if poison[u.ID] {
						return refusal
					}
				}
				return nil
			}
			for i := range 1000 {
				s.append(usageRow(i))
			}
			more := 1000
			for range 200 {
				if s.drain(t.Context(), w) == nil && s.state().SetAside == 3 {
					break
				}
				// Traffic goes on, which shows that the ledger works.
				s.append(usageRow(more))
				more++
			}
			if err := s.drain(t.Context(), w); err != nil || len(w.rows) != more-3 || s.state().SetAside != 3 || s.state().Waiting != 0 {
				t.Errorf("%v, %d of %d rows, %+v", err, len(w.rows), more, s.state())
			}
			aside, err := os.ReadFile(filepath.Join(dir, setAsideName))
			if err != nil {
				t.Fatal(err)
			}
			for id := range poison {
				if strings.Count(string(aside), id) != 1 {
					t.Errorf("%s is not set aside once", id)
				}
			}
		})
	}
}

func TestAnOutageSetsNothingAside(t *testing.T) {
	s, w := openTestSpool(t, t.TempDir(), 1<<30), &world{away: true}
	for i := range 100 {
		s.append(usageRow(i))
	}
	for range 30 {
		if s.drain(t.Context(), w) == nil {
			t.Fatal("drained into nothing")
		}
	}
	if st := s.state(); st.Waiting != 100 || st.SetAside != 0 || st.Problem == "" {
		t.Errorf("state %+v", st)
	}
	w.set(func(w *world) { w.away = false })
	if err := s.drain(t.Context(), w); err != nil || len(w.rows) != 100 {
		t.Errorf("%v, %d rows", err, len(w.rows))
	}
}

func TestFilesGoWhenTheLedgerHasThem(t *testing.T) {
	dir := t.TempDir()
	s, w := openTestSpool(t, dir, 1<<30), &world{}
	n := 0
	for range 6 {
		for range 5000 {
			s.append(usageRow(n))
			n++
		}
	}
	files := func() int {
		f, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return len(f)
	}
	if files() < 2 {
		t.Fatalf("%d files for %d rows", files(), n)
	}
	ledger := &counted{}
	if err := s.drain(t.Context(), ledger); err != nil || ledger.n != n {
		t.Fatal(err, ledger.n)
	}
	if files() != 0 || s.state().Bytes != 0 {
		t.Errorf("%d files, %+v", files(), s.state())
	}
	_ = w
}

type counted struct{ n int }

func (c *counted) AppendUsage(_ context.Context, rows []factory.Usage) error {
	c.n += len(rows)
	return nil
}

func TestAFullSpoolRefusesInsteadOfServingUnmetered(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL}, func(b *bench) { b.g.SpoolMax = 1000 })
	b.chat(plainly)
	b.row(1)
	b.set(func(w *world) { w.away = true })
	served := 1
	for range 20 {
		r := b.chat(plainly)
		if r.status == 200 {
			served++
		} else if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "usage_spool_full") {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if st := b.g.SpoolState(); !st.Full || served == 21 || len(e.seen()) != served {
		t.Errorf("%d served, %d upstream calls, %+v", served, len(e.seen()), st)
	}
	b.set(func(w *world) { w.away = false })
	b.until("requests are served again", func() bool { return b.chat(plainly).status == 200 })
	b.row(served + 1)
}

func TestADiskThatTakesNothingLosesNothing(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	b.row(1)
	b.set(func(w *world) { w.away = true })
	// The folder is gone, and with it the way to begin a new file.
	b.g.spool.mu.Lock()
	b.g.spool.closeLocked()
	good := b.g.spool.dir
	b.g.spool.dir = filepath.Join(good, "not-there")
	b.g.spool.mu.Unlock()
	if r := b.chat(plainly); r.status != 200 {
		t.Fatalf("the request during which it happened got %d", r.status)
	}
	if st := b.g.SpoolState(); st.InMemory != 1 || !st.Full || st.Problem == "" {
		t.Errorf("state %+v", st)
	}
	if r := b.chat(plainly); r.status != 503 || len(e.seen()) != 2 {
		t.Errorf("the next one got %d, %d upstream calls", r.status, len(e.seen()))
	}
	b.g.spool.mu.Lock()
	b.g.spool.dir = good
	b.g.spool.mu.Unlock()
	b.set(func(w *world) { w.away = false })
	b.row(2)
	b.until("requests are served again", func() bool { return b.chat(plainly).status == 200 })
}

func TestAFileThatSomebodyDeletedIsReportedAndHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir, 1<<30)
	s.append(usageRow(1))
	s.append(usageRow(2))
	s.kill()
	s, w := openTestSpool(t, dir, 1<<30), &world{}
	if err := os.Remove(filepath.Join(dir, "0000000000000001"+segmentSuffix)); err != nil {
		t.Fatal(err)
	}
	s.append(usageRow(3))
	if err := s.drain(t.Context(), w); err != nil || len(w.rows) != 1 || s.state().Lost != 2 || s.state().Waiting != 0 {
		t.Errorf("%v, %d rows, %+v", err, len(w.rows), s.state())
	}
}

func TestASpoolHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir, 1<<30)
	if _, err := openSpool(dir, 1<<30, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second owner got %v", err)
	}
	s.kill()
	openTestSpool(t, dir, 1<<30)
}

func TestNothingIsLostWhileRowsComeAndGo(t *testing.T) {
	s, ledger := openTestSpool(t, t.TempDir(), 1<<30), &world{}
	ctx, cancel := context.WithCancel(t.Context())
	var loop, writers sync.WaitGroup
	loop.Go(func() { s.run(ctx, ledger) })
	for g := range 4 {
		writers.Go(func() {
			for i := range 500 {
				s.append(usageRow(g*500 + i))
			}
		})
	}
	writers.Wait()
	cancel()
	loop.Wait()
	if err := s.drain(t.Context(), ledger); err != nil || len(ledger.rows) != 2000 {
		t.Errorf("%v, %d rows", err, len(ledger.rows))
	}
}
