package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

func TestGS01CharactersCutBetweenReadsArriveWhole(t *testing.T) {
	parts := []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xE5\x8C", "\x97\xE4\xBA\xAC\xF0\x9F", "\x8C\x8D\"}}]}\n\n" + done,
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for _, p := range parts {
			sse(w, p)
			time.Sleep(20 * time.Millisecond)
		}
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if want := strings.Join(parts, ""); r.body != want {
		t.Errorf("client got %q, want %q", r.body, want)
	}
	if text := gjson.Get(dataEvents(r.body)[0], "choices.0.delta.content").String(); text != "北京🌍" {
		t.Errorf("text is %q", text)
	}
	if strings.Contains(r.body, "\uFFFD") {
		t.Error("a character was replaced")
	}
}

func TestGS02FramingWithCRLFAndWithoutSpaceIsMetered(t *testing.T) {
	events := []string{
		`data:{"id":"c1","choices":[{"index":0,"delta":{"content":"ok"}}]}`,
		`data:{"id":"c1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}`,
		`data:[DONE]`,
	}
	for name, cut := range map[string]bool{"whole": false, "cut between CR and LF": true} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				for _, ev := range events {
					if cut {
						sse(w, ev+"\r", "\n\r", "\n")
					} else {
						sse(w, ev+"\r\n\r\n")
					}
				}
			})
			b := newBench(t, []string{e.URL})
			r := b.chat(streamed)
			if got := dataEvents(r.body); len(got) != 2 || got[1] != "[DONE]" || !strings.Contains(got[0], `"ok"`) {
				t.Errorf("client got %q", got)
			}
			wantTokens(t, b.row(1), 7, 1, "", 200)
		})
	}
}

func TestGS03CommentsAreNoData(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for range 3 {
			sse(w, ": still working\n\n")
			time.Sleep(10 * time.Millisecond)
		}
		sse(w, delta("a"), delta("b"), done)
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if got := dataEvents(r.body); len(got) != 3 {
		t.Errorf("%d data events reach the client: %q", len(got), got)
	}
	if n := strings.Count(r.body, ": still working\n\n"); n != 3 {
		t.Errorf("%d comments reach the client", n)
	}
	wantTokens(t, b.row(1), 0, 2, "estimated", 200)
	if u := b.row(1); *u.TTFTMS < 25 {
		t.Errorf("a comment counted as the first token: TTFT %v ms", *u.TTFTMS)
	}
}

