package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

func TestNothingStaysInFlightWhateverGoesWrong(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch n % 4 {
		case 0:
			reset(w)
		case 1:
			sse(w, delta("a"))
			reset(w)
		case 2:
			w.WriteHeader(500)
		default:
			sse(w, delta("a"))
			<-r.Context().Done()
		}
	})
	b := newBench(t, []string{e.URL, e.URL})
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", streamed).WithContext(ctx))
		if err == nil {
			_, _ = resp.Body.Read(make([]byte, 10))
			cancel()
			resp.Body.Close()
		}
		cancel()
		if i%10 == 0 {
			b.chat(`{"model":`)
			b.chat(`{"model":"nope"}`)
		}
	}
	b.row(60)
	b.idle()
}

func TestMB03OneRequestIsCountedOnceHoweverManyAttempts(t *testing.T) {
	var calls atomic.Int32
	ids := sync.Map{}
	answer := func(w http.ResponseWriter, r *http.Request, _ int) {
		ids.Store(r.Header.Get("X-Request-Id"), true)
		if calls.Add(1) < 3 {
			w.WriteHeader(503)
			return
		}
		_, _ = io.WriteString(w, whole)
	}
	b := newBench(t, []string{newEngine(t, answer).URL, newEngine(t, answer).URL, newEngine(t, answer).URL})
	r := b.chat(plainly)
	if r.status != 200 || r.body != whole {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	u := b.row(1)
	wantTokens(t, u, 8, 2, "", 200)
	if u.Attempts != 3 || u.ID != r.header.Get("X-Request-Id") {
		t.Errorf("row %+v", u)
	}
	if _, ok := ids.Load(u.ID); !ok {
		t.Error("the engines were not told the request id")
	}
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d request ids", n)
	}
	b.until("measurements are handed over", func() bool { return b.count()[metrics.E2E] == 1 })
	if c := b.count(); c[metrics.Requests] != 1 || c[metrics.Failures] != 0 || c[metrics.TTFT] != 0 {
		t.Errorf("observations: %v", c)
	}
	b.idle()
}

func TestRR03ErrorsLeakNoLoad(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close() // A refuses connections
	var served atomic.Int32
	answer := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, addr) {
			served.Add(1)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(w, whole)
	}
	other := httptest.NewServer(http.HandlerFunc(answer))
	defer other.Close()
	b := newBench(t, []string{"http://" + addr, other.URL})
	ejected := func() *atomic.Int64 { return &b.g.routes.now.Load().byName[asked].replicas[0].ejected }
	refusals := 0
	for i := 0; refusals < 50; i++ {
		if r := b.chat(plainly); r.status != 200 {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
		if ejected().Load() != 0 {
			refusals++
			ejected().Store(0) // time passes
		}
		if i > 1000 {
			t.Fatal("A is never tried")
		}
	}
	b.idle()
	ln, err = net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the port was taken in the meantime: %v", err)
	}
	a := &http.Server{Handler: http.HandlerFunc(answer)}
	go a.Serve(ln)
	defer a.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if r := b.chat(plainly); r.status != 200 {
					t.Errorf("status %d", r.status)
				}
			}
		})
	}
	wg.Wait()
	if n := served.Load(); n < 80 || n > 120 {
		t.Errorf("A served %d of 200", n)
	}
	b.idle()
}

func TestRR04StaleConnectionsFailNothingAndDoubleNothing(t *testing.T) {
	const keep = 100 * time.Millisecond
	for name, idle := range map[string]time.Duration{
		"the gateway lets go first": keep * 7 / 10,
		"the engine lets go first":  time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) },
				func(s *http.Server) { s.IdleTimeout = keep })
			b := newBench(t, []string{e.URL}, func(b *bench) { b.g.upstream.idleConnection = idle })
			const n = 24
			for i := range n {
				// Right before, at, and right after the moment at which the engine closes.
				time.Sleep(keep + time.Duration(i-n/2)*time.Millisecond)
				if r := b.chat(plainly); r.status != 200 {
					t.Errorf("request %d: %d %s", i, r.status, r.body)
				}
			}
			if got := len(e.seen()); got != n {
				t.Errorf("%d requests processed, want %d", got, n)
			}
		})
	}
}

