package gateway

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tokenfactory/factory"
)

// countingEngine is one that knows running usage, or ignores the question for it.
func countingEngine(t *testing.T, how factory.Learned) *engine {
	return newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		var events []string
		for i := range 10 {
			running := ""
			if how == factory.LearnedYes {
				running = fmt.Sprintf(`,"usage":{"prompt_tokens":5,"completion_tokens":%d,"total_tokens":%d}`, i+1, i+6)
			}
			events = append(events, `data: {"model":"demo-small","choices":[{"index":0,"delta":{"content":"a"}}]`+running+"}\n\n")
		}
		sse(w, append(events, `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":10,"total_tokens":15}}`+"\n\n", done)...)
	})
}

func (b *bench) told() []factory.Learned {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	return slices.Clone(b.learned)
}

func TestWhetherAnEngineCountsAsItGoesIsRememberedOnce(t *testing.T) {
	for _, how := range []factory.Learned{factory.LearnedYes, factory.LearnedNo} {
		t.Run(string(how), func(t *testing.T) {
			e := countingEngine(t, how)
			b := newBench(t, []string{e.URL}, func(b *bench) { b.world.deaf = 1 })
			for range 3 {
				if r := b.chat(streamed); r.status != 200 || r.err != nil {
					t.Fatalf("%d %v %s", r.status, r.err, r.body)
				}
			}
			b.until("it is told", func() bool { return len(b.told()) > 0 })
			b.change(func(*world) {})
			for range 3 {
				b.chat(streamed)
			}
			if told := b.told(); len(told) != 1 || told[0] != how {
				t.Errorf("told %v", told)
			}
			asks := strings.Contains(e.seen()[5].body, optionContinuous)
			if asks != (how == factory.LearnedYes) {
				t.Errorf("the engine got %s", e.seen()[5].body)
			}
		})
	}
}

func TestAnEngineThatDoesNotKnowTheOptionIsNotAskedAfterARestart(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":{"message":"continuous_usage_stats: extra fields not permitted","type":"BadRequestError","code":400}}`)
			return
		}
		sse(w, delta("a"), usage, done)
	})
	b := newBench(t, []string{e.URL})
	if r := b.chat(streamed); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	b.until("it is told", func() bool { return slices.Equal(b.told(), []factory.Learned{factory.LearnedNo}) })
	after := newBench(t, nil, func(again *bench) { b.set(func(w *world) { again.routes = w.routes }) })
	if r := after.chat(streamed); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	calls := e.seen()
	if len(calls) != 3 || !strings.Contains(calls[0].body, optionContinuous) || strings.Contains(calls[2].body, optionContinuous) || !strings.Contains(calls[2].body, "include_usage") {
		t.Errorf("the engine got %v", calls)
	}
}

// TestNothingIsLearnedFromTooLittle: one usage beside the last choice is a total, as
// old servers put it there.
func TestNothingIsLearnedFromTooLittle(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			sse(w, delta("a"), usage, done)
			return
		}
		events := slices.Repeat([]string{delta("a")}, 10)
		sse(w, append(events, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":10}}`+"\n\n", done)...)
	})
	b := newBench(t, []string{e.URL})
	for range 2 {
		b.chat(streamed)
	}
	b.row(2)
	b.g.lessons.mu.Lock()
	defer b.g.lessons.mu.Unlock()
	if n := len(b.g.lessons.known); n != 0 {
		t.Errorf("learned %v", b.g.lessons.known)
	}
}

// Some engines repeat in their error what they were sent, and a client may write
// anything: only an answer without the option shows that the option was at fault.
func TestAnErrorThatNamesTheOptionTeachesNothing(t *testing.T) {
	var e *engine
	well := countingEngine(t, factory.LearnedYes)
	e = newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if body := e.seen()[n-1].body; strings.Contains(body, "top_logprobs") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"'top_logprobs' needs 'logprobs'; the input had `+optionContinuous+`","type":"BadRequestError","code":400}}`)
			return
		}
		well.Config.Handler.ServeHTTP(w, r)
	})
	b := newBench(t, []string{e.URL})
	wrong := b.chat(`{"model":"demo-small","stream":true,"top_logprobs":3,"messages":[{"role":"user","content":"hi"}]}`)
	if wrong.status != http.StatusBadRequest || len(e.seen()) != 2 {
		t.Errorf("%d after %d calls: %s", wrong.status, len(e.seen()), wrong.body)
	}
	if r := b.chat(streamed); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if body := e.seen()[2].body; !strings.Contains(body, optionContinuous) {
		t.Errorf("the next client's engine is not asked to count any more: %s", body)
	}
	b.until("it is told", func() bool { return len(b.told()) > 0 })
	if told := b.told(); !slices.Equal(told, []factory.Learned{factory.LearnedYes}) {
		t.Errorf("told %v", told)
	}
}
