package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func remove(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func begin(t *testing.T, e *Engine, f Fault) {
	t.Helper()
	if err := e.Start(f); err != nil {
		t.Fatal(err)
	}
}

// cut sends a request and reports whether its connection was reset.
func cut(ctx context.Context, e *Engine, path, body string) (c *client, reset bool) {
	c = &client{began: time.Now()}
	defer func() { reset = recover() == http.ErrAbortHandler }()
	method := "POST"
	if body == "" {
		method = "GET"
	}
	e.ServeHTTP(c, httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx))
	return c, false
}

func TestSlowPrefillDelaysFirstTokensOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond})
		begin(t, e, Fault{Kind: SlowPrefill, Factor: 4, For: time.Second})
		at := ask(t.Context(), e, `{"max_tokens":11,`+hello+`}`).content()
		if at[0] != 400*time.Millisecond || at[10] != 500*time.Millisecond {
			t.Errorf("first token at %s, last at %s", at[0], at[10])
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if at := ask(t.Context(), e, `{"max_tokens":1,`+hello+`}`).content(); at[0] != 100*time.Millisecond || len(e.Faults()) != 0 {
			t.Errorf("after its end: first token at %s, %+v", at[0], e.Faults())
		}
	})
}

func TestSlowDecodeBeginsAndEndsInMidAnswer(t *testing.T) {
	for _, kind := range []FaultKind{SlowDecode, Thermal} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond})
			var c *client
			var all sync.WaitGroup
			all.Go(func() { c = ask(t.Context(), e, `{"max_tokens":31,`+hello+`}`) })
			time.Sleep(195 * time.Millisecond) // the times of the next two tokens are set
			begin(t, e, Fault{Kind: kind, Factor: 5, For: 500 * time.Millisecond})
			all.Wait()
			at := c.content()
			gaps := map[time.Duration]int{}
			for i := 1; i < len(at); i++ {
				gaps[at[i]-at[i-1]]++
			}
			if at[0] != 100*time.Millisecond || gaps[50*time.Millisecond] != 11 || gaps[10*time.Millisecond] != 19 {
				t.Errorf("%s: first at %s, gaps %v", kind, at[0], gaps)
			}
		})
	}
}

func TestQueueFaultShowsInTheEnginesFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, MaxSeqs: 8})
		begin(t, e, Fault{Kind: Queue, Factor: 4})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { ask(t.Context(), e, `{"max_tokens":1,`+hello+`}`) })
		}
		synctest.Wait()
		if r := scrape(t, e); *r.Running != 2 || *r.Waiting != 6 {
			t.Errorf("%v running, %v waiting", *r.Running, *r.Waiting)
		}
		e.End(Queue)
		synctest.Wait()
		if r := scrape(t, e); *r.Running != 8 || *r.Waiting != 0 {
			t.Errorf("after its end %v running, %v waiting", *r.Running, *r.Waiting)
		}
		all.Wait()
	})
}

func TestHiddenQueueIsInNoFigureOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond})
		begin(t, e, Fault{Kind: HiddenQueue, Delay: 700 * time.Millisecond})
		var c *client
		var all sync.WaitGroup
		all.Go(func() { c = ask(t.Context(), e, `{"max_tokens":1,`+hello+`}`) })
		synctest.Wait()
		if r := scrape(t, e); *r.Running != 0 || *r.Waiting != 0 {
			t.Errorf("%v running, %v waiting", *r.Running, *r.Waiting)
		}
		all.Wait()
		r := scrape(t, e)
		ttft, queue := r.Histograms["engine_ttft"], r.Histograms["engine_queue"]
		if got := c.content()[0]; got != 800*time.Millisecond || ttft.Sum < 0.099 || ttft.Sum > 0.101 || queue.Sum != 0 {
			t.Errorf("the client waits %s, the engine says %v and a queue of %v", got, ttft.Sum, queue.Sum)
		}
		// A client that leaves meanwhile was never there.
		ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer leave()
		ask(ctx, e, `{"max_tokens":1,`+hello+`}`)
		if r := scrape(t, e); r.Finished["abort"] != 0 {
			t.Errorf("%v aborted", r.Finished["abort"])
		}
	})
}

