package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// running is a chunk with a cumulative count.
func running(n int) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":12,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", n, 12+n)
}

// leaveAfter reads a stream up to n events and closes the connection.
func (b *bench) leaveAfter(n int, body string) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", body).WithContext(ctx))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	in := newEventReader(resp.Body)
	for range n {
		for {
			if _, ok := in.next(); ok {
				break
			}
			if err := in.fill(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestMB01AClientThatLeavesIsBilledWhatWasMade(t *testing.T) {
	gone := make(chan time.Time, 1)
	var left atomic.Int64
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		for i := 1; i <= 5; i++ {
			sse(w, running(i))
		}
		<-r.Context().Done()
		gone <- time.Now()
	})
	b := newBench(t, []string{e.URL})
	b.leaveAfter(5, streamed)
	left.Store(time.Now().UnixNano())
	select {
	case at := <-gone:
		// Generous for a busy machine; the aim is a tenth of it.
		if d := at.Sub(time.Unix(0, left.Load())); d > time.Second {
			t.Errorf("the engine worked on for %v", d)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the engine was never told")
	}
	u := b.row(1)
	wantTokens(t, u, 12, 5, "aborted", 499)
	if u.E2EMS != nil || u.TTFTMS == nil {
		t.Errorf("E2E %v, TTFT %v", u.E2EMS, u.TTFTMS)
	}
	b.idle()
}

func TestClientsThatLeaveBeforeTheFirstTokenPayNothingAndAreCountedApart(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			sse(w, role)
		}
		<-r.Context().Done()
	})
	b := newBench(t, []string{e.URL})
	b.leaveAfter(1, streamed)
	wantTokens(t, b.row(1), 0, 0, "aborted_prefill", 499)
	// Before the engine has even answered.
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for len(e.seen()) < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", streamed).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantTokens(t, b.row(2), 0, 0, "aborted_prefill", 499)
	b.until("both are counted", func() bool { return b.count()[metrics.Abandoned] == 2 })
	if n := b.count(); n[metrics.TTFT] != 0 || n[metrics.Failures] != 0 {
		t.Errorf("observations: %v", n)
	}
	b.idle()
}

func TestAClientThatLeavesInTheQueueIsToldApart(t *testing.T) {
	e := plainEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.RequestsPerMinute = 9 }),
		func(b *bench) { b.g.Limits = leaves{&memoryLimits{}, cancel} })
	b.until("routes are read", func() bool { return b.g.routes.now.Load() != nil })
	b.g.ServeHTTP(httptest.NewRecorder(), b.request("POST", "/v1/chat/completions", streamed).WithContext(ctx))
	u := b.row(1)
	wantTokens(t, u, 0, 0, "aborted_queue", 499)
	if u.Attempts != 0 || len(e.seen()) != 0 {
		t.Errorf("%d attempts, %d upstream calls", u.Attempts, len(e.seen()))
	}
}

// leaves is the moment at which a client goes.
type leaves struct {
	Limits
	leave func()
}

func (l leaves) Book(ctx context.Context, now time.Time, claims []Claim) (Standing, error) {
	defer l.leave()
	return l.Limits.Book(ctx, now, claims)
}

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

func TestMB02RunningTotalsAreNotAdded(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for i := 1; i <= 20; i++ {
			sse(w, strings.ReplaceAll(running(i), `"prompt_tokens":12`, `"prompt_tokens":100`))
		}
		sse(w, `data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`+"\n\n", done)
	})
	b := newBench(t, []string{e.URL})
	b.chat(streamed)
	u := b.row(1)
	wantTokens(t, u, 100, 20, "", 200)
	if u.PriceID != "price1" || u.TenantID != "tenant1" || u.KeyID != "key1" || u.DeploymentID != "dep-"+asked || u.ReplicaID != "A" ||
		u.Endpoint != "chat.completions" || !u.Stream || u.Attempts != 1 {
		t.Errorf("row %+v", u)
	}
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

func TestMB04CachedTokensArePartOfThePrompt(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		cached := []int{16000, 30000, -5}[n-1]
		fmt.Fprintf(w, `{"choices":[],"usage":{"prompt_tokens":20000,"completion_tokens":900,"prompt_tokens_details":{"cached_tokens":%d}}}`, cached)
	})
	b := newBench(t, []string{e.URL})
	for i, want := range []int64{16000, 20000, 0} {
		b.chat(plainly)
		u := b.row(i + 1)
		wantTokens(t, u, 20000, 900, "", 200)
		if u.CachedTokens != want {
			t.Errorf("%d cached, want %d", u.CachedTokens, want)
		}
	}
}

func TestMB08EveryKindOfRequestIsMetered(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch r.URL.Path {
		case "/v1/chat/completions":
			_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`)
		case "/v1/completions":
			_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":10,"total_tokens":60}}`)
		case "/v1/embeddings":
			_, _ = io.WriteString(w, `{"data":[],"usage":{"prompt_tokens":7,"total_tokens":7}}`)
		}
	})
	b := newBench(t, []string{e.URL})
	n := 0
	for path, times := range map[string]int{"/v1/chat/completions": 10, "/v1/completions": 5, "/v1/embeddings": 4} {
		for range times {
			if r := b.post(path, `{"model":"demo-small","input":"x"}`); r.status != 200 {
				t.Fatalf("%s: %d %s", path, r.status, r.body)
			}
			n++
		}
	}
	b.row(n)
	sums := map[string]int64{}
	var prompt, completion int64
	for _, u := range b.ledger() {
		sums[u.Endpoint] += u.PromptTokens + u.CompletionTokens
		prompt += u.PromptTokens
		completion += u.CompletionTokens
	}
	if n != 19 || prompt != 1278 || completion != 250 || sums["chat.completions"] != 1200 || sums["completions"] != 300 || sums["embeddings"] != 28 {
		t.Errorf("%d requests, %d/%d, %v", n, prompt, completion, sums)
	}
}

