package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

// Ways in which a client could try to be let in for less than it takes.

func TestManyTextsAreNotCountedAsOneContext(t *testing.T) {
	texts := strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("word ", 400)+`",`, 500), ",")
	for path, body := range map[string]string{
		"/v1/embeddings":  `{"model":"` + asked + `","input":[` + texts + `]}`,
		"/v1/completions": `{"model":"` + asked + `","max_tokens":1,"prompt":[` + texts + `]}`,
		"/v1/rerank":      `{"model":"` + asked + `","query":"q","documents":[` + texts + `]}`,
	} {
		for kind, l := range map[string]factory.Limits{"budget": {Budget: "0.001"}, "input": {InputTokensPerMinute: 100_000}} {
			e := counting(t, "200000", "0", nil)
			b := newLimited(t, factory.ScopeKey, l, e.URL, withRoute(func(r *factory.Route) { r.Deployment.ContextLength = 2048 }))
			first, second := b.post(path, body), b.post(path, body)
			if second.status != http.StatusTooManyRequests || (kind == "budget" && first.status != http.StatusTooManyRequests) {
				t.Errorf("%s, %s: %d, then %d", path, kind, first.status, second.status)
			}
		}
	}
}

func TestOnlyFieldsThatTheEngineReadsAreABound(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"hi"}],"n_predict":1}`
	for engine, stated := range map[string]bool{"llamacpp": true, "vllm": false, "sglang": false} {
		if b := readBound([]byte(body), "chat.completions", engine); b.stated != stated {
			t.Errorf("%s: stated %v", engine, b.stated)
		}
	}
}

func TestARepeatedBoundIsRefused(t *testing.T) {
	for _, field := range []string{`"max_tokens":1,"max_tokens":2`, `"max_completion_tokens":1,"max_tokens":1,"max_completion_tokens":9`, `"n":1,"n":50`, `"best_of":1,"best_of":5`} {
		e := counting(t, "4", "8", nil)
		b := newLimited(t, factory.ScopeKey, factory.Limits{Budget: "1"}, e.URL)
		r := b.chat(`{"model":"` + asked + `","messages":[],` + field + `}`)
		if r.status != http.StatusBadRequest || len(e.seen()) != 0 {
			t.Errorf("%s: %d %s", field, r.status, r.body)
		}
	}
}

func TestBoundsDoNotOverflow(t *testing.T) {
	prompts := strings.TrimSuffix(strings.Repeat(`"",`, 1<<19), ",")
	for _, n := range []string{"1", "1048576", "9223372036854775807", "1e300"} {
		body := `{"n":` + n + `,"best_of":` + n + `,"max_tokens":9223372036854775807,"prompt":[` + prompts + `]}`
		b := readBound([]byte(body), "completions", "vllm")
		for _, context := range []int64{0, 1, 131072, 100_000_000} {
			output, _ := b.outputTokens(context, b.estimate)
			if most := b.promptMost(context); output < 1 || most < 1 || output+most < output {
				t.Errorf("n %s, context %d: output %d, prompt %d", n, context, output, most)
			}
		}
	}
}

// How long a prompt is is a guess: it must not make room for more output.
func TestALongPromptDoesNotShrinkTheBookedOutput(t *testing.T) {
	images := strings.Repeat(`{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},`, 8)
	e := counting(t, "100", "4000", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{OutputTokensPerMinute: 4000}, e.URL, withRoute(func(r *factory.Route) { r.Deployment.ContextLength = 8192 }))
	b.chat(`{"model":"` + asked + `","stream":true,"max_tokens":4000,"messages":[{"role":"user","content":[` + images + `{"type":"text","text":"x"}]}]}`)
	if s := b.memory().windows[limitKey{factory.ScopeKey, factory.LimitOutputTokens, b.id(factory.ScopeKey)}]; s.total != 4000 {
		t.Errorf("%d are counted", s.total)
	}
}

func TestAnAbsurdCountOpensNoLimit(t *testing.T) {
	e := counting(t, "9223372036854775807", "9223372036854775807", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{TokensPerMinute: 100}, e.URL)
	for i, want := range []int{200, 429, 429} {
		if r := b.chat(with(`,"max_tokens":5`, false)); r.status != want {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	if u := b.row(1); u.PromptTokens != tokensMost || u.CompletionTokens != tokensMost {
		t.Errorf("row %+v", u)
	}
}

func TestARefusalCountsOnlyWhenNobodyServes(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{}, e.URL, func(b *bench) {
		first, second := b.routes[0], b.routes[0]
		first.Deployment.Limits = factory.Limits{RequestsPerMinute: 1}
		second.Deployment.ID, second.Deployment.PublicName = "dep-second", "second"
		b.routes = []factory.Route{first, second}
		b.aliases = []factory.Alias{{ID: "a", Name: "fast", Targets: []factory.AliasTarget{{DeploymentID: first.Deployment.ID, Weight: 1}},
			Fallbacks: []factory.AliasTarget{{DeploymentID: "dep-second"}}}}
	})
	for range 3 {
		if r := b.chat(`{"model":"fast","messages":[]}`); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if rows, _ := b.g.refused.take(); len(rows) != 0 {
		t.Errorf("counted although served: %+v", rows)
	}
	if r := b.chat(plainly); r.status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if rows, _ := b.g.refused.take(); len(rows) != 1 || rows[0].Count != 1 || rows[0].Scope != factory.ScopeDeployment {
		t.Errorf("counted %+v", rows)
	}
}

func TestLeavingEarlyDoesNotMakeAPromptFree(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		sse(w, delta("a"), delta("b"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	b := newBench(t, []string{e.URL})
	ctx, cancel := context.WithCancel(t.Context())
	req := b.request("POST", "/v1/chat/completions", `{"model":"`+asked+`","stream":true,"messages":[{"role":"user","content":"`+strings.Repeat("word ", 5000)+`"}]}`).WithContext(ctx)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = resp.Body.Read(make([]byte, 10))
	cancel()
	if u := b.row(1); u.PromptTokens < 4000 || u.PromptTokens > 8000 || u.Flags != "aborted,estimated" {
		t.Errorf("row %+v", u)
	}
}

// oneUnreadable is a ledger that cannot tell of one tenant.
type oneUnreadable struct {
	Spending
	bad string
}

func (o oneUnreadable) Spent(ctx context.Context, scope factory.Scope, id string, from, to time.Time) ([]factory.PricedTokens, error) {
	if id == o.bad {
		return nil, errors.New("not this one")
	}
	return o.Spending.Spent(ctx, scope, id, from, to)
}

func TestAnAccountThatCannotBeReadIsInNobodysWay(t *testing.T) {
	e := counting(t, "4", "8", nil)
	l := factory.Limits{Budget: "1"}
	b := newLimited(t, factory.ScopeKey, l, e.URL, func(b *bench) { b.g.Spending = oneUnreadable{b.g.Spending, "other-tenant"} })
	if u := b.g.Use(t.Context(), factory.ScopeTenant, "other-tenant", l); !u[0].Unknown {
		t.Errorf("%+v", u)
	}
	if r := b.chat(with(`,"max_tokens":5`, false)); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestALookCountsNothing(t *testing.T) {
	m := ledgerless()
	c := perMinute(factory.ScopeKey, 3)
	for i := range 3 {
		m.Use(t.Context(), noon, []Claim{c})
		if s := reserve(t, m, fmt.Sprint(i), noon, c); s.Refused != nil {
			t.Fatalf("%+v", s.Refused)
		}
	}
	if len(m.windows) != 1 {
		t.Errorf("%d windows", len(m.windows))
	}
}
