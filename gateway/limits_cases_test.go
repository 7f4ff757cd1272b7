package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

// with is a chat request with more fields, plain or streamed.
func with(fields string, stream bool) string {
	if stream {
		fields += `,"stream":true`
	}
	return `{"model":"demo-small","messages":[{"role":"user","content":"hi"}]` + fields + `}`
}

// forms runs a case for each scope, plain and streamed.
func forms(t *testing.T, f func(t *testing.T, scope factory.Scope, stream bool)) {
	for _, scope := range scopes {
		for _, stream := range []bool{false, true} {
			t.Run(string(scope)+map[bool]string{true: " streamed", false: " plain"}[stream], func(t *testing.T) {
				t.Parallel()
				f(t, scope, stream)
			})
		}
	}
}

func TestLM01ParallelRequestsDoNotPassTheTokenLimitTogether(t *testing.T) {
	forms(t, func(t *testing.T, scope factory.Scope, stream bool) {
		for _, bound := range []string{
			`,"max_tokens":60`, `,"max_completion_tokens":60`, `,"max_tokens":5,"max_completion_tokens":60`,
			`,"max_tokens":20,"n":3`, `,"max_tokens":30,"n":1,"best_of":2`, `,"max_tokens":"60"`,
		} {
			on := make(chan struct{})
			e := counting(t, "4", "8", on)
			b := newLimited(t, scope, factory.Limits{TokensPerMinute: 100}, e.URL)
			replies := b.together(with(bound, stream), 5, 1, func() { close(on) })
			if n := outcomes(replies); n[200] != 1 || n[429] != 4 || len(e.seen()) != 1 {
				t.Errorf("%s: %v, %d upstream calls", bound, n, len(e.seen()))
			}
			for _, r := range replies {
				if r.status == 429 && (r.code() != "rate_limit_exceeded" || r.header.Get(headerScope) != string(scope) || r.header.Get("X-Should-Retry") != "") {
					t.Errorf("%s: %v %s", bound, r.header, r.body)
				}
			}
			b.row(1)
			use := b.g.Use(t.Context(), scope, b.id(scope), factory.Limits{TokensPerMinute: 100})
			if len(use) != 1 || use[0].Used != "12" || use[0].Held != "0" {
				t.Errorf("%s: %+v, want 12 used", bound, use)
			}
			r := b.chat(with(bound, stream))
			if r.status != 200 {
				t.Errorf("%s: then %d %s", bound, r.status, r.body)
			}
			want := "76" // settled: another 12
			if stream {
				want = "27" // the header leaves before the end: 60 and 1 for the prompt are booked
			}
			if got := r.header.Get("X-Ratelimit-Remaining-Tokens"); got != want {
				t.Errorf("%s: %s remain, want %s", bound, got, want)
			}
			b.clear()
		}
	})
}

func TestLM02AFirstRequestWithoutABoundIsAdmitted(t *testing.T) {
	forms(t, func(t *testing.T, scope factory.Scope, stream bool) {
		for _, fields := range []string{``, `,"max_tokens":null`, `,"max_tokens":-1`} {
			e := counting(t, "4", "8", nil)
			b := newLimited(t, scope, factory.Limits{TokensPerMinute: 100}, e.URL)
			r := b.chat(with(fields, stream))
			if r.status != 200 {
				t.Fatalf("%s: %d %s", fields, r.status, r.body)
			}
			want := "88"
			if stream {
				want = "0" // all that is left is booked until the end
			}
			if got := r.header.Get("X-Ratelimit-Remaining-Tokens"); got != want || r.header.Get("X-Ratelimit-Limit-Tokens") != "100" {
				t.Errorf("%s: %s remain, want %s", fields, got, want)
			}
			b.row(1)
			if use := b.g.Use(t.Context(), scope, b.id(scope), factory.Limits{TokensPerMinute: 100}); use[0].Used != "12" {
				t.Errorf("%s: used %s", fields, use[0].Used)
			}
			if sent := e.seen()[0].body; strings.Count(sent, "max_tokens") != strings.Count(fields, "max_tokens") {
				t.Errorf("the engine got %s", sent) // only money is bounded at the engine
			}
			b.clear()
		}
	})
}

