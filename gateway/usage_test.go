package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

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
