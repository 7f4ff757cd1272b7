package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

func BenchmarkChunk(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-cda04074-6efd-5c7c-a13c-725a8b68df45","object":"chat.completion.chunk","created":1796075954,"model":"weights","choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":13,"total_tokens":21,"completion_tokens":8}}`)
	v := view{usage: usageNone, name: asked, nameJSON: `"demo-small"`}
	var c chunk
	var m meter
	var out []byte
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c.read(data, &v)
		m.take(&c)
		out = splice(out[:0], data, c.edits[:c.n], "")
	}
}

func benchmark(b *testing.B, body string, answer func(http.ResponseWriter), proxy bool) {
	e := newEngine(b, func(w http.ResponseWriter, _ *http.Request, _ int) { answer(w) })
	bench := newBench(b, []string{e.URL})
	front := bench.server.URL
	if proxy {
		to, err := url.Parse(e.URL)
		if err != nil {
			b.Fatal(err)
		}
		bench.server.Config.Handler = httputil.NewSingleHostReverseProxy(to)
	}
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequest("POST", front+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+bench.secret)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.StatusCode, err)
		}
	}
}

// The bare proxy beside each is what to compare with: both include a client and an
// engine in the same process.
func BenchmarkPlain(b *testing.B) {
	answer := func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole) }
	b.Run("gateway", func(b *testing.B) { benchmark(b, plainly, answer, false) })
	b.Run("proxy", func(b *testing.B) { benchmark(b, plainly, answer, true) })
}

func BenchmarkStream(b *testing.B) {
	var text bytes.Buffer
	for range 64 {
		text.WriteString(delta("word "))
	}
	text.WriteString(usage + done)
	answer := func(w http.ResponseWriter) { sse(w, text.String()) }
	b.Run("gateway", func(b *testing.B) { benchmark(b, streamed, answer, false) })
	b.Run("proxy", func(b *testing.B) { benchmark(b, streamed, answer, true) })
}

// BenchmarkChoice is what a replica's choice costs with eight of them, for a prompt
// that is worth keeping with its conversation and for one that is not.
func BenchmarkChoice(b *testing.B) {
	for name, size := range map[string]int{"50 KB": 50 << 10, "short": 100} {
		b.Run(name, func(b *testing.B) {
			body := []byte(`{"model":"demo-small","messages":[{"role":"system","content":"` + strings.Repeat("x", size) + `"},{"role":"user","content":"hi"}]}`)
			q, p := parseRequest(body)
			if p != nil {
				b.Fatal(p.message)
			}
			pool := poolOf(8)
			b.ReportAllocs()
			for b.Loop() {
				c := q.conversation()
				if c.size < affinityLeast {
					c.hash = 0
				}
				pool.mu.Lock()
				l, o := pool.pick(choice{conversation: c.hash}, time.Now())
				pool.mu.Unlock()
				if o != found {
					b.Fatal(o)
				}
				l.release()
			}
		})
	}
}