func TestLM04SlotsAreFreeAfterEveryKindOfEnd(t *testing.T) {
	bounded := with(`,"max_tokens":5`, true)
	for _, scope := range scopes {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			mode := make(chan string, 1)
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				switch m := <-mode; m {
				case "hang", "silent":
					if m == "hang" {
						sse(w, delta("a"))
					}
					<-r.Context().Done()
				case "reset":
					reset(w)
				case "garbage":
					sse(w, "data: {nonsense\n\n", delta("b"), "data: {\"error\":{\"message\":\"out\"}}\n\n")
				case "400", "500":
					n, _ := strconv.Atoi(m)
					w.WriteHeader(n)
				default:
					sse(w, delta("a"), usage, done)
				}
			})
			b := newLimited(t, scope, factory.Limits{ConcurrentRequests: 1, TokensPerMinute: 1_000_000, Budget: "100"}, e.URL,
				func(b *bench) { b.g.IdleTimeout = 100 * time.Millisecond })
			rounds := 100
			if scope != factory.ScopeKey {
				rounds = 5
			}
			for i := range rounds {
				mode <- "hang"
				ctx, cancel := context.WithCancel(t.Context())
				req := b.request("POST", "/v1/chat/completions", bounded).WithContext(ctx)
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("round %d: %v %v", i, resp, err)
				}
				if _, err := resp.Body.Read(make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					r := b.chat(bounded)
					if r.status != 429 || r.code() != "rate_limit_exceeded" || r.header.Get("Retry-After") != "1" || r.header.Get(headerScope) != string(scope) {
						t.Errorf("a second at once: %d %v %s", r.status, r.header, r.body)
					}
				}
				cancel()
				resp.Body.Close()
				b.idle()
			}
			for _, m := range []string{"silent", "silent", "silent", "reset", "garbage", "400", "500"} {
				mode <- m
				r := b.chat(bounded)
				if r.status == 429 {
					t.Errorf("before %s: %s", m, r.body)
				}
				for len(mode) > 0 {
					<-mode
				}
				b.idle()
			}
			if r := b.chat(`{"model":"demo-small","messages":[`); r.status != 400 {
				t.Errorf("a malformed body: %d", r.status)
			}
			if r := b.chat(`{"model":"nobody","messages":[]}`); r.status != 404 {
				t.Errorf("an unknown model: %d", r.status)
			}
			mode <- "answer"
			if r := b.chat(bounded); r.status != 200 || r.err != nil {
				t.Errorf("then %d %s", r.status, r.body)
			}
			b.clear()
		})
	}
}

func TestLM05EveryScopeSaysWhenToComeBack(t *testing.T) {
	forms(t, func(t *testing.T, scope factory.Scope, stream bool) {
		e := counting(t, "4", "8", nil)
		clock := newClock()
		b := newLimited(t, scope, factory.Limits{RequestsPerMinute: 3}, e.URL, func(b *bench) { b.g.limitClock = clock.now })
		for i, left := range []string{"2", "1", "0"} {
			r := b.chat(with("", stream))
			h := r.header
			if r.status != 200 || h.Get("X-Ratelimit-Limit-Requests") != "3" || h.Get("X-Ratelimit-Remaining-Requests") != left || h.Get(headerScope) != string(scope) {
				t.Errorf("answer %d: %d %v", i+1, r.status, h)
			}
			clock.add(300 * time.Millisecond)
		}
		r := b.chat(with("", stream))
		n, err := strconv.Atoi(r.header.Get("Retry-After"))
		ms, _ := strconv.Atoi(r.header.Get("Retry-After-Ms"))
		if r.status != 429 || r.code() != "rate_limit_exceeded" || gjson.Get(r.body, "error.type").String() != "rate_limit_error" || err != nil || n < 1 || n > 60 {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		if r.header.Get("X-Should-Retry") != "" || r.header.Get(headerScope) != string(scope) || ms < 59_100 || ms > 59_500 || r.header.Get("X-Ratelimit-Remaining-Requests") != "0" {
			t.Errorf("%v", r.header)
		}
		if _, err := time.ParseDuration(r.header.Get("X-Ratelimit-Reset-Requests")); err != nil {
			t.Error(err)
		}
		clock.add(time.Duration(ms-1) * time.Millisecond)
		if r := b.chat(with("", stream)); r.status != 429 {
			t.Errorf("too early: %d", r.status)
		}
		clock.add(time.Millisecond)
		if r := b.chat(with("", stream)); r.status != 200 {
			t.Errorf("as told: %d %s", r.status, r.body)
		}
		b.clear()
	})
}

func TestLM08TokensCountOnEveryEndpoint(t *testing.T) {
	type ask struct{ path, body string }
	asks := []ask{
		{"/v1/chat/completions", with(`,"max_tokens":5`, false)},
		{"/v1/chat/completions", with("", true)},
		{"/v1/completions", `{"model":"demo-small","prompt":"hi"}`},
		{"/v1/embeddings", `{"model":"demo-small","input":"hi"}`},
		{"/v1/responses", `{"model":"demo-small","input":"hi"}`},
		{"/v1/rerank", `{"model":"demo-small","query":"hi","documents":["a","b"]}`},
	}
	for i, first := range asks {
		t.Run(first.path+strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			e := counting(t, "100", "20", nil)
			clock := newClock()
			b := newLimited(t, factory.ScopeKey, factory.Limits{TokensPerMinute: 100}, e.URL, func(b *bench) { b.g.limitClock = clock.now })
			if r := b.post(first.path, first.body); r.status != 200 {
				t.Fatalf("the first: %d %s", r.status, r.body)
			}
			u := b.row(1)
			if u.PromptTokens+u.CompletionTokens != 120 {
				t.Fatalf("row %+v", u)
			}
			for _, a := range asks {
				clock.add(time.Second)
				if r := b.post(a.path, a.body); r.status != 429 || r.code() != "rate_limit_exceeded" {
					t.Errorf("%s within the minute: %d", a.path, r.status)
				}
			}
			clock.add(61*time.Second - time.Duration(len(asks))*time.Second)
			if r := b.chat(plainly); r.status != 200 {
				t.Errorf("after 61 s: %d %s", r.status, r.body)
			}
			if len(e.seen()) != 2 {
				t.Errorf("%d upstream calls", len(e.seen()))
			}
			b.clear()
		})
	}
}