func TestGS04AVeryLongLinePasses(t *testing.T) {
	long := strings.Repeat("a", 4_194_304)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`+long+`"}}]}}]}`+"\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1000,"total_tokens":1010}}`+"\n\n", done)
	})
	b := newBench(t, []string{e.URL})
	r := b.chat(streamed)
	if r.status != 200 || gjson.Get(dataEvents(r.body)[0], "choices.0.delta.tool_calls.0.function.arguments").String() != long {
		t.Errorf("status %d, %d bytes", r.status, len(r.body))
	}
	wantTokens(t, b.row(1), 10, 1000, "", 200)
}

func TestGS05OnlyWhoAsksSeesUsage(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, delta("a"), delta("b"), usage, done) })
	b := newBench(t, []string{e.URL})
	for i, c := range []struct {
		body string
		want int
	}{
		{streamed, 0},
		{`{"model":"demo-small","stream":true,"stream_options":{"include_usage":true},"messages":[]}`, 1},
		{`{"model":"demo-small","stream":true,"stream_options":{"include_usage":false,"x":1},"messages":[]}`, 0},
		{`{"stream_options":null,"model":"demo-small","stream":true,"messages":[]}`, 0},
	} {
		r := b.chat(c.body)
		empty := 0
		events := dataEvents(r.body)
		for j, ev := range events {
			if ev != "[DONE]" && len(gjson.Get(ev, "choices").Array()) == 0 {
				empty++
				if j != len(events)-2 {
					t.Error("the usage chunk is not right before [DONE]")
				}
			}
		}
		if empty != c.want || len(events) != 3+c.want {
			t.Errorf("%s: %d empty chunks, want %d: %q", c.body, empty, c.want, events)
		}
		sent := e.seen()[i].body
		if !gjson.Get(sent, "stream_options.include_usage").Bool() || !gjson.Valid(sent) {
			t.Errorf("the engine was sent %s", sent)
		}
		wantTokens(t, b.row(i+1), 5, 2, "", 200)
	}
	if sent := e.seen()[2].body; gjson.Get(sent, "stream_options.x").Int() != 1 {
		t.Errorf("another option was lost: %s", sent)
	}
}

func TestGS06EventsArriveOneByOne(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			// The engine writes an event only after the client has seen the one before: a
			// gateway that holds anything back stops here for good.
			next := make(chan bool)
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				sse(w, role)
				for i := range 20 {
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
					sse(w, delta(fmt.Sprintf("%0200d", i)))
				}
				<-next
				sse(w, done)
			})
			b := newBench(t, []string{e.URL})
			front := start(b.g)
			defer front.Close()
			req := b.request("POST", "/v1/chat/completions", streamed)
			req.URL.Scheme, req.URL.Host, _ = strings.Cut(front.URL, "://")
			resp, err := front.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for k, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Length": ""} {
				if got := resp.Header.Get(k); got != want {
					t.Errorf("%s is %q, want %q", k, got, want)
				}
			}
			in := newEventReader(resp.Body)
			stuck := time.AfterFunc(20*time.Second, func() { resp.Body.Close() })
			defer stuck.Stop()
			for i := range 22 {
				for {
					if _, ok := in.next(); ok {
						break
					}
					if err := in.fill(); err != nil {
						t.Fatalf("event %d: %v", i, err)
					}
				}
				if i < 21 {
					next <- true
				}
			}
		})
	}
}

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

func TestGS08ToolCallsAndUnknownFieldsPassUntouched(t *testing.T) {
	chunks := []string{
		`data: {"model":"demo-small","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"f","arguments":""}}]}}]}` + "\n\n",
		`data: {"model":"demo-small", "choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}],"x_engine":{"k":[1,2]}}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b2","type":"function","function":{"name":"g","arguments":"{}"}}]}}],"n":1.0e0}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n",
		done,
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, chunks...) })
	b := newBench(t, []string{e.URL})
	if r := b.chat(streamed); r.body != strings.Join(chunks, "") {
		t.Errorf("client got\n%s", r.body)
	}
}

func TestGS09TheLengthIsThatOfTheBodySent(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, delta("a"), usage, done) })
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) {
		r.Deployment.PublicName, r.Replicas[0].ServedName = "fast", "Qwen/Qwen2-0.5B-Instruct"
	}))
	body := `{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}],"seed":12345678901234567890,"temperature":1.0}`
	if r := b.chat(body); r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	c := e.seen()[0]
	if c.length != int64(len(c.body)) || !gjson.Valid(c.body) || c.header.Get("Transfer-Encoding") != "" {
		t.Errorf("length %d of %d: %s", c.length, len(c.body), c.body)
	}
	want := `{"stream_options":{"include_usage":true,"continuous_usage_stats":true},"model":"Qwen/Qwen2-0.5B-Instruct","stream":true,"messages":[{"role":"user","content":"hi"}],"seed":12345678901234567890,"temperature":1.0}`
	if c.body != want {
		t.Errorf("the engine got\n%s\nwant\n%s", c.body, want)
	}
	if c.header.Get("Authorization") != "" || c.header.Get("Accept-Encoding") != "identity" {
		t.Errorf("the engine got headers %v", c.header)
	}
}

func TestGS10CompressedAnswersAreReadableAndMetered(t *testing.T) {
	const answer = `{"model":"demo-small","choices":[{"index":0,"message":{"content":"ok"}}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Content-Encoding", "gzip")
		text := answer
		if n == 3 {
			w.Header().Set("Content-Type", "text/event-stream")
			text = delta("a") + usage + done
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text)
		z.Close()
	})
	b := newBench(t, []string{e.URL})
	for i, accept := range []string{"gzip", ""} {
		req := b.request("POST", "/v1/chat/completions", plainly)
		if accept != "" {
			req.Header.Set("Accept-Encoding", accept)
		} else {
			req.Header["Accept-Encoding"] = nil
		}
		r := b.do(req)
		if r.header.Get("Content-Encoding") != "" || r.body != answer {
			t.Errorf("%q: %v %q", accept, r.header, r.body)
		}
		wantTokens(t, b.row(i+1), 9, 3, "", 200)
	}
	if r := b.chat(streamed); r.body != delta("a")+done {
		t.Errorf("stream: %q", r.body)
	}
	wantTokens(t, b.row(3), 5, 2, "", 200)
}

