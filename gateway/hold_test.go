package gateway

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

// sleeping makes the only deployment one that holds no machine.
func sleeping(r *factory.Route) { r.Deployment.Asleep, r.Coming = true, true }

// arrive puts a replica behind the only deployment.
func arrive(urls ...string) func(*world) {
	return func(w *world) {
		r := routeTo(asked, urls...)
		w.routes[0].Replicas, w.routes[0].Coming, w.routes[0].Deployment.Asleep = r.Replicas, false, false
	}
}

// held waits until so many requests wait for a replica.
func (b *bench) waiting(n int64) {
	b.Helper()
	b.until(strconv.FormatInt(n, 10)+" requests wait", func() bool { return b.g.held.Load() == n })
}

// TestRR05TheFirstCallersOfASleepingModelAreHeld has the case's numbers; only the
// time the start takes is shorter.
func TestRR05TheFirstCallersOfASleepingModelAreHeld(t *testing.T) {
	const start, each = 600 * time.Millisecond, 4
	var running, most atomic.Int64
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		sse(w, delta("a"), usage, done)
	})
	b := newBench(t, nil, withRoute(sleeping), withRoute(func(r *factory.Route) { r.Deployment.ReplicaConcurrency = each }),
		func(b *bench) { b.g.CommentEvery = 100 * time.Millisecond })
	begun := time.Now()
	replies := make([]reply, 60)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = b.chat(streamed) })
	}
	b.waiting(50)
	time.Sleep(start - time.Since(begun))
	ready := time.Now()
	b.change(arrive(e.URL))
	wg.Wait()
	held, refused := 0, 0
	for _, r := range replies {
		switch {
		case r.status == 200 && r.err == nil && strings.HasSuffix(r.body, done) && strings.HasPrefix(r.body, ": "):
			held++
		case r.status == 503 && gjson.Get(r.body, "error.code").String() == "no_replica_ready" && r.header.Get("Retry-After") != "":
			refused++
		default:
			t.Errorf("%d %v %s", r.status, r.err, r.body)
		}
	}
	if held != 50 || refused != 10 {
		t.Errorf("%d held and %d refused", held, refused)
	}
	if n := most.Load(); n > each {
		t.Errorf("%d requests at once at a replica that may have %d", n, each)
	}
	b.set(func(w *world) {
		if w.wakes != 1 {
			t.Errorf("woken %d times", w.wakes)
		}
	})
	b.row(60)
	for _, u := range b.ledger() {
		least := inMilliseconds(ready.Sub(u.StartedAt)) - 1 // between two clocks
		switch {
		case u.Status == 503 && u.Flags == factory.FlagFailed && *u.QueueMS < 1:
		case u.Status != 200 || u.Flags != "" || u.TTFTMS == nil || *u.TTFTMS < least || u.E2EMS == nil || *u.E2EMS < *u.TTFTMS || *u.QueueMS < least/2 || *u.QueueMS > *u.TTFTMS:
			t.Errorf("row %+v", u)
		}
	}
	b.idle()
}

func TestAWakingThatFailsIsAskedForAgain(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, nil, withRoute(sleeping), func(b *bench) { b.world.deaf = 1 })
	got := make(chan reply)
	go func() { got <- b.chat(plainly) }()
	b.until("it is awake", func() bool {
		b.world.mu.Lock()
		defer b.world.mu.Unlock()
		return b.wakes == 2
	})
	b.change(arrive(e.URL))
	r := <-got
	queue, err := strconv.ParseFloat(r.header.Get("X-Tokenfactory-Queue-Ms"), 64)
	overhead, oops := strconv.ParseFloat(r.header.Get("X-Tokenfactory-Overhead-Ms"), 64)
	if r.status != 200 || err != nil || oops != nil || queue < 900 || overhead > queue/2 {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	b.idle()
}