func TestMB02RunningTotalsMoveTheCounterOnce(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 1; i <= 20; i++ {
			sse(w, strings.TrimSuffix(delta("a"), "}\n\n")+`,"usage":{"prompt_tokens":100,"completion_tokens":`+strconv.Itoa(i)+"}}\n\n")
		}
		sse(w, `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`+"\n\n", done)
	})
	l := factory.Limits{TokensPerMinute: 1000, InputTokensPerMinute: 1000, OutputTokensPerMinute: 1000, Budget: "1"}
	for _, scope := range scopes {
		b := newLimited(t, scope, l, e.URL)
		b.chat(streamed)
		wantTokens(t, b.row(1), 100, 20, "", 200)
		got := map[factory.LimitKind]string{}
		for _, u := range b.g.Use(t.Context(), scope, b.id(scope), l) {
			got[u.Kind] = u.Used + "/" + u.Held
		}
		for kind, want := range map[factory.LimitKind]string{factory.LimitTokens: "120/0", factory.LimitInputTokens: "100/0",
			factory.LimitOutputTokens: "20/0", factory.LimitBudget: "0.000027/0"} {
			if got[kind] != want {
				t.Errorf("%s: %s is %s, want %s", scope, kind, got[kind], want)
			}
		}
		b.clear()
	}
}

func TestCS08ALoweredLimitWorksWithinTwoSeconds(t *testing.T) {
	for _, scope := range scopes {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			e := counting(t, "4", "8", nil)
			b := newLimited(t, scope, factory.Limits{RequestsPerMinute: 1000, TokensPerMinute: 100_000}, e.URL)
			for range 3 {
				if r := b.chat(plainly); r.status != 200 {
					t.Fatal(r.status, r.body)
				}
			}
			b.limit(scope, factory.Limits{RequestsPerMinute: 2, TokensPerMinute: 100_000})
			changed := time.Now()
			for time.Since(changed) < 2*time.Second {
				if r := b.chat(plainly); r.status == 429 {
					if r.header.Get("X-Ratelimit-Limit-Requests") != "2" {
						t.Errorf("%v", r.header)
					}
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			if r := b.chat(plainly); r.status != 429 {
				t.Errorf("two seconds after: %d", r.status)
			}
		})
	}
}