func TestZeroUsageStaysZeroAndNoUsageIsEstimated(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n {
		case 1:
			sse(w, delta("a"), `data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`+"\n\n", done)
		case 2:
			sse(w, role, delta("a"), delta("b"), delta("c"), done)
		case 3:
			_, _ = io.WriteString(w, `{"choices":[]}`)
		}
	})
	b := newBench(t, []string{e.URL})
	b.chat(streamed)
	wantTokens(t, b.row(1), 0, 0, "", 200)
	b.chat(streamed)
	wantTokens(t, b.row(2), 0, 3, "estimated", 200)
	b.chat(plainly)
	wantTokens(t, b.row(3), 0, 0, "estimated", 200)
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

func TestRefusalsOfEnginesReachTheClientInOneShape(t *testing.T) {
	var kinds []struct {
		Case   string          `json:"case"`
		Status int             `json:"http_status"`
		Body   json.RawMessage `json:"body"`
	}
	for line := range strings.Lines(engineErrors) {
		var k struct {
			Case   string          `json:"case"`
			Status int             `json:"http_status"`
			Body   json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, k)
	}
	i := 0
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(kinds[i].Status)
		_, _ = w.Write(kinds[i].Body)
	})
	b := newBench(t, []string{e.URL})
	for ; i < len(kinds); i++ {
		k := kinds[i]
		r := b.chat(plainly)
		want := k.Status
		if want == 401 {
			want = 502 // the client's own key is fine
		}
		got := gjson.Get(r.body, "error")
		if r.status != want || !got.IsObject() || got.Get("message").String() == "" || got.Get("type").String() == "" {
			t.Errorf("%s: %d %s", k.Case, r.status, r.body)
		}
		for _, message := range []string{"error.message", "message", "error"} {
			if m := gjson.GetBytes(k.Body, message); m.Type == gjson.String && k.Status != 401 {
				if got.Get("message").String() != m.Str {
					t.Errorf("%s: message %q, want %q", k.Case, got.Get("message"), m.Str)
				}
				break
			}
		}
		if (want == 429 || want == 503) != (r.header.Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", k.Case, r.header.Get("Retry-After"))
		}
	}
}

// Bodies of refusals, as real engines write them.
const engineErrors = `{"case":"vllm-401","http_status":401,"body":{"error":"Unauthorized"}}
{"case":"vllm-404-model","http_status":404,"body":{"error":{"message":"The model nope does not exist.","type":"NotFoundError","param":"model","code":404}}}
{"case":"vllm-0.8-400-flat","http_status":400,"body":{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}
{"case":"llamacpp-503-loading","http_status":503,"body":{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}}
{"case":"llamacpp-400-context","http_status":400,"body":{"error":{"code":400,"message":"request (6009 tokens) exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":6009,"n_ctx":4096}}}
{"case":"tgi-422","http_status":422,"body":{"error":"Input validation error","error_type":"validation"}}
{"case":"tgi-429","http_status":429,"body":{"error":"Model is overloaded","error_type":"overloaded"}}
`

func TestSecretsInAnAddressStayOutOfAnswersAndLogs(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.URL.Query().Get("key") != "SECRET123" {
			t.Error("the address lost its query")
		}
		reset(w)
	})
	dead, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	dead.Host = "127.0.0.1:1"
	b := newBench(t, []string{e.URL + "/v1?key=SECRET123", dead.String() + "/v1?key=SECRET123", "ftp://x?key=SECRET123"})
	r := b.chat(plainly)
	if r.status != 502 && r.status != 503 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	b.row(1)
	if strings.Contains(r.body+b.logs.String(), "SECRET123") {
		t.Errorf("a secret got out:\n%s\n%s", r.body, b.logs)
	}
}

func TestAPanicIsOneClientsTroubleOnly(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL}, func(b *bench) { b.g.Limits = panics{} }, withRoute(func(r *factory.Route) { r.Deployment.RequestsPerMinute = 1 }))
	r := b.chat(plainly)
	if r.status != 500 || gjson.Get(r.body, "error.code").String() != "internal_error" {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.until("the load is released", func() bool { return b.g.inFlight.Load() == 0 })
}

type panics struct{}

func (panics) Book(context.Context, time.Time, []Claim) (Standing, error) { panic("out of order") }

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

// brittle panics at the first event.
type brittle struct{ header http.Header }

func (w *brittle) Header() http.Header { return w.header }
func (w *brittle) WriteHeader(int)     {}
func (w *brittle) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "data") {
		panic("broken writer")
	}
	return len(b), nil
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

func TestOverheadIsSaidOnPlainAnswers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(w, whole)
	})
	b := newBench(t, []string{e.URL})
	req := b.request("POST", "/v1/chat/completions", plainly)
	req.Header.Set("X-Request-Id", "my-own")
	r := b.do(req)
	ms, err := strconv.ParseFloat(r.header.Get("X-Tokenfactory-Overhead-Ms"), 64)
	if err != nil || ms < 0 {
		t.Errorf("overhead %q", r.header.Get("X-Tokenfactory-Overhead-Ms"))
	}
	if u := b.row(1); u.ID != r.header.Get("X-Request-Id") || u.ID == "my-own" || ms > *u.E2EMS {
		t.Errorf("row %+v, overhead %v", u, ms)
	}
}