func TestRR06TheAnswerCarriesTheAskedName(t *testing.T) {
	const served = "Qwen/Qwen2-0.5B-Instruct"
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			sse(w, `data: {"usage":null,"model" : "Qwen/Qwen2-0.5B-Instruct","choices":[{"index":0,"delta":{"content":"a"}}]}`+"\n\n",
				`data: {"usage":{"prompt_tokens":5,"completion_tokens":2},"model":"Qwen/Qwen2-0.5B-Instruct","choices":[{"index":0,"delta":{"content":"b"}}]}`+"\n\n", done)
			return
		}
		_, _ = io.WriteString(w, `{"model":"Qwen/Qwen2-0.5B-Instruct","choices":[{"message":{"content":"\"model\""}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`)
	})
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) {
		r.Deployment.PublicName, r.Replicas[0].ServedName = "fast", served
	}))
	s := b.chat(`{"model":"fast","stream":true,"messages":[]}`)
	if want := `data: {"usage":null,"model" : "fast","choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n" +
		`data: {"model":"fast","choices":[{"index":0,"delta":{"content":"b"}}]}` + "\n\n" + done; s.body != want {
		t.Errorf("stream:\n%s", s.body)
	}
	p := b.chat(`{"model":"fast","messages":[]}`)
	if want := `{"model":"fast","choices":[{"message":{"content":"\"model\""}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`; p.body != want || p.header.Get("Content-Length") != strconv.Itoa(len(want)) {
		t.Errorf("plain: %s", p.body)
	}
	for i, c := range e.seen() {
		if gjson.Get(c.body, "model").String() != served {
			t.Errorf("call %d: the engine got %s", i, c.body)
		}
	}
	b.row(2)
	for _, u := range b.ledger() {
		if u.ModelAsked != "fast" || u.ModelServed != served {
			t.Errorf("row %+v", u)
		}
	}
	if r := b.do(b.request("GET", "/v1/models", "")); !strings.Contains(r.body, `"id":"fast"`) {
		t.Errorf("models: %s", r.body)
	}
}

func TestRR07NamesWithSlashAreExact(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	const name = "Qwen/Qwen2-0.5B-Instruct"
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.PublicName = name }))
	for _, path := range []string{"/v1/models/Qwen%2FQwen2-0.5B-Instruct", "/v1/models/Qwen/Qwen2-0.5B-Instruct"} {
		if r := b.do(b.request("GET", path, "")); r.status != 200 || gjson.Get(r.body, "id").String() != name {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := b.chat(`{"model":"` + name + `"}`); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	unknown := []string{"qwen/qwen2-0.5b-instruct"}
	for i := range 200 {
		unknown = append(unknown, fmt.Sprintf("nope-%d-%d", i, i*i))
	}
	for _, m := range unknown {
		r := b.chat(`{"model":"` + m + `"}`)
		if r.status != 404 || gjson.Get(r.body, "error.code").String() != "model_not_found" || !strings.Contains(gjson.Get(r.body, "error.message").String(), m) {
			t.Fatalf("%s: %d %s", m, r.status, r.body)
		}
	}
	b.row(1)
	b.until("measurements are handed over", func() bool { return b.count()[metrics.Requests] == 1 })
}

func TestWithoutAReplicaTheAnswerIsQuickAndSaysWhenToComeBack(t *testing.T) {
	b := newBench(t, nil)
	r := b.chat(streamed)
	if r.status != 503 || gjson.Get(r.body, "error.code").String() != "no_replica_ready" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	wantTokens(t, b.row(1), 0, 0, "failed", 503)
	b.until("the failure is counted", func() bool { return b.count()[metrics.Failures] == 1 })
}