func TestGS11ClientsThatDoNotReadAreCutAndCostNoMemory(t *testing.T) {
	chunk := delta(strings.Repeat("x", 16<<10))
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n > 50 {
			sse(w, delta("quick"), usage, done)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range (200 << 20) / len(chunk) {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	b := newBench(t, []string{e.URL}, func(b *bench) { b.g.WriteTimeout = 2 * time.Second })
	before := heap()
	for range 50 {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", b.secret, len(streamed), streamed)
	}
	b.until("all stalled streams run", func() bool { return len(e.seen()) >= 50 })
	if r := b.chat(streamed); r.status != 200 || !strings.Contains(r.body, "quick") {
		t.Errorf("another client got %d %q", r.status, r.body)
	}
	if grown := heap() - before; grown > 100<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	b.until("the stalled are in the ledger", func() bool { return len(b.ledger()) == 51 })
	cut := 0
	for _, u := range b.ledger() {
		if u.Flags == "aborted,estimated" && u.Status == 499 && u.CompletionTokens > 0 {
			cut++
		}
	}
	if cut != 50 {
		t.Errorf("%d stalled clients are in the ledger with what they were sent", cut)
	}
	b.idle()
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

func TestGS12LargeBodiesPassUpToTheLimit(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL})
	body := func(size int) string {
		head := `{"model":"demo-small","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`
		return head + strings.Repeat("A", size-len(head)-8) + `"}}]}]}`
	}
	image := body(12 << 20)
	if r := b.chat(image); r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if e.seen()[0].body != image {
		t.Error("the engine did not get all bytes")
	}
	wantTokens(t, b.row(1), 8, 2, "", 200)
	for _, announced := range []bool{true, false} {
		req := b.request("POST", "/v1/chat/completions", body(33<<20))
		if !announced {
			req.ContentLength = -1
		}
		r := b.do(req)
		if r.status != 413 || gjson.Get(r.body, "error.code").String() != "request_too_large" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("announced %v: status %d: %s", announced, r.status, r.body)
		}
	}
	if n := len(e.seen()); n != 1 {
		t.Errorf("%d upstream calls", n)
	}
	b.row(1)
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
	wantTokens(t, b.row(1), 0, 0, "failed", 400)
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

func TestRunningUsageIsTakenOutAgain(t *testing.T) {
	running := func(text string, n int) string {
		return fmt.Sprintf(`data: {"id":"c","choices":[{"index":0,"delta":{"content":"%s"}}],"usage":{"prompt_tokens":100,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", text, n, 100+n)
	}
	clean := func(text string) string {
		return `data: {"id":"c","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
	}
	final := `data: {"id":"c","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105}}` + "\n\n"
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, running("a", 2), running("b", 5), final, done)
	})
	b := newBench(t, []string{e.URL})
	for i, c := range []struct{ options, want string }{
		{``, clean("a") + clean("b") + done},
		{`"stream_options":{"include_usage":true},`, clean("a") + clean("b") + final + done},
		{`"stream_options":{"include_usage":true,"continuous_usage_stats":true},`, running("a", 2) + running("b", 5) + final + done},
	} {
		if r := b.chat(`{"model":"demo-small",` + c.options + `"stream":true}`); r.body != c.want {
			t.Errorf("%q: client got\n%s", c.options, r.body)
		}
		wantTokens(t, b.row(i+1), 100, 5, "", 200)
		if !gjson.Get(e.seen()[i].body, "stream_options.continuous_usage_stats").Bool() {
			t.Errorf("the engine was not asked for running usage: %s", e.seen()[i].body)
		}
	}
}

