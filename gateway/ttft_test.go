package gateway

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"tokenfactory/metrics"
)

// TestEM09TheFirstTokenIsWhatAModelMade: neither the role nor a comment is, and
// reasoning and a tool call are. The case's times are a tenth here, and what counts
// is between which two events the moment lies.
func TestEM09TheFirstTokenIsWhatAModelMade(t *testing.T) {
	choice := func(delta string) string {
		return `data: {"choices":[{"index":0,"delta":` + delta + `}]}` + "\n\n"
	}
	for name, token := range map[string]string{
		"reasoning_content": `{"reasoning_content":"Let"}`,
		"reasoning":         `{"reasoning":"Let"}`,
		"both":              `{"reasoning":"Let","reasoning_content":"Let"}`,
		"a tool call":       `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`,
		"content":           `{"content":"Hi"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var nextAt atomic.Int64
			begun := time.Now()
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				time.Sleep(10 * time.Millisecond)
				sse(w, choice(`{"role":"assistant","content":""}`))
				time.Sleep(5 * time.Millisecond)
				sse(w, ": still working\n\n", choice(`{}`))
				time.Sleep(75 * time.Millisecond)
				sse(w, choice(token))
				time.Sleep(310 * time.Millisecond)
				nextAt.Store(int64(time.Since(begun)))
				sse(w, choice(`{"content":"Hi"}`))
				time.Sleep(10 * time.Millisecond)
				sse(w, done)
			})
			b := newBench(t, []string{e.URL})
			if r := b.chat(streamed); r.status != 200 || r.err != nil {
				t.Fatalf("%d %v %s", r.status, r.err, r.body)
			}
			took := time.Since(begun)
			u := b.row(1)
			// The gateway's clock starts after the test's.
			if u.TTFTMS == nil || *u.TTFTMS < 90 || *u.TTFTMS > inMilliseconds(time.Duration(nextAt.Load())) {
				t.Errorf("TTFT %v ms; content came after %v", u.TTFTMS, time.Duration(nextAt.Load()))
			}
			if u.E2EMS == nil || *u.E2EMS < 410 || *u.E2EMS > inMilliseconds(took) {
				t.Errorf("E2E %v ms of %v", u.E2EMS, took)
			}
		})
	}
	t.Run("no token at all", func(t *testing.T) {
		e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			sse(w, choice(`{"role":"assistant","content":""}`), choice(`{"content":null,"reasoning":""}`), choice(`{"tool_calls":[]}`), done)
		})
		b := newBench(t, []string{e.URL})
		b.chat(streamed)
		if u := b.row(1); u.TTFTMS != nil {
			t.Errorf("TTFT %v ms", *u.TTFTMS)
		}
		b.until("measurements are handed over", func() bool { return b.count()[metrics.E2E] == 1 })
		if n := b.count()[metrics.TTFT]; n != 0 {
			t.Errorf("%v samples of TTFT", n)
		}
	})
}
