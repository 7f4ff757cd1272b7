package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"tokenfactory/engines/sim"
	"tokenfactory/factory"
)

// client is the official one, as its users set it up.
func (b *bench) client(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(b.server.URL + "/v1/"), option.WithAPIKey(b.secret)}, options...)...)
}

func params(tokens int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     asked,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something about token factories.")},
		MaxTokens: openai.Int(tokens),
	}
}

func simulated(t *testing.T, o sim.Options) *httptest.Server {
	e := httptest.NewServer(sim.New(o))
	t.Cleanup(e.Close)
	return e
}

func TestTheOfficialClientWorksStreamedAndNot(t *testing.T) {
	b := newBench(t, []string{simulated(t, sim.Options{Model: "weights", TTFT: 5 * time.Millisecond, ITL: time.Millisecond, TokensPerEvent: 3}).URL},
		withRoute(func(r *factory.Route) { r.Deployment.Engine, r.Replicas[0].ServedName = "sim", "weights" }))
	c := b.client()

	plain, err := c.Chat.Completions.New(t.Context(), params(20))
	if err != nil {
		t.Fatal(err)
	}
	u := b.row(1)
	if plain.Model != asked || plain.Usage.CompletionTokens != 20 || u.CompletionTokens != 20 || u.PromptTokens != plain.Usage.PromptTokens || u.PromptTokens == 0 {
		t.Errorf("plain: %+v, row %+v", plain.Usage, u)
	}

	s := c.Chat.Completions.NewStreaming(t.Context(), params(20))
	var all openai.ChatCompletionAccumulator
	for s.Next() {
		chunk := s.Current()
		if chunk.Model != asked || len(chunk.Choices) == 0 || chunk.JSON.Usage.Valid() {
			t.Errorf("chunk %s", chunk.RawJSON())
		}
		all.AddChunk(chunk)
	}
	if s.Err() != nil || len(all.Choices) != 1 || all.Choices[0].Message.Content == "" || all.Choices[0].FinishReason != "length" {
		t.Errorf("stream: %v, %+v", s.Err(), all.Choices)
	}
	v := b.row(2)
	wantTokens(t, v, u.PromptTokens, 20, "", 200)

	asks := params(20)
	asks.StreamOptions.IncludeUsage = openai.Bool(true)
	s = c.Chat.Completions.NewStreaming(t.Context(), asks)
	var last openai.ChatCompletionChunk
	for s.Next() {
		if last.JSON.Usage.Valid() {
			t.Errorf("usage before the end: %s", last.RawJSON())
		}
		last = s.Current()
	}
	if s.Err() != nil || last.Usage.CompletionTokens != 20 || len(last.Choices) != 0 {
		t.Errorf("stream with usage: %v, %s", s.Err(), last.RawJSON())
	}

	if e, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: asked, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("three little words")}}); err != nil || len(e.Data) != 1 || e.Usage.PromptTokens == 0 {
		t.Errorf("embeddings: %v", err)
	}
	if l, err := c.Completions.New(t.Context(), openai.CompletionNewParams{Model: asked, MaxTokens: openai.Int(5), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once")}}); err != nil || l.Usage.CompletionTokens != 5 {
		t.Errorf("completions: %v", err)
	}
	if m, err := c.Models.List(t.Context()); err != nil || len(m.Data) != 1 || m.Data[0].ID != asked {
		t.Errorf("models: %v", err)
	}
	b.row(5)
	b.idle()
}

func TestTheOfficialClientRetriesARateLimitAndGetsIn(t *testing.T) {
	var skew atomic.Int64
	b := newBench(t, []string{plainEngine(t).URL}, withRoute(func(r *factory.Route) { r.Deployment.RequestsPerMinute = 1 }), func(b *bench) {
		b.g.limitClock = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	})
	if r := b.chat(plainly); r.status != 200 {
		t.Fatal(r.body)
	}
	skew.Store(int64(window - 700*time.Millisecond))
	refused := 0
	c := b.client(option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil && resp.StatusCode == 429 {
			refused++
		}
		return resp, err
	}))
	got, err := c.Chat.Completions.New(t.Context(), params(5))
	if err != nil || got.Usage.TotalTokens != 10 {
		t.Fatal(err)
	}
	if refused != 1 {
		t.Errorf("refused %d times", refused)
	}
	b.row(2)
}

func TestTheOfficialClientSeesABrokenStreamAsAnError(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, role, delta("a")); reset(w) })
	b := newBench(t, []string{e.URL})
	c := b.client()
	s := c.Chat.Completions.NewStreaming(t.Context(), params(5))
	n := 0
	for s.Next() {
		n++
	}
	if s.Err() == nil || n != 2 {
		t.Errorf("%d chunks, error %v", n, s.Err())
	}
	wantTokens(t, b.row(1), 0, 1, "estimated,truncated", 200)
}

func TestTheOfficialClientGetsErrorsItUnderstands(t *testing.T) {
	b := newBench(t, []string{plainEngine(t).URL})
	c := b.client(option.WithMaxRetries(0))
	p := params(5)
	p.Model = "nope"
	_, err := c.Chat.Completions.New(t.Context(), p)
	var api *openai.Error
	if !errors.As(err, &api) || api.StatusCode != 404 || api.Code != "model_not_found" || api.Param != "model" || !strings.Contains(api.Message, "nope") {
		t.Errorf("got %v", err)
	}
}

