package gateway

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

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
