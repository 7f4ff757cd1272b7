package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A minute without the database costs no request and no row. First it says nothing,
// as a machine does that froze or a cable that was pulled, then it refuses.
func TestDatabaseAwayForAMinuteUnderLoad(t *testing.T) {
	t.Parallel()
	const away, clients = time.Minute, 4
	way, database := newPath(t, newDatabase(t))
	h, _, _ := serving(t, database)
	l := h.load(clients, secret(t, h.apply(limitedKeys), "key", "limited", "key"), 100*time.Millisecond)
	flows := func(when string) {
		t.Helper()
		before := l.answers()
		h.wait("requests are answered "+when, func() bool { return l.answers() >= before+20 })
	}
	flows("before")

	began := time.Now()
	way.hold()
	flows("while the database says nothing")
	time.Sleep(time.Until(began.Add(away / 2)))
	flows("after half a minute")
	way.cutOff()
	flows("while the database refuses")
	time.Sleep(time.Until(began.Add(away)))
	flows("after a minute")
	way.restore()
	flows("afterwards")
	// The machines could not report for a minute, which is not their fault: their engines
	// stay in use through the moment in which the database is back and they are not.
	time.Sleep(5 * time.Second)
	flows("later")
	l.end()

	rows := l.settled()
	if l.broken > 0 || len(l.refused) > 0 {
		t.Errorf("not every request was answered: %s", l)
	}
	h.wait("the budget's spend is the ledger's", func() bool { return h.spent("limited").Equal(h.costOfKey("limited")) })
	t.Logf("%s; %d ledger rows", l, len(rows))
}

// MB-06: the database stops at second 5 for ten seconds, and the gateway is killed
// meanwhile. A supervisor starts it again until it stays; the usage of what was
// answered while the database was away waits on disk.
func TestMB06OutageAndKillLoseNoUsage(t *testing.T) {
	t.Parallel()
	const requests, every = 200, 100 * time.Millisecond
	server := newDatabaseServer(t)
	engine := newStub(t)
	h, key := watching(t, server.address, "sim", engine)

	var mu sync.Mutex
	answered := map[string]bool{}
	duringOutage := 0
	var wg sync.WaitGroup
	began := time.Now()
	at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
	wg.Go(func() {
		time.Sleep(time.Until(at(5)))
		server.stop()
		time.Sleep(time.Until(at(15)))
		server.start()
	})
	wg.Go(func() {
		time.Sleep(time.Until(at(12)))
		h.serve.kill()
		h.supervise()
	})
	for i := range requests {
		wg.Go(func() {
			time.Sleep(time.Until(began.Add(time.Duration(i) * every)))
			sent := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_, id, err := chat(ctx, h.base, key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"request %d"}]}`, smallModel, i))
			if err != nil {
				return // refused, or the gateway was down: not a 2xx answer
			}
			mu.Lock()
			defer mu.Unlock()
			answered[id] = true
			if sent.After(at(6)) && sent.Before(at(12)) {
				duringOutage++
			}
		})
	}
	wg.Wait()

	sums := func() (prompt, completion int64, rows int) {
		seen := map[string]bool{}
		for _, r := range h.ledger() {
			if seen[r.ID] {
				t.Fatalf("request %s is in the ledger twice", r.ID)
			}
			seen[r.ID] = true
			if answered[r.ID] {
				prompt, completion, rows = prompt+r.PromptTokens, completion+r.CompletionTokens, rows+1
			}
		}
		return
	}
	h.wait("the ledger has every answer", func() bool { _, _, n := sums(); return n == len(answered) })
	n := int64(len(answered))
	if prompt, completion, _ := sums(); prompt != 10*n || completion != 5*n {
		t.Errorf("%d answers of 10/5 tokens are %d/%d in the ledger", n, prompt, completion)
	}
	h.wait("the sums are those of the rows", func() bool { return h.usage().equal(sumOf(h.ledger())) })
	// [CHOICE] of the report: a durable queue, so that requests go on.
	if n < 100 || duringOutage < 40 {
		t.Errorf("only %d of %d requests were answered, %d of them while the database was away", n, requests, duringOutage)
	}
	t.Logf("%d of %d answered, %d of them while the database was away", n, requests, duringOutage)
}

// supervise starts the server again and again until it stays, as systemd would.
func (h *house) supervise() {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		h.serve = h.tryServe()
		for alive := true; alive && time.Now().Before(deadline); {
			select {
			case <-h.serve.done:
				alive = false
			case <-time.After(50 * time.Millisecond):
				if h.answers() {
					return
				}
			}
		}
		time.Sleep(250 * time.Millisecond)
	}
	h.t.Errorf("the server does not come back:\n%s", tail(h.serve.out.String(), 20))
}

// With no room left on the disk usage can be kept nowhere, so requests are refused
// rather than served for nothing; what had been answered before that was noticed
// is in the ledger, and with room again everything goes on without hands.
func TestFullDiskServesNothingUnmetered(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tokenfactory-test", disk).CombinedOutput(); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount the small disk: %v", err)
		}
	})
	h, key, _ := servingIn(t, filepath.Join(disk, "data"), "")
	l := h.load(4, key, 5*time.Millisecond)
	flows := func() {
		t.Helper()
		before := l.answers()
		h.wait("requests are answered", func() bool { return l.answers() >= before+50 })
	}
	flows()

	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	refused := func() (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for what, times := range l.refused {
			if strings.HasPrefix(what, "503 ") {
				n += times
			}
		}
		return n
	}
	h.wait("requests are refused", func() bool { fill(ballast); return refused() > 50 })
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	flows()
	l.end()

	rows := l.settled()
	for what := range l.refused {
		if !strings.HasPrefix(what, "503 ") {
			t.Errorf("a request was refused with %s", what)
		}
	}
	t.Logf("%s; %d ledger rows", l, len(rows))
}

// fill takes all the room that a file's disk has at this moment.
func fill(f *os.File) {
	zeros := make([]byte, 64<<10)
	for size := len(zeros); size > 0; {
		if _, err := f.Write(zeros[:size]); err != nil {
			size /= 2
		}
	}
}
