package sim

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tokenfactory/engines"
)

// client is a response writer that notes when each event came, by the fake clock of
// a synctest bubble, in which nothing is late.
type client struct {
	mu      sync.Mutex
	began   time.Time
	header  http.Header
	status  int
	pending string
	events  []string
	at      []time.Duration
	broken  bool
}

func (c *client) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}

func (c *client) WriteHeader(status int) { c.status = status }

func (c *client) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return 0, fmt.Errorf("the client has gone")
	}
	c.pending += string(b)
	return len(b), nil
}

func (c *client) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for event := range strings.SplitSeq(c.pending, "\n\n") {
		if event != "" {
			c.events = append(c.events, event)
			c.at = append(c.at, time.Since(c.began))
		}
	}
	c.pending = ""
}

// content keeps the times of the events that carry text.
func (c *client) content() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []time.Duration
	for i, e := range c.events {
		if strings.Contains(e, `"content":"`) && !strings.Contains(e, `"content":""`) {
			out = append(out, c.at[i])
		}
	}
	return out
}

// ask sends a chat request and waits for its end.
func ask(ctx context.Context, e *Engine, body string) *client {
	c := &client{began: time.Now()}
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)).WithContext(ctx)
	e.ServeHTTP(c, r)
	return c
}

const hello = `"stream":true,"messages":[{"role":"user","content":"hello"}]`

func scrape(t *testing.T, e *Engine) engines.Reading {
	t.Helper()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return parsed(t, w.Body.String())
}

func TestTokensComeAtTheirTimes(t *testing.T) {
	for _, perEvent := range []int{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Options{TTFT: 80 * time.Millisecond, ITL: 15 * time.Millisecond, TokensPerEvent: perEvent})
			c := ask(t.Context(), e, `{"max_tokens":21,`+hello+`}`)
			at := c.content()
			if want := 1 + 20/perEvent; len(at) != want {
				t.Fatalf("%d events with text, want %d", len(at), want)
			}
			for i, got := range at {
				if want := 80*time.Millisecond + time.Duration(i*perEvent)*15*time.Millisecond; got != want {
					t.Errorf("%d a step, event %d at %s, want %s", perEvent, i, got, want)
				}
			}
		})
	}
}

func TestJitterIsBoundedAndDoesNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttft, itl, n = 100 * time.Millisecond, 20 * time.Millisecond, 400
		e := New(Options{TTFT: ttft, ITL: itl, Jitter: 0.1, Seed: 9})
		moved := false
		for range 20 {
			at := ask(t.Context(), e, fmt.Sprintf(`{"max_tokens":%d,%s}`, n, hello)).content()
			if d := (at[0] - ttft).Abs(); d > ttft/10 {
				t.Errorf("first token at %s", at[0])
			} else if d > 0 {
				moved = true
			}
			for i := 1; i < n; i++ {
				want := at[0] + time.Duration(i)*itl
				if d := (at[i] - want).Abs(); d > itl/10 {
					t.Errorf("token %d is %s off its time", i, d)
				}
				if at[i] < at[i-1] {
					t.Errorf("token %d comes before the one before it", i)
				}
			}
		}
		if !moved {
			t.Error("there is no jitter")
		}
	})
}

func TestSlowTailTakesItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, TailShare: 0.2, TailFactor: 10})
		slow := 0
		for range 1000 {
			if at := ask(t.Context(), e, `{"max_tokens":1,`+hello+`}`).content(); at[0] == time.Second {
				slow++
			} else if at[0] != 100*time.Millisecond {
				t.Fatalf("first token at %s", at[0])
			}
		}
		if slow < 150 || slow > 250 {
			t.Errorf("%d of 1000 are slow, want about 200", slow)
		}
	})
}

func TestLongPromptsTakeLongerUnlessTheyAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 50 * time.Millisecond, PrefillPerToken: time.Millisecond})
		body := `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("word", 1000) + `"}]}`
		first, second := ask(t.Context(), e, body).content()[0], ask(t.Context(), e, body).content()[0]
		if want := 1057 * time.Millisecond; first != want {
			t.Errorf("first token at %s, want %s", first, want)
		}
		if second > 100*time.Millisecond || second <= 50*time.Millisecond {
			t.Errorf("of a cached prompt at %s", second)
		}
	})
}

func TestPlainAnswerTakesAsLongAsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 80 * time.Millisecond, ITL: 15 * time.Millisecond})
		began := time.Now()
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"max_tokens":11,"messages":[{"role":"user","content":"x"}]}`)))
		if got := time.Since(began); got != 230*time.Millisecond || w.Code != 200 {
			t.Errorf("%d after %s", w.Code, got)
		}
	})
}

func TestCacheUsageGrowsWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 10 * time.Millisecond, ITL: 10 * time.Millisecond, KVBlocks: 100, BlockSize: 16})
		var all sync.WaitGroup
		all.Go(func() { ask(t.Context(), e, `{"max_tokens":100,`+hello+`}`) })
		time.Sleep(15 * time.Millisecond)
		early := *scrape(t, e).KV
		time.Sleep(900 * time.Millisecond)
		late := *scrape(t, e).KV
		all.Wait()
		// 9 of the prompt and the first token; later 9 and 91.
		if early != 0.01 || late != 0.07 || *scrape(t, e).KV != 0 {
			t.Errorf("KV %v, then %v, then %v", early, late, *scrape(t, e).KV)
		}
	})
}

func TestCountersMoveWhileAnAnswerIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond})
		var all sync.WaitGroup
		all.Go(func() { ask(t.Context(), e, `{"max_tokens":50,`+hello+`}`) })
		time.Sleep(50 * time.Millisecond)
		if r := scrape(t, e); *r.PromptTokens != 0 || *r.GenerationTokens != 0 || *r.Running != 1 {
			t.Errorf("during prefill: %v prompt, %v generated", *r.PromptTokens, *r.GenerationTokens)
		}
		time.Sleep(105 * time.Millisecond)
		if r := scrape(t, e); *r.PromptTokens != 9 || *r.GenerationTokens != 6 {
			t.Errorf("during decode: %v prompt, %v generated", *r.PromptTokens, *r.GenerationTokens)
		}
		all.Wait()
	})
}

func TestEngineIsReadyWhenItHasLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Load: 3 * time.Second})
		health := func() int {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest("GET", "/health", nil))
			return w.Code
		}
		time.Sleep(2999 * time.Millisecond)
		before := health()
		time.Sleep(time.Millisecond)
		if after := health(); before != 503 || after != 200 {
			t.Errorf("%d, then %d", before, after)
		}
	})
}
