package gateway

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

// Each kind of end counts what the ledger bills, and nothing of what was booked.
func TestEveryEndCountsWhatIsBilled(t *testing.T) {
	l := factory.Limits{RequestsPerMinute: 100, TokensPerMinute: 10_000, InputTokensPerMinute: 10_000, OutputTokensPerMinute: 10_000, ConcurrentRequests: 5, Budget: "1"}
	counted := func(n int) string {
		return strings.TrimSuffix(delta("a"), "}\n\n") + `,"usage":{"prompt_tokens":12,"completion_tokens":` + strconv.Itoa(n) + "}}\n\n"
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		read   int // bytes that the client waits for before it leaves; 0: it stays
		flag   string
	}{
		{"whole", func(w http.ResponseWriter, r *http.Request) { sse(w, counted(1), counted(2), done) }, 0, ""},
		{"left in mid-stream", func(w http.ResponseWriter, r *http.Request) {
			sse(w, counted(1), counted(2))
			<-r.Context().Done()
		}, 40, "aborted"},
		{"broken off", func(w http.ResponseWriter, r *http.Request) { sse(w, counted(1), counted(2)) }, 0, "truncated"},
		{"an error in mid-stream", func(w http.ResponseWriter, r *http.Request) {
			sse(w, counted(1), "data: {\"error\":{\"message\":\"out of memory\"}}\n\n")
		}, 0, "truncated"},
		{"silent in mid-stream", func(w http.ResponseWriter, r *http.Request) {
			sse(w, counted(1))
			<-r.Context().Done()
		}, 0, "truncated"},
		{"refused by the engine", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400) }, 0, ""},
		{"failed", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, 0, "failed"},
		{"no usage", func(w http.ResponseWriter, r *http.Request) { sse(w, delta("a"), delta("b"), done) }, 0, "estimated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) { c.answer(w, r) })
			b := newLimited(t, factory.ScopeTenant, l, e.URL, func(b *bench) { b.g.IdleTimeout = 200 * time.Millisecond })
			resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", with(`,"max_tokens":500`, true)))
			if err != nil {
				t.Fatal(err)
			}
			if c.read > 0 {
				if _, err := io.ReadFull(resp.Body, make([]byte, c.read)); err != nil {
					t.Fatal(err)
				}
			} else {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			resp.Body.Close()
			u := b.row(1)
			if u.Flags != c.flag {
				t.Errorf("flags %q", u.Flags)
			}
			want := map[factory.LimitKind]string{
				factory.LimitRequests:     "1",
				factory.LimitTokens:       strconv.FormatInt(u.PromptTokens+u.CompletionTokens, 10),
				factory.LimitInputTokens:  strconv.FormatInt(u.PromptTokens, 10),
				factory.LimitOutputTokens: strconv.FormatInt(u.CompletionTokens, 10),
				factory.LimitConcurrency:  "0",
				factory.LimitBudget:       b.billed(),
			}
			b.clear()
			for _, use := range b.g.Use(t.Context(), factory.ScopeTenant, "tenant1", l) {
				if use.Used != want[use.Kind] || use.Held != "0" {
					t.Errorf("%s: %s used and %s held, want %s", use.Kind, use.Used, use.Held, want[use.Kind])
				}
			}
		})
	}
}

// When another deployment of an alias takes over, what was booked for the first is
// given back and the second one's limits hold.
func TestAFallbackTakesItsBookingAlong(t *testing.T) {
	bad := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(503) })
	good := counting(t, "4", "8", nil)
	l := factory.Limits{TokensPerMinute: 100, ConcurrentRequests: 1, Budget: "1"}
	b := newLimited(t, factory.ScopeDeployment, l, bad.URL, func(b *bench) {
		second := routeTo("other", good.URL)
		price := p1
		second.Deployment.Price, second.Deployment.Limits = &price, factory.Limits{TokensPerMinute: 200, Budget: "2"}
		b.routes = append(b.routes, second)
		b.aliases = []factory.Alias{{ID: "a", Name: "either", Targets: []factory.AliasTarget{{DeploymentID: "dep-" + asked, Weight: 1}},
			Fallbacks: []factory.AliasTarget{{DeploymentID: "dep-other"}}}}
	})
	r := b.chat(`{"model":"either","messages":[],"max_tokens":50}`)
	if r.status != 200 || r.header.Get("X-Ratelimit-Limit-Tokens") != "200" || r.header.Get("X-Ratelimit-Remaining-Tokens") != "188" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	b.row(1)
	b.clear()
	for id, want := range map[string]string{"dep-" + asked: "0", "dep-other": "12"} {
		if use := b.g.Use(t.Context(), factory.ScopeDeployment, id, factory.Limits{TokensPerMinute: 200}); use[0].Used != want {
			t.Errorf("%s: %s used, want %s", id, use[0].Used, want)
		}
	}
	if use := b.g.Use(t.Context(), factory.ScopeDeployment, "dep-other", factory.Limits{Budget: "2"}); use[0].Used != "0.0000054" {
		t.Errorf("%+v", use)
	}
	// The limit of the first alone does not keep a request out.
	r = b.chat(`{"model":"either","messages":[],"max_tokens":150}`)
	if r.status != 200 || r.header.Get("X-Ratelimit-Limit-Tokens") != "200" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	// The limit of a key does.
	b.limit(factory.ScopeKey, factory.Limits{TokensPerMinute: 10})
	b.forgetKeys()
	if r = b.chat(`{"model":"either","messages":[],"max_tokens":50}`); r.status != 429 || r.header.Get(headerScope) != "key" || r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	b.clear()
}