func TestAClientThatLeavesTheLineLeavesNothingBehind(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, nil, withRoute(sleeping), func(b *bench) {
		b.g.HoldMost = 3
		b.limit(factory.ScopeKey, factory.Limits{ConcurrentRequests: 3})
	})
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", streamed).WithContext(ctx))
			if err == nil {
				resp.Body.Close()
				t.Error("got an answer")
			}
		})
	}
	b.waiting(2)
	leave()
	wg.Wait()
	b.waiting(0)
	b.row(2)
	for _, u := range b.ledger() {
		wantTokens(t, u, 0, 0, "aborted_queue", 499)
		if u.Attempts != 0 {
			t.Errorf("row %+v", u)
		}
	}
	// Their places are free.
	got := make(chan reply, 3)
	for range 3 {
		go func() { got <- b.chat(plainly) }()
	}
	b.waiting(3)
	b.change(arrive(e.URL))
	for range 3 {
		if r := <-got; r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	b.idle()
}

func TestNobodyIsHeldForEver(t *testing.T) {
	b := newBench(t, nil, withRoute(sleeping), func(b *bench) { b.g.HoldFor, b.g.CommentEvery = 300*time.Millisecond, 50*time.Millisecond })
	plain := make(chan reply)
	go func() { plain <- b.chat(plainly) }()
	s := b.chat(streamed)
	// The header of the stream was out: one event says what happened, and then a cut.
	events := dataEvents(s.body)
	if s.status != 200 || s.err == nil || len(events) != 1 || gjson.Get(events[0], "error.code").String() != "no_replica_ready" ||
		s.header.Get("Content-Type") != "text/event-stream" || strings.Contains(s.body, "[DONE]") {
		t.Errorf("stream: %d %v %q", s.status, s.err, s.body)
	}
	p := <-plain
	if ms, err := strconv.ParseFloat(p.header.Get("X-Tokenfactory-Queue-Ms"), 64); p.status != 503 || p.header.Get("Retry-After") == "" || err != nil || ms < 250 {
		t.Errorf("plain: %d %v %s", p.status, p.header, p.body)
	}
	b.row(2)
	for _, u := range b.ledger() {
		wantTokens(t, u, 0, 0, "failed", 503)
	}
	b.idle()
}