func TestErrorsTakeTheirShare(t *testing.T) {
	e := New(Options{Faults: []Fault{{Kind: Errors, Factor: 0.2}}})
	failed := 0
	for range 1000 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`)))
		if w.Code == 500 && strings.Contains(w.Body.String(), `"error"`) {
			failed++
		} else if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	r := scrape(t, e)
	if failed < 150 || failed > 250 || int(r.Finished["length"]) != 1000-failed {
		t.Errorf("%d of 1000 failed, want about 200; finished %v", failed, r.Finished)
	}
}

func TestPreemptedRequestsAreComputedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, Faults: []Fault{{Kind: Preemption, Factor: 1}}})
		c := ask(t.Context(), e, `{"max_tokens":10,`+hello+`}`)
		at := c.content()
		if len(at) != 10 || at[4] != 140*time.Millisecond || at[5] != 240*time.Millisecond || at[9] != 280*time.Millisecond {
			t.Errorf("tokens at %v", at)
		}
		r := scrape(t, e)
		if *r.Preemptions != 1 || *r.GenerationTokens != 10 || *r.PromptTokens != 9 || *r.Running != 0 || *r.KV != 0 {
			t.Errorf("%v preemptions, %v tokens of %v, %v running, KV %v", *r.Preemptions, *r.GenerationTokens, *r.PromptTokens, *r.Running, *r.KV)
		}
		e.End(Preemption)
		ask(t.Context(), e, `{"max_tokens":10,`+hello+`}`)
		if r := scrape(t, e); *r.Preemptions != 1 {
			t.Errorf("%v preemptions after its end", *r.Preemptions)
		}
	})
}

func TestKVPressureFillsTheCacheAndPreempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, KVBlocks: 160, NoPrefixCaching: true})
		begin(t, e, Fault{Kind: KVPressure, Factor: 16}) // 10 blocks of 16 tokens
		clients := make([]*client, 4)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { clients[i] = ask(t.Context(), e, `{"max_tokens":100,`+hello+`}`) })
		}
		peak := 0.0
		for range 30 {
			time.Sleep(50 * time.Millisecond)
			peak = max(peak, *scrape(t, e).KV)
		}
		all.Wait()
		r := scrape(t, e)
		if peak <= 0.9 || *r.Preemptions == 0 {
			t.Errorf("KV at most %v, %v preemptions", peak, *r.Preemptions)
		}
		for i, c := range clients {
			if n := len(c.content()); n != 100 {
				t.Errorf("request %d has %d of 100 tokens", i, n)
			}
		}
		if *r.GenerationTokens != 400 || *r.Running != 0 || *r.Waiting != 0 || e.line.used != 0 {
			t.Errorf("%v tokens, %v running, %v waiting, %d blocks", *r.GenerationTokens, *r.Running, *r.Waiting, e.line.used)
		}
	})
}

func TestCrashResetsConnectionsAndComesBackAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, MaxSeqs: 1, Load: time.Second})
		time.Sleep(time.Second)
		was := *scrape(t, e).ProcessStart
		var resets [2]bool
		var clients [2]*client
		var all sync.WaitGroup
		for i := range clients { // one runs, one waits in line
			all.Go(func() {
				clients[i], resets[i] = cut(t.Context(), e, "/v1/chat/completions", `{"max_tokens":100,`+hello+`}`)
			})
			synctest.Wait()
		}
		time.Sleep(155 * time.Millisecond)
		begin(t, e, Fault{Kind: Crash, For: 10 * time.Second})
		all.Wait()
		if !resets[0] || !resets[1] || len(clients[0].content()) != 6 {
			t.Errorf("reset: %v after %d tokens", resets, len(clients[0].content()))
		}
		for _, path := range []string{"/health", "/metrics"} {
			if _, reset := cut(t.Context(), e, path, ""); !reset {
				t.Errorf("%s answers although the engine is gone", path)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if c, reset := cut(t.Context(), e, "/health", ""); reset || c.status != 503 {
			t.Errorf("after the crash: reset %v, status %d, want it to load", reset, c.status)
		}
		time.Sleep(time.Second)
		r := scrape(t, e)
		if *r.ProcessStart <= was || *r.GenerationTokens != 0 || *r.Running != 0 || *r.Waiting != 0 || r.Finished["abort"] != 0 {
			t.Errorf("the new process started at %v (was %v): %+v", *r.ProcessStart, was, r)
		}
		if c, reset := cut(t.Context(), e, "/v1/chat/completions", `{"max_tokens":3,`+hello+`}`); reset || len(c.content()) != 3 {
			t.Errorf("it does not work again: reset %v", reset)
		}
	})
}

func TestCrashWithoutAnEndEndsTheProcess(t *testing.T) {
	ended := 0
	e := New(Options{OnCrash: func() { ended++ }})
	for body, want := range map[string]int{`{"kind":"crash","duration":"1h"}`: 0, `{"kind":"thermal"}`: 0, `{"kind":"crash"}`: 1} {
		ended = 0
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", controlPath, strings.NewReader(body)))
		if w.Code != 200 || ended != want {
			t.Errorf("%s: status %d, ended %d times", body, w.Code, ended)
		}
	}
}

// A crash among comings and goings must leave nothing behind.
func TestNothingIsHeldAfterCrashesAndPreemptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond, MaxSeqs: 7, KVBlocks: 400, TokensPerEvent: 2})
		begin(t, e, Fault{Kind: KVPressure, Factor: 20})
		begin(t, e, Fault{Kind: Preemption, Factor: 0.5})
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				time.Sleep(time.Duration(i*7%400) * time.Millisecond)
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(1+i*37%900)*time.Millisecond)
				defer leave()
				cut(ctx, e, "/v1/chat/completions", fmt.Sprintf(`{"max_tokens":%d,"n":%d,%s}`, 1+i%60, 1+i%3, hello))
			})
		}
		time.Sleep(150 * time.Millisecond)
		begin(t, e, Fault{Kind: Crash, For: 50 * time.Millisecond})
		all.Wait()
		if r := scrape(t, e); *r.Running != 0 || *r.Waiting != 0 || *r.KV != 0 || e.line.used != 0 {
			t.Errorf("%v running, %v waiting, KV %v, %d blocks", *r.Running, *r.Waiting, *r.KV, e.line.used)
		}
	})
}
