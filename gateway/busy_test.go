package gateway

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

// busy is an engine that has no room for its first requests.
func busy(t *testing.T, first int, status int, retryAfter string) *engine {
	return newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n > first {
			_, _ = io.WriteString(w, whole)
			return
		}
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
	})
}

func TestAReplicaThatIsTooBusyIsLeftAloneWhileOthersServe(t *testing.T) {
	for name, after := range map[string]string{"for as long as it said": "2", "shortly": "", "shortly, for a date": "Wed, 21 Oct 2026 07:28:00 GMT"} {
		for _, status := range []int{429, 503} {
			t.Run(name+"/"+strconv.Itoa(status), func(t *testing.T) {
				one, two := busy(t, 1, status, after), plainEngine(t)
				b := newBench(t, []string{one.URL, two.URL})
				for range 20 {
					if r := b.chat(plainly); r.status != 200 {
						t.Fatalf("status %d: %s", r.status, r.body)
					}
				}
				if n := len(one.seen()); n != 1 {
					t.Errorf("%d calls at the busy replica", n)
				}
				pass := &b.g.routes.now.Load().byName[asked].replicas[0].busy
				if left := time.Until(time.Unix(0, pass.Load())); left > 2*time.Second {
					t.Errorf("left alone for %v more", left)
				}
				pass.Store(0) // time passes
				for range 20 {
					b.chat(plainly)
				}
				if n := len(one.seen()); n != 11 {
					t.Errorf("%d calls at the replica that has room again, want 1 and 10", n)
				}
				b.idle()
			})
		}
	}
}

func TestWhenAllReplicasAreTooBusyTheClientIsTold(t *testing.T) {
	one, two := busy(t, 1, 503, "7"), busy(t, 1, 429, "3")
	b := newBench(t, []string{one.URL, two.URL})
	first := b.chat(plainly)
	if (first.status != 503 && first.status != 429) || first.header.Get("Retry-After") != "3" {
		t.Errorf("%d %v %s", first.status, first.header, first.body)
	}
	// They are not asked before the time that they named.
	second := b.chat(streamed)
	after, err := strconv.Atoi(second.header.Get("Retry-After"))
	if second.status != 429 || err != nil || after < 1 || after > 3 || gjson.Get(second.body, "error.message").String() == "" || second.header.Get("X-Should-Retry") != "" {
		t.Errorf("%d %v %s", second.status, second.header, second.body)
	}
	if n := len(one.seen()) + len(two.seen()); n != 2 {
		t.Errorf("%d upstream calls", n)
	}
	for _, rep := range b.g.routes.now.Load().byName[asked].replicas {
		rep.busy.Store(0) // time passes
	}
	if r := b.chat(plainly); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	b.idle()
}

func TestABusyReplicaThatNamesNoTimeIsTriedWhenThereIsNoOther(t *testing.T) {
	e := busy(t, 1, 503, "")
	b := newBench(t, []string{e.URL})
	if r := b.chat(plainly); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.status, r.header)
	}
	if r := b.chat(plainly); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

func TestNoReplicaIsLeftAloneForLong(t *testing.T) {
	e := busy(t, 1, 503, "86400")
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	if left := time.Until(time.Unix(0, b.g.routes.now.Load().byName[asked].replicas[0].busy.Load())); left > restMost || left < restMost-5*time.Second {
		t.Errorf("left alone for %v", left)
	}
}

func TestAReplicaThatBreaksOffAgainAndAgainIsEjectedUntilAProbeFindsItWell(t *testing.T) {
	var broken atomic.Bool
	var probes atomic.Int32
	broken.Store(true)
	ill := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch {
		case r.Method == http.MethodGet:
			if probes.Add(1); broken.Load() {
				w.WriteHeader(503)
			}
			if r.URL.Path != "/health" {
				t.Errorf("probed at %s", r.URL.Path)
			}
		case broken.Load():
			reset(w)
		default:
			_, _ = io.WriteString(w, whole)
		}
	})
	fine := plainEngine(t)
	b := newBench(t, []string{ill.URL, fine.URL})
	rep := func() *replica { return b.g.routes.now.Load().byName[asked].replicas[0] }
	for range 40 {
		if r := b.chat(plainly); r.status != 200 {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
	}
	if n := len(ill.seen()); n != failuresMost {
		t.Errorf("%d requests paid for finding out, want %d", n, failuresMost)
	}
	if b.g.well(rep()) {
		t.Error("well while it says that it is not")
	}
	broken.Store(false)
	b.until("a probe finds it well", func() bool { return rep().ejected.Load() == 0 })
	if probes.Load() < 2 {
		t.Errorf("%d probes", probes.Load())
	}
	calls := len(ill.seen())
	for range 20 {
		b.chat(plainly)
	}
	if n := len(ill.seen()) - calls; n != 10 {
		t.Errorf("%d of 20 requests went to the replica that is well again", n)
	}
	b.idle()
}

func TestTheOnlyReplicaIsTriedEvenWhenItIsEjected(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	b := newBench(t, []string{"http://" + addr})
	for range 3 {
		if r := b.chat(plainly); r.status != 503 || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	if ln, err = net.Listen("tcp", addr); err != nil {
		t.Skipf("the port was taken in the meantime: %v", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, whole) })}
	go s.Serve(ln)
	defer s.Close()
	if r := b.chat(plainly); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if l := b.g.routes.now.Load().byName[asked].replicas[0]; l.ejected.Load() != 0 || l.strikes.Load() != 0 {
		t.Error("it answered, and is still ejected")
	}
}

func TestEjectionsGrow(t *testing.T) {
	var last time.Duration
	for strikes := range int32(100) {
		d := backoff(strikes)
		if d < last || d < ejectFor || d > ejectMost {
			t.Errorf("%v after %d", d, strikes)
		}
		last = d
	}
	if last != 30*time.Second || backoff(0) != 3*time.Second || backoff(1) != 6*time.Second {
		t.Errorf("%v %v %v", backoff(0), backoff(1), last)
	}
}

func TestAReplicaOfANewRevisionStartsWithACleanSheet(t *testing.T) {
	e := busy(t, 1, 503, "30")
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	b.change(func(w *world) {
		w.routes = []factory.Route{routeTo(asked, e.URL)}
		w.routes[0].Replicas[0].Revision = 2
	})
	if r := b.chat(plainly); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}