func TestARequestThatCanNeverFitIsToldSo(t *testing.T) {
	e := counting(t, "4", "8", nil)
	long := strings.Repeat("word ", 500)
	for _, c := range []struct {
		limits factory.Limits
		body   string
		status int
		says   []string
	}{
		{factory.Limits{TokensPerMinute: 100}, with(`,"max_tokens":200`, false), 429, []string{"100 tokens a minute", "201"}},
		{factory.Limits{TokensPerMinute: 100}, with(`,"max_tokens":100`, true), 429, []string{"100 tokens a minute", "101"}},
		{factory.Limits{TokensPerMinute: 100}, with(`,"max_tokens":40,"n":3`, false), 429, []string{"100 tokens a minute", "121"}},
		{factory.Limits{TokensPerMinute: 100}, with(`,"max_tokens":99`, false), 200, nil},
		{factory.Limits{OutputTokensPerMinute: 100}, with(`,"max_tokens":100`, false), 200, nil},
		{factory.Limits{OutputTokensPerMinute: 100}, with(`,"max_tokens":101`, false), 429, []string{"100 output tokens a minute", "101"}},
		{factory.Limits{OutputTokensPerMinute: 100}, `{"model":"demo-small","prompt":["a","b"],"max_tokens":60}`, 429, []string{"120"}},
		// A prompt that seems long is a guess: never refused for good.
		{factory.Limits{TokensPerMinute: 100}, `{"model":"demo-small","messages":[{"role":"user","content":"` + long + `"}]}`, 200, nil},
		{factory.Limits{InputTokensPerMinute: 100}, `{"model":"demo-small","messages":[{"role":"user","content":"` + long + `"}],"max_tokens":5000}`, 200, nil},
		{factory.Limits{TokensPerMinute: 100}, `{"model":"demo-small","messages":[{"role":"user","content":"` + long + `"}],"max_tokens":50}`, 200, nil},
	} {
		b := newLimited(t, factory.ScopeTenant, c.limits, e.URL)
		path := "/v1/chat/completions"
		if gjson.Get(c.body, "prompt").Exists() {
			path = "/v1/completions"
		}
		r := b.post(path, c.body)
		if r.status != c.status {
			t.Errorf("%+v %.60s: %d %s", c.limits, c.body, r.status, r.body)
		}
		if c.status == 429 {
			for _, s := range c.says {
				if !strings.Contains(gjson.Get(r.body, "error.message").String(), s) {
					t.Errorf("%.60s: %s does not say %s", c.body, r.body, s)
				}
			}
			if r.header.Get("X-Should-Retry") != "false" || r.header.Get("Retry-After") != "" || r.code() != "rate_limit_exceeded" {
				t.Errorf("%.60s: %v", c.body, r.header)
			}
		}
		b.clear()
	}
}

func TestTheTightestLimitIsNamedAndARefusalBooksNothing(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{RequestsPerMinute: 100, TokensPerMinute: 1000, ConcurrentRequests: 10}, e.URL)
	b.limit(factory.ScopeTenant, factory.Limits{TokensPerMinute: 500, RequestsPerMinute: 1000})
	b.limit(factory.ScopeDeployment, factory.Limits{TokensPerMinute: 50})
	b.until("the limits are known", func() bool {
		return b.g.routes.now.Load().byName[asked].Deployment.TokensPerMinute == 50
	})
	b.forgetKeys()
	r := b.chat(with(`,"max_tokens":9`, false))
	h := r.header
	if r.status != 200 || h.Get("X-Ratelimit-Limit-Tokens") != "50" || h.Get("X-Ratelimit-Remaining-Tokens") != "38" ||
		h.Get("X-Ratelimit-Limit-Requests") != "100" || h.Get("X-Ratelimit-Remaining-Requests") != "99" || h.Get(headerScope) != "deployment" {
		t.Errorf("%d %v", r.status, h)
	}
	for range 10 {
		r = b.chat(with(`,"max_tokens":45`, false))
		if r.status != 429 || r.header.Get(headerScope) != "deployment" || r.header.Get("X-Ratelimit-Remaining-Requests") != "99" {
			t.Errorf("%d %v", r.status, r.header)
		}
	}
	if use := b.g.Use(t.Context(), factory.ScopeTenant, "tenant1", factory.Limits{TokensPerMinute: 500, RequestsPerMinute: 1000}); use[0].Used != "1" || use[1].Used != "12" || use[1].Held != "0" {
		t.Errorf("of the tenant: %+v", use)
	}
	b.clear()
}

func TestLimitsThatCannotBeAskedRefuse(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{RequestsPerMinute: 3}, e.URL, func(b *bench) { b.g.Limits = unreachable{} })
	if r := b.chat(plainly); r.status != 503 || r.header.Get("Retry-After") == "" || len(e.seen()) != 0 {
		t.Errorf("%d %v", r.status, r.header)
	}
}

func TestAPanicGivesBackWhatIsBooked(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, delta("a"), delta("b"), usage, done) })
	l := factory.Limits{ConcurrentRequests: 1, TokensPerMinute: 100, Budget: "1"}
	b := newLimited(t, factory.ScopeKey, l, e.URL)
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			b.g.ServeHTTP(&brittle{header: http.Header{}}, b.request("POST", "/v1/chat/completions", streamed))
		}()
		b.clear()
	}
	if r := httptest.NewRecorder(); true {
		b.g.ServeHTTP(r, b.request("POST", "/v1/chat/completions", streamed))
		if r.Code != 200 {
			t.Errorf("then %d %s", r.Code, r.Body)
		}
	}
	b.clear()
}
