package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

const (
	fast       = `{"model":"fast","messages":[]}`
	fastStream = `{"model":"fast","stream":true,"messages":[]}`
)

// aliased is a gateway with the alias fast: first, and after it the fallbacks second
// and third.
func aliased(t *testing.T, first, second, third factory.Route, setups ...func(*bench)) *bench {
	t.Helper()
	for i, r := range []*factory.Route{&first, &second, &third} {
		for k := range r.Replicas {
			r.Replicas[k].ID = r.Deployment.ID + "/" + string(rune('A'+k))
			r.Replicas[k].ServedName = "served/" + r.Deployment.PublicName
		}
		r.Deployment.Price = &factory.Price{ID: "price-" + r.Deployment.PublicName}
		r.Deployment.ContextLength = 1000 * (3 - i)
	}
	return newBench(t, nil, append([]func(*bench){func(b *bench) {
		b.routes = []factory.Route{first, second, third}
		b.world.aliases = []factory.Alias{{ID: "a1", Name: "fast", CreatedAt: time.Unix(1_700_000_000, 0),
			Targets:   []factory.AliasTarget{{DeploymentID: first.Deployment.ID, Weight: 1}},
			Fallbacks: []factory.AliasTarget{{DeploymentID: second.Deployment.ID}, {DeploymentID: third.Deployment.ID}}}}
	}}, setups...)...)
}

// named answers streams and others, and says which model it is.
func named(t *testing.T, model string) *engine {
	return newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Header.Get("Accept") == "text/event-stream" {
			sse(w, strings.ReplaceAll(delta("a")+usage+done, asked, model))
			return
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(whole, asked, model))
	})
}

func (b *bench) fast(stream bool) reply {
	body := fast
	if stream {
		body = fastStream
	}
	req := b.request("POST", "/v1/chat/completions", body)
	if stream {
		req.Header.Set("Accept", "text/event-stream")
	}
	return b.do(req)
}

func TestAnAliasFallsBackUntilSomethingServes(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deadEnd := "http://" + ln.Addr().String()
	ln.Close()
	breaks := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { reset(w) })
	full := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(429)
	})
	for name, c := range map[string]struct {
		first    factory.Route
		attempts [2]int // mostly, the second request does not pay for finding out
	}{
		"without a replica":         {routeTo("first"), [2]int{1, 1}},
		"refusing connections":      {routeTo("first", deadEnd), [2]int{2, 1}},
		"breaking off":              {routeTo("first", breaks.URL, breaks.URL), [2]int{3, 3}},
		"too busy":                  {routeTo("first", full.URL), [2]int{2, 1}},
		"stopped":                   {stoppedRoute("first"), [2]int{1, 1}},
		"without the path":          {offering("first", breaks.URL), [2]int{1, 1}},
		"not shared":                {sharedWith("first", "somebody", breaks.URL), [2]int{1, 1}},
		"reached under other hosts": {at("first", "other.example.org", breaks.URL), [2]int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			e := named(t, "served/third")
			b := aliased(t, c.first, routeTo("second"), routeTo("third", e.URL))
			path, host := "/v1/chat/completions", ""
			switch name {
			case "without the path":
				path = "/v1/responses"
			case "reached under other hosts":
				host = "mine.example.org"
				b.change(func(w *world) { w.routes[2].Hostname = host })
			}
			for i, stream := range []bool{false, true} {
				req := b.request("POST", path, []string{fast, fastStream}[i])
				if stream {
					req.Header.Set("Accept", "text/event-stream")
				}
				if host != "" {
					req.Host = host
				}
				r := b.do(req)
				if r.status != 200 || r.err != nil || strings.Contains(r.body, "served/") || !strings.Contains(r.body, `"model":"fast"`) {
					t.Fatalf("%d %v %s", r.status, r.err, r.body)
				}
				u := b.row(i + 1)
				if u.ModelAsked != "fast" || u.ModelServed != "served/third" || u.DeploymentID != "dep-third" || u.PriceID != "price-third" ||
					u.ReplicaID != "dep-third/A" || u.Flags != "" || u.CompletionTokens != 2 || u.Attempts != c.attempts[i] {
					t.Errorf("row %+v", u)
				}
			}
			b.idle()
		})
	}
}

func stoppedRoute(name string) factory.Route {
	r := routeTo(name)
	r.Deployment.Stopped = true
	return r
}