func TestNobodyWaitsForADeploymentThatIsNoMore(t *testing.T) {
	b := newBench(t, nil, withRoute(sleeping))
	got := make(chan reply)
	go func() { got <- b.chat(plainly) }()
	b.waiting(1)
	b.change(func(w *world) { w.routes = nil })
	if r := <-got; r.status != 503 || gjson.Get(r.body, "error.code").String() != "no_replica_ready" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.chat(plainly); r.status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestAStartThatFailsLetsGoOfThoseWhoWait(t *testing.T) {
	b := newBench(t, nil, withRoute(sleeping))
	got := make(chan reply)
	go func() { got <- b.chat(plainly) }()
	b.waiting(1)
	fails := func(w *world) { w.routes[0].Coming, w.routes[0].Deployment.Asleep = false, false }
	b.change(fails)
	p := b.g.routes.now.Load().byName[asked].pool
	p.mu.Lock()
	p.wokenUntil = time.Time{} // time passes
	p.mu.Unlock()
	b.change(fails)
	b.waiting(1) // it may be between two starts
	p.mu.Lock()
	p.lost = p.lost.Add(-absentGrace)
	p.mu.Unlock()
	if r := <-got; r.status != 503 || gjson.Get(r.body, "error.code").String() != "no_replica_ready" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestThoseWhoWaitAreToldWhenAnOperatorStopsTheModel(t *testing.T) {
	b := newBench(t, nil, withRoute(sleeping))
	got := make(chan reply)
	go func() { got <- b.chat(plainly) }()
	b.waiting(1)
	b.change(func(w *world) {
		w.routes[0].Deployment.Stopped, w.routes[0].Deployment.Asleep, w.routes[0].Coming = true, false, false
	})
	for i, r := range []reply{<-got, b.chat(plainly)} {
		message := gjson.Get(r.body, "error.message").String()
		if r.status != 503 || gjson.Get(r.body, "error.code").String() != "no_replica_ready" || !strings.Contains(message, "stopped by an operator") ||
			strings.Contains(message, "in a moment") || r.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d: %d %v %s", i, r.status, r.header, r.body)
		}
	}
}

// TestAReplicaAtItsBoundMakesRequestsWaitInOrder also has one that fails over to
// the other replica after it waited.
func TestAReplicaAtItsBoundMakesRequestsWaitInOrder(t *testing.T) {
	release := make(chan struct{})
	var order []string
	var mu sync.Mutex
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			<-release
		}
		mu.Lock()
		order = append(order, r.Header.Get("Traceparent"))
		mu.Unlock()
		_, _ = io.WriteString(w, whole)
	})
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.ReplicaConcurrency = 1 }))
	var wg sync.WaitGroup
	var want []string
	for i := range 8 {
		name := strconv.Itoa(i)
		want = append(want, name)
		wg.Go(func() {
			req := b.request("POST", "/v1/chat/completions", plainly)
			req.Header.Set("Traceparent", name)
			if r := b.do(req); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
		if b.waiting(int64(i)); i == 0 {
			b.until("the first is at the engine", func() bool { return len(e.seen()) == 1 })
		}
	}
	close(release)
	wg.Wait()
	if strings.Join(order, " ") != strings.Join(want, " ") {
		t.Errorf("served in the order %v", order)
	}
	b.idle()
}

func TestAfterAWaitAnotherReplicaIsStillTried(t *testing.T) {
	var calls atomic.Int32
	answer := func(w http.ResponseWriter, _ *http.Request, _ int) {
		if calls.Add(1) == 1 {
			reset(w)
			return
		}
		sse(w, ": still working\n\n", delta("a"), usage, done)
	}
	one, two := newEngine(t, answer), newEngine(t, answer)
	b := newBench(t, nil, withRoute(sleeping), func(b *bench) { b.g.CommentEvery = 20 * time.Millisecond })
	got := make(chan reply)
	go func() { got <- b.chat(streamed) }()
	b.waiting(1)
	time.Sleep(100 * time.Millisecond)
	b.change(arrive(one.URL, two.URL))
	r := <-got
	if r.status != 200 || r.err != nil || len(dataEvents(r.body)) != 2 || !strings.Contains(r.body, ": waiting") || strings.Contains(r.body, "error") {
		t.Errorf("%d %v %s", r.status, r.err, r.body)
	}
	if u := b.row(1); u.Attempts != 2 || u.Status != 200 || u.Flags != "" {
		t.Errorf("row %+v", u)
	}
	b.idle()
}

// TestACommentOfTheEngineIsNoAnswer: llama.cpp sends them while it reads a prompt.
func TestACommentOfTheEngineIsNoAnswer(t *testing.T) {
	var calls atomic.Int32
	answer := func(w http.ResponseWriter, _ *http.Request, _ int) {
		if calls.Add(1) == 1 {
			sse(w, ":\n\n", ":\n\n")
			reset(w)
			return
		}
		sse(w, delta("a"), usage, done)
	}
	b := newBench(t, []string{newEngine(t, answer).URL, newEngine(t, answer).URL})
	r := b.chat(streamed)
	if r.status != 200 || r.err != nil || r.body != ":\n\n:\n\n"+delta("a")+done {
		t.Errorf("%d %v %q", r.status, r.err, r.body)
	}
	if u := b.row(1); u.Attempts != 2 || u.Flags != "" {
		t.Errorf("row %+v", u)
	}
}

// TestNothingIsLostBetweenTheLineAndTheReplica: clients leave at any moment, also in
// the one in which they are given a replica.
func TestNothingIsLostBetweenTheLineAndTheReplica(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n % 7 {
		case 0:
			reset(w)
		case 1:
			w.WriteHeader(503)
		default:
			_, _ = io.WriteString(w, whole)
		}
	}
	one, two := newEngine(t, answer), newEngine(t, answer)
	b := newBench(t, []string{one.URL, two.URL}, withRoute(func(r *factory.Route) { r.Deployment.ReplicaConcurrency = 2 }),
		func(b *bench) { b.g.HoldMost, b.g.HoldFor = 1000, 5*time.Second })
	var wg sync.WaitGroup
	var answers atomic.Int64
	const clients, each = 16, 25
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(c*each+i)*7%23)*time.Millisecond)
				resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", plainly).WithContext(ctx))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					answers.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	b.idle()
	b.waiting(0)
	p := b.g.routes.now.Load().byName[asked].pool
	p.mu.Lock()
	if n := len(p.waiting); n != 0 {
		t.Errorf("%d are left in the line", n)
	}
	p.mu.Unlock()
	if answers.Load() == 0 || answers.Load() == clients*each {
		t.Errorf("%d of %d were answered: nothing was tried", answers.Load(), clients*each)
	}
	for _, rep := range b.g.routes.now.Load().byName[asked].replicas {
		rep.ejected.Store(0)
	}
	b.until("it serves as before", func() bool { return b.chat(plainly).status == 200 })
}

