package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

const (
	streamed = `{"model":"demo-small","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	plainly  = `{"model":"demo-small","messages":[{"role":"user","content":"hi"}]}`
)

// engine is a stub that counts its calls. The handler gets the request's body.
type engine struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call1
}

// call1 is a call as an engine saw it.
type call1 struct {
	header http.Header
	length int64
	body   string
	path   string
}

func newEngine(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int), setups ...func(*http.Server)) *engine {
	e := &engine{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway broke off
		}
		e.mu.Lock()
		e.calls = append(e.calls, call1{r.Header.Clone(), r.ContentLength, string(body), r.URL.Path})
		n := len(e.calls)
		e.mu.Unlock()
		answer(w, r, n)
	}))
	for _, f := range setups {
		f(e.Config)
	}
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *engine) seen() []call1 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]call1(nil), e.calls...)
}

// sse writes events as an engine does, one flush each.
func sse(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
		w.(http.Flusher).Flush()
	}
}

// reset breaks the connection as a dying engine does.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	conn.Close()
}

func delta(text string) string {
	return `data: {"id":"c1","model":"demo-small","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const (
	role  = `data: {"id":"c1","model":"demo-small","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	done  = "data: [DONE]\n\n"
	usage = `data: {"id":"c1","model":"demo-small","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}` + "\n\n"
	whole = `{"id":"c1","object":"chat.completion","model":"demo-small","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10}}`
)
