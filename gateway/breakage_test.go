package gateway

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

func TestGS07AfterTheFirstByteThereIsNoSecondAttempt(t *testing.T) {
	a := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, role, delta("Hel"))
		time.Sleep(30 * time.Millisecond)
		reset(w)
	})
	other := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, delta("Hello"), done) })
	b := newBench(t, []string{a.URL, other.URL}, withRoute(func(r *factory.Route) { r.Replicas = r.Replicas[:1] }))
	b.set(func(w *world) { w.routes = []factory.Route{routeTo(asked, a.URL, other.URL)} })
	b.until("both replicas are known", func() bool {
		tbl := b.g.routes.now.Load()
		return tbl != nil && len(tbl.byName[asked].replicas) == 2
	})
	b.g.routes.now.Load().byName[asked].replicas[1].inFlight.Add(1) // so that A is picked
	r := b.chat(streamed)
	events := dataEvents(r.body)
	if len(events) != 3 || strings.Count(r.body, "Hel") != 1 || strings.Contains(r.body, "[DONE]") {
		t.Fatalf("client got %q", events)
	}
	if gjson.Get(events[2], "error.type").String() != "upstream_error" || gjson.Get(events[2], "error.message").String() == "" {
		t.Errorf("the last event is %s", events[2])
	}
	if r.err == nil {
		t.Error("the connection ended cleanly: clients take that for success")
	}
	if len(a.seen()) != 1 || len(other.seen()) != 0 {
		t.Errorf("upstream calls: A %d, B %d", len(a.seen()), len(other.seen()))
	}
	wantTokens(t, b.row(1), 0, 1, "estimated,truncated", 200)
	b.idleExcept(1)
}

func (b *bench) idleExcept(n int64) {
	b.Helper()
	b.until("only the booked one is in flight", func() bool {
		var sum int64
		for _, rep := range b.g.routes.now.Load().byName[asked].replicas {
			sum += rep.inFlight.Load()
		}
		return sum == n
	})
}

func TestGS07BeforeTheFirstByteAnotherReplicaIsTried(t *testing.T) {
	for name, break1 := range map[string]func(http.ResponseWriter){
		"before the header":        reset,
		"after the header":         func(w http.ResponseWriter) { sse(w, ""); reset(w) },
		"in the middle of a line":  func(w http.ResponseWriter) { sse(w, `data: {"cho`); reset(w) },
		"with an empty stream":     func(w http.ResponseWriter) { sse(w, "") },
		"overloaded in the stream": func(w http.ResponseWriter) { sse(w, `data: {"error":{"message":"busy","code":503}}`+"\n\n", done) },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			calls := 0
			answer := func(w http.ResponseWriter, _ *http.Request, _ int) {
				mu.Lock()
				calls++
				first := calls == 1
				mu.Unlock()
				if first {
					break1(w)
					return
				}
				sse(w, delta("Hello"), usage, done)
			}
			a, other := newEngine(t, answer), newEngine(t, answer)
			b := newBench(t, []string{a.URL, other.URL})
			r := b.chat(streamed)
			if r.status != 200 || r.err != nil || strings.Count(r.body, "Hello") != 1 || !strings.HasSuffix(r.body, done) {
				t.Errorf("status %d, %v: %q", r.status, r.err, r.body)
			}
			if len(a.seen()) != 1 || len(other.seen()) != 1 {
				t.Errorf("upstream calls: A %d, B %d", len(a.seen()), len(other.seen()))
			}
			u := b.row(1)
			wantTokens(t, u, 5, 2, "", 200)
			if u.Attempts != 2 {
				t.Errorf("%d attempts", u.Attempts)
			}
			b.idle()
		})
	}
}

func TestMidStreamErrorsOfEnginesEndTheStream(t *testing.T) {
	for name, ev := range map[string]string{
		"object":             `data: {"error":{"message":"it broke","type":"InternalServerError","code":500}}` + "\n\n",
		"text":               `data: {"error":"it broke","error_type":"generation"}` + "\n\n",
		"flat":               `data: {"object":"error","message":"it broke","type":"x","code":500}` + "\n\n",
		"bare":               `data: {"message":"it broke","type":"x","code":null}` + "\n\n",
		"error line":         `error: {"code":500,"message":"it broke","type":"server_error"}` + "\n\n",
		"error event":        "event: error\n" + `data: {"message":"it broke"}` + "\n\n",
		"error with no data": "event: error\n: it broke\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, role, delta("a"), ev, done) })
			b := newBench(t, []string{e.URL})
			r := b.chat(streamed)
			events := dataEvents(r.body)
			last := events[len(events)-1]
			if len(events) != 3 || gjson.Get(last, "error.message").String() != "it broke" || gjson.Get(last, "error.type").String() != "upstream_error" || r.err == nil {
				t.Errorf("client got %q, %v", events, r.err)
			}
			wantTokens(t, b.row(1), 0, 1, "estimated,truncated", 200)
		})
	}
}

func TestAnErrorBeforeAnyByteIsAnOrdinaryRefusal(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, `data: {"error":{"message":"too long","type":"BadRequestError","code":400}}`+"\n\n", done)
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if r.status != 400 || gjson.Get(r.body, "error.message").String() != "too long" {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	wantTokens(t, b.row(1), 0, 0, "", 400) // the request is at fault, not the engine
}

func TestAFailureBeforeTheFirstTokenIsNotBilled(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":12,"completion_tokens":0,"total_tokens":12}}`+"\n\n")
		reset(w)
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if r.err == nil || !strings.Contains(r.body, "upstream_error") {
		t.Errorf("client got %q", r.body)
	}
	wantTokens(t, b.row(1), 0, 0, "failed", 200)
}

func TestAPanicInMidStreamReleasesAndAccounts(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, delta("a"), delta("b"), done) })
	b := newBench(t, []string{e.URL})
	b.until("routes are read", func() bool { return b.g.routes.now.Load() != nil })
	w := &brittle{header: http.Header{}}
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("the server sees %v", v)
			}
		}()
		b.g.ServeHTTP(w, b.request("POST", "/v1/chat/completions", streamed))
	}()
	u := b.row(1)
	if u.Flags != "estimated,truncated" || u.CompletionTokens == 0 {
		t.Errorf("row %+v", u)
	}
	b.idle()
}

func TestAnEngineThatSaysNothingIsGivenUp(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 2 {
			sse(w, delta("a"))
		}
		<-r.Context().Done()
	})
	b := newBench(t, []string{e.URL}, func(b *bench) { b.g.IdleTimeout = 100 * time.Millisecond })
	if r := b.chat(plainly); r.status != 504 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.chat(streamed); r.err == nil || !strings.Contains(r.body, "said nothing") {
		t.Errorf("%v %s", r.err, r.body)
	}
	wantTokens(t, b.row(2), 0, 1, "estimated,truncated", 200)
}