func offering(name, url string) factory.Route {
	r := routeTo(name, url)
	r.Deployment.Engine = "sim" // no responses
	return r
}

func sharedWith(name, tenant, url string) factory.Route {
	r := routeTo(name, url)
	r.Deployment.SharedWithAll, r.Deployment.TenantIDs = false, []string{tenant}
	return r
}

func at(name, host, url string) factory.Route {
	r := routeTo(name, url)
	r.Hostname = host
	return r
}

func TestAnAliasWithoutAnythingThatServesSaysSoUnderItsName(t *testing.T) {
	b := aliased(t, routeTo("first"), routeTo("second"), routeTo("third"))
	r := b.fast(true)
	if message := gjson.Get(r.body, "error.message").String(); r.status != 503 || !strings.Contains(message, "`fast`") || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	wantTokens(t, b.row(1), 0, 0, "failed", 503)
}

func TestAnAliasGoesOnOnlyUntilAnEventWasSent(t *testing.T) {
	broken := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		sse(w, delta("Hel"))
		reset(w)
	})
	refusing := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"BadRequestError","code":400}}`)
	})
	for name, first := range map[string]*engine{"broken": broken, "refusing": refusing} {
		e := named(t, "x")
		b := aliased(t, routeTo("first", first.URL), routeTo("second", e.URL), routeTo("third", e.URL))
		r := b.fast(true)
		if len(e.seen()) != 0 || r.status == 200 && r.err == nil || strings.Count(r.body, "Hel") > 1 {
			t.Errorf("%s: %d %v %s", name, r.status, r.err, r.body)
		}
		if u := b.row(1); u.DeploymentID != "dep-first" || u.Attempts != 1 {
			t.Errorf("%s: row %+v", name, u)
		}
		b.idle()
	}
}

// TestAnAliasWaitsForWhatIsComing: else what sleeps behind an alias never wakes.
func TestAnAliasWaitsForWhatIsComing(t *testing.T) {
	one, two := named(t, "a"), named(t, "b")
	first := routeTo("first")
	sleeping(&first)
	b := aliased(t, first, routeTo("second", two.URL), routeTo("third"), func(b *bench) { b.g.HoldMost = 1 })
	got := make(chan reply)
	go func() { got <- b.fast(false) }()
	b.waiting(1)
	// Beyond the bound it is out of reach.
	if r := b.fast(false); r.status != 200 || len(two.seen()) != 1 {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.change(func(w *world) { w.routes[0].Replicas = routeTo("first", one.URL).Replicas })
	if r := <-got; r.status != 200 || len(one.seen()) != 1 {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.idle()
}

func TestAliasesAreListedForThoseWhoMayUseThem(t *testing.T) {
	e := named(t, "x")
	b := aliased(t, sharedWith("first", "somebody", e.URL), routeTo("second", e.URL), sharedWith("third", "somebody", e.URL))
	list := b.do(b.request("GET", "/v1/models", ""))
	if ids := gjson.Get(list.body, "data.#.id").String(); ids != `["fast","second"]` {
		t.Errorf("listed are %s", ids)
	}
	one := b.do(b.request("GET", "/v1/models/fast", ""))
	if one.status != 200 || gjson.Get(one.body, "id").String() != "fast" || gjson.Get(one.body, "max_model_len").Int() != 2000 || gjson.Get(one.body, "created").Int() != 1_700_000_000 {
		t.Errorf("%d %s", one.status, one.body)
	}
	b.change(func(w *world) {
		w.routes[1].Deployment.SharedWithAll = false
	})
	list = b.do(b.request("GET", "/v1/models", ""))
	if n := gjson.Get(list.body, "data.#").Int(); n != 0 {
		t.Errorf("listed are %s", list.body)
	}
	for _, r := range []reply{b.do(b.request("GET", "/v1/models/fast", "")), b.fast(false)} {
		if r.status != 404 || gjson.Get(r.body, "error.code").String() != "model_not_found" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

func TestADeploymentIsNotHiddenByAnAliasOfItsName(t *testing.T) {
	e, other := plainEngine(t), plainEngine(t)
	b := newBench(t, []string{e.URL}, func(b *bench) {
		b.routes = append(b.routes, routeTo("other", other.URL))
		b.world.aliases = []factory.Alias{{ID: "a1", Name: asked, Targets: []factory.AliasTarget{{DeploymentID: "dep-other", Weight: 1}}}}
	})
	if r := b.chat(plainly); r.status != 200 || len(e.seen()) != 1 || len(other.seen()) != 0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if list := b.do(b.request("GET", "/v1/models", "")); gjson.Get(list.body, "data.#").Int() != 2 {
		t.Errorf("listed are %s", list.body)
	}
}

// TestOnlyADeploymentsOwnLimitMakesAnAliasGoOn: those of key and tenant hold
// everywhere.
func TestOnlyADeploymentsOwnLimitMakesAnAliasGoOn(t *testing.T) {
	one := factory.Limits{RequestsPerMinute: 1}
	for name, c := range map[string]struct {
		limit  func(*bench)
		status int
		second int
	}{
		"deployment": {func(b *bench) { b.routes[0].Deployment.Limits = one }, 200, 2},
		"key":        {func(b *bench) { b.limit(factory.ScopeKey, one) }, 429, 0},
		"tenant":     {func(b *bench) { b.limit(factory.ScopeTenant, one) }, 429, 0},
		"everywhere": {func(b *bench) {
			for i := range b.routes {
				b.routes[i].Deployment.Limits = one
			}
		}, 429, 1},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := named(t, "a"), named(t, "b")
			b := aliased(t, routeTo("first", first.URL), routeTo("second", second.URL), routeTo("third"), c.limit)
			if name == "everywhere" {
				b.change(func(w *world) { w.routes = w.routes[:2] })
			}
			var r reply
			for range 3 {
				r = b.fast(false)
			}
			if r.status != c.status || len(first.seen()) != 1 || len(second.seen()) != c.second {
				t.Errorf("%d %s, with %d and %d calls", r.status, r.body, len(first.seen()), len(second.seen()))
			}
			if c.status == 429 && (gjson.Get(r.body, "error.code").String() != "rate_limit_exceeded" || r.header.Get("Retry-After") == "") {
				t.Errorf("%v %s", r.header, r.body)
			}
			if name == "deployment" && r.header.Get("X-Ratelimit-Limit-Requests") != "" {
				t.Errorf("the answer tells of limits of another deployment: %v", r.header)
			}
			b.row(1 + c.second)
			b.idle()
		})
	}
}

func TestWhatWasBookedForADeploymentThatFailedIsGivenBack(t *testing.T) {
	first := routeTo("first")
	first.Deployment.Limits = factory.Limits{RequestsPerMinute: 1}
	e := named(t, "x")
	b := aliased(t, first, routeTo("second", e.URL), routeTo("third"), func(b *bench) {
		b.limit(factory.ScopeKey, factory.Limits{RequestsPerMinute: 3, ConcurrentRequests: 1})
	})
	for range 3 {
		if r := b.fast(false); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	// None of the three counts against the first, and each once against the key.
	b.change(func(w *world) { w.routes[0].Replicas = routeTo("first", e.URL).Replicas })
	if r := b.fast(false); r.status != 429 {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.limit(factory.ScopeKey, factory.Limits{})
	b.until("the limit of the key is lifted", func() bool { return b.fast(false).status == 200 })
	rows := b.ledger()
	b.until("the first served", func() bool { rows = b.ledger(); return len(rows) == 4 })
	if u := rows[3]; u.DeploymentID != "dep-first" {
		t.Errorf("row %+v", u)
	}
}

// A request that failed at the first deployment counts, although the fallback had
// no room for it.
func TestARequestThatFailedCountsAlthoughAFallbackWasTried(t *testing.T) {
	first, second := routeTo("first"), routeTo("second")
	second.Deployment.Limits.TokensPerMinute = 1
	b := aliased(t, first, second, routeTo("third"), func(b *bench) {
		b.aliases[0].Fallbacks = b.aliases[0].Fallbacks[:1]
		for h, k := range b.keys {
			k.RequestsPerMinute = 1
			b.keys[h] = k
		}
	})
	body := `{"model":"fast","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`
	if r := b.chat(body); r.status != http.StatusServiceUnavailable || r.header.Get("X-Tokenfactory-Limit-Scope") != string(factory.ScopeKey) {
		t.Errorf("the first: %d %v %s", r.status, r.header, r.body)
	}
	if r := b.chat(body); r.status != http.StatusTooManyRequests {
		t.Errorf("the second, of one a minute: %d %s", r.status, r.body)
	}
}