func TestAnEnginesRefusalAfterAWaitIsOneEvent(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"a status": func(w http.ResponseWriter) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, "{\n \"error\": {\n  \"message\": \"too long\", \"type\": \"BadRequestError\", \"code\": 400}}")
		},
		"an event": func(w http.ResponseWriter) {
			sse(w, `data: {"error":{"message":"too long","type":"BadRequestError","code":400}}`+"\n\n", done)
		},
		"no stream": func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { answer(w) })
			b := newBench(t, nil, withRoute(sleeping), func(b *bench) { b.g.CommentEvery = 10 * time.Millisecond })
			got := make(chan reply)
			go func() { got <- b.chat(streamed) }()
			b.waiting(1)
			time.Sleep(50 * time.Millisecond)
			b.change(arrive(e.URL))
			r := <-got
			events := dataEvents(r.body)
			if r.status != 200 || r.err == nil || len(events) != 1 || gjson.Get(events[0], "error.message").String() == "" ||
				name != "no stream" && gjson.Get(events[0], "error.message").String() != "too long" {
				t.Errorf("%d %v %q", r.status, r.err, r.body)
			}
			if u := b.row(1); u.CompletionTokens != 0 || u.E2EMS != nil {
				t.Errorf("row %+v", u)
			}
			b.idle()
		})
	}
}

// Whoever waited is looked at again: a key that was revoked meanwhile, or a model
// that is not shared any more, ends the wait without an answer.
func TestWhoMayNoLongerIsNotServedAfterAWait(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		status int
		code   string
	}{
		"revoked": {func(w *world) {
			now := time.Now()
			for h, k := range w.keys {
				k.RevokedAt = &now
				w.keys[h] = k
			}
		}, http.StatusUnauthorized, codeKey},
		"unshared": {func(w *world) { w.routes[0].Deployment.SharedWithAll = false }, http.StatusNotFound, codeModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) { sse(w, delta("a"), usage, done) })
			b := newBench(t, nil, withRoute(sleeping))
			got := make(chan reply, 1)
			go func() { got <- b.chat(streamed) }()
			b.waiting(1)
			b.set(c.change)
			time.Sleep(keyStale + keyFresh)
			b.change(arrive(e.URL))
			if r := <-got; r.status != c.status || !strings.Contains(r.body, c.code) || len(e.seen()) != 0 {
				t.Errorf("%d after %d calls: %s", r.status, len(e.seen()), r.body)
			}
			b.idle()
		})
	}
}