func TestTimingsOfLlamaCppStandInForUsage(t *testing.T) {
	tick := func(text string, n int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"%s"}}],"timings":{"cache_n":7,"prompt_n":10,"predicted_n":%d}}`+"\n\n", text, n)
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, tick("a", 1), tick("b", 4), done) })
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.Engine = "llamacpp" }))
	r := b.chat(streamed)
	if strings.Contains(r.body, "timings") || len(dataEvents(r.body)) != 3 {
		t.Errorf("client got %s", r.body)
	}
	if sent := e.seen()[0].body; !gjson.Get(sent, "timings_per_token").Bool() || gjson.Get(sent, "stream_options.continuous_usage_stats").Exists() {
		t.Errorf("the engine got %s", sent)
	}
	u := b.row(1)
	wantTokens(t, u, 17, 4, "", 200)
	if u.CachedTokens != 7 {
		t.Errorf("%d cached", u.CachedTokens)
	}
	if r := b.chat(`{"model":"demo-small","stream":true,"timings_per_token":true}`); strings.Count(r.body, "timings") != 2 {
		t.Errorf("a client that asked got %s", r.body)
	}
}

func TestAnOldEngineIsNotAskedTwiceForWhatItDoesNotKnow(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":{"message":"extra field continuous_usage_stats","code":400}}`)
			return
		}
		sse(w, delta("a"), usage, done)
	})
	b := newBench(t, []string{e.URL})
	for range 2 {
		if r := b.chat(streamed); r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	calls := e.seen()
	if len(calls) != 3 || strings.Contains(calls[1].body, "continuous") || strings.Contains(calls[2].body, "continuous") {
		t.Errorf("calls: %+v", calls)
	}
}

func TestTimesAreTakenPerToken(t *testing.T) {
	at := func(text string, n int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"%s"}}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`+"\n\n", text, n)
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, role)
		time.Sleep(30 * time.Millisecond)
		sse(w, at("a", 2))
		for i := range 3 {
			time.Sleep(40 * time.Millisecond)
			sse(w, at("b", 6+4*i))
		}
		sse(w, done)
	})
	b := newBench(t, []string{e.URL})
	b.chat(streamed)
	u := b.row(1)
	if *u.TTFTMS < 30 || *u.E2EMS < 150 {
		t.Errorf("TTFT %v ms, E2E %v ms", *u.TTFTMS, *u.E2EMS)
	}
	b.until("measurements are handed over", func() bool { return len(b.count()) > 2 })
	n := b.count()
	if n[metrics.TTFT] != 1 || n[metrics.ITL] != 12 || n[metrics.E2E] != 1 || n[metrics.Requests] != 1 || n[metrics.Failures] != 0 {
		t.Errorf("observations: %v", n)
	}
	// The gaps add up to the time between the first token and the last.
	sum := 0.0
	b.set(func(w *world) {
		for _, bk := range w.buckets {
			if bk.Name == metrics.ITL {
				sum += bk.Sum
			}
		}
	})
	if between := *u.E2EMS - *u.TTFTMS; sum <= 0 || sum > between+1 {
		t.Errorf("gaps of %v ms within %v ms", sum, between)
	}
}

// count is how many observations of each metric were handed over.
func (b *bench) count() map[metrics.Name]float64 {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	n := map[metrics.Name]float64{}
	for _, bk := range b.buckets {
		n[bk.Name] += bk.Count
	}
	return n
}

func TestChoicesAreMeteredAndTimedEachForItself(t *testing.T) {
	at := func(choice, n int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":%d,"delta":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":%d}}`+"\n\n", choice, n)
	}
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		sse(w, at(0, 1), at(1, 1), at(0, 2), at(1, 4))
		<-r.Context().Done()
	})
	b := newBench(t, []string{e.URL})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", `{"model":"demo-small","n":2,"stream":true}`).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := 0
	buf := make([]byte, 4096)
	for got < 4 {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += bytes.Count(buf[:n], []byte("\n\n"))
	}
	cancel()
	wantTokens(t, b.row(1), 9, 6, "aborted", 499)
}