func TestLedgerAndEngineAgreeUnderMixedTraffic(t *testing.T) {
	b := newBench(t, []string{
		simulated(t, sim.Options{Model: asked, TTFT: 2 * time.Millisecond, ITL: time.Millisecond}).URL,
		simulated(t, sim.Options{Model: asked, TTFT: 2 * time.Millisecond, ITL: time.Millisecond, TokensPerEvent: 4}).URL,
	}, withRoute(func(r *factory.Route) { r.Deployment.Engine = "sim" }))
	c := b.client(option.WithMaxRetries(0))
	var wg sync.WaitGroup
	var completed, cancelled, tokens, least atomic.Int64
	for g := range 8 {
		wg.Go(func() {
			for i := range 6 {
				switch (g + i) % 3 {
				case 0:
					r, err := c.Chat.Completions.New(t.Context(), params(12))
					if err != nil {
						t.Error(err)
						return
					}
					completed.Add(1)
					tokens.Add(r.Usage.CompletionTokens)
				case 1:
					p := params(15)
					p.StreamOptions.IncludeUsage = openai.Bool(true)
					s := c.Chat.Completions.NewStreaming(t.Context(), p)
					for s.Next() {
						tokens.Add(s.Current().Usage.CompletionTokens)
					}
					if s.Err() != nil {
						t.Error(s.Err())
					}
					completed.Add(1)
				case 2:
					ctx, cancel := context.WithCancel(t.Context())
					s := c.Chat.Completions.NewStreaming(ctx, params(4000))
					for n := 0; n < 5 && s.Next(); {
						if len(s.Current().Choices) > 0 && s.Current().Choices[0].Delta.Content != "" {
							n++
							least.Add(1)
						}
					}
					cancel()
					s.Close()
					cancelled.Add(1)
				}
			}
		})
	}
	wg.Wait()
	b.row(int(completed.Load() + cancelled.Load()))
	var done, aborted, made, cut int64
	for _, u := range b.ledger() {
		switch u.Flags {
		case "":
			done++
			made += u.CompletionTokens
		case "aborted":
			aborted++
			cut += u.CompletionTokens
		default:
			t.Errorf("row %+v", u)
		}
	}
	if done != completed.Load() || aborted != cancelled.Load() || made != tokens.Load() {
		t.Errorf("ledger: %d done with %d tokens, %d aborted; clients: %d with %d, %d", done, made, aborted, completed.Load(), tokens.Load(), cancelled.Load())
	}
	if cut < least.Load() || cut > 4000*aborted/4 {
		t.Errorf("%d tokens of cancelled streams are in the ledger, clients saw %d events", cut, least.Load())
	}
	b.idle()
}

func TestClosingCutsOpenStreamsAndLosesNothing(t *testing.T) {
	begun := make(chan bool, 1)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		for i := 1; i <= 3; i++ {
			sse(w, running(i))
		}
		begun <- true
		<-r.Context().Done()
	})
	b := newBench(t, []string{e.URL})
	out := make(chan reply, 1)
	go func() { out <- b.chat(streamed) }()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := b.g.Close(ctx); err != nil {
		t.Error(err)
	}
	r := <-out
	if r.err == nil || !strings.Contains(r.body, "being restarted") {
		t.Errorf("the client got %q, %v", r.body, r.err)
	}
	if rows := b.ledger(); len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	wantTokens(t, b.ledger()[0], 12, 3, "truncated", 200)
	if r := b.chat(plainly); r.status != 503 {
		t.Errorf("a new request got %d", r.status)
	}
}

func TestAKilledGatewayLosesNoAnswerThatWasDelivered(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n%2 == 0 {
			sse(w, delta("a"), usage, done)
			return
		}
		_, _ = io.WriteString(w, whole)
	})
	dir := t.TempDir()
	ledger := &world{}
	delivered := map[string]bool{}
	for round := range 5 {
		b := newBench(t, []string{e.URL}, func(b *bench) {
			b.g.SpoolDir = dir
			b.away = round%2 == 0 // nothing may have been moved yet
			b.g.Ledger = ledger
			ledger.away = b.away
			b.world.away = false
		})
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 10 {
					if r := b.chat(plainly); r.status == 200 && r.err == nil {
						mu.Lock()
						delivered[r.header.Get("X-Request-Id")] = true
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		b.g.spool.kill() // from here on as after SIGKILL
	}
	s := openTestSpool(t, dir, 1<<30)
	ledger.set(func(w *world) { w.away = false })
	if err := s.drain(t.Context(), ledger); err != nil {
		t.Fatal(err)
	}
	for _, u := range ledger.ledger() {
		if !delivered[u.ID] {
			t.Errorf("row %s was never delivered", u.ID)
		}
		delete(delivered, u.ID)
	}
	if len(delivered) != 0 {
		t.Errorf("%d answers are missing from the ledger", len(delivered))
	}
}

func Example() {
	g := &Gateway{MaxBody: 32 << 20}
	fmt.Println(g.Open())
	// Output: gateway: Keys, Routes, Ledger, Buckets and SpoolDir are needed
}
