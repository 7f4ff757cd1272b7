package gateway

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

func plainEngine(t *testing.T) *engine {
	return newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if strings.Contains(r.Header.Get("Accept"), "event-stream") {
			sse(w, delta("a"), usage, done)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
	})
}

func TestKeysAreTakenFromAnyOfTheUsualHeaders(t *testing.T) {
	b := newBench(t, []string{plainEngine(t).URL})
	for header, value := range map[string]string{"Authorization": "bearer " + b.secret, "Api-Key": b.secret, "X-Api-Key": b.secret} {
		req := b.request("GET", "/v1/models", "")
		req.Header.Del("Authorization")
		req.Header.Set(header, value)
		if r := b.do(req); r.status != 200 {
			t.Errorf("%s: %d %s", header, r.status, r.body)
		}
	}
}

func TestRefusedKeysGetAReasonAndAreNeverRepeated(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	b := newBench(t, []string{plainEngine(t).URL})
	for name, c := range map[string]struct {
		key    factory.Key
		status int
		code   string
		says   string
	}{
		"revoked":    {factory.Key{Scope: factory.ScopeInference, RevokedAt: &past}, 401, "invalid_api_key", "revoked"},
		"expired":    {factory.Key{Scope: factory.ScopeInference, ExpiresAt: &past}, 401, "invalid_api_key", "expired"},
		"management": {factory.Key{Scope: factory.ScopeManagement}, 403, "insufficient_scope", "management"},
		"unknown":    {factory.Key{}, 401, "invalid_api_key", "not known"},
	} {
		secret, hash := factory.NewSecret(factory.PrefixKey)
		if c.key.Scope != "" {
			c.key.ID = name
			b.set(func(w *world) { w.keys[hash] = c.key })
		}
		req := b.request("POST", "/v1/chat/completions", plainly)
		req.Header.Set("Authorization", "Bearer "+secret)
		r := b.do(req)
		if r.status != c.status || gjson.Get(r.body, "error.code").String() != c.code || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if strings.Contains(r.body+b.logs.String(), secret[8:]) {
			t.Errorf("%s: the key is repeated", name)
		}
	}
	req := b.request("POST", "/v1/chat/completions", plainly)
	req.Header.Del("Authorization")
	if r := b.do(req); r.status != 401 || !strings.Contains(r.body, "carries no API key") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := len(b.ledger()); n != 0 {
		t.Errorf("%d rows for refused requests", n)
	}
}

func TestARevokedKeyStopsWorkingWithinTwoSeconds(t *testing.T) {
	b := newBench(t, []string{plainEngine(t).URL})
	get := func() int { return b.do(b.request("GET", "/v1/models", "")).status }
	if get() != 200 {
		t.Fatal("the key does not work")
	}
	var revoked time.Time
	b.set(func(w *world) {
		revoked = time.Now()
		for h, k := range w.keys {
			k.RevokedAt = &revoked
			w.keys[h] = k
		}
	})
	b.until("the key is refused", func() bool { return get() == 401 })
	// Two seconds are promised; the rest is for a busy machine.
	if d := time.Since(revoked); d > 4*time.Second {
		t.Errorf("it worked for %v more", d)
	}
}

func TestAKeyIsLookedUpOnceASecondAtMost(t *testing.T) {
	b := newBench(t, []string{plainEngine(t).URL})
	begun := time.Now()
	for range 200 {
		b.do(b.request("GET", "/v1/models", ""))
	}
	limit := 2 + int(time.Since(begun)/keyFresh)
	b.set(func(w *world) {
		if w.lookups > limit {
			t.Errorf("%d look-ups", w.lookups)
		}
	})
}

func TestWhileTheStoreIsAwayWhatIsKnownKeepsWorking(t *testing.T) {
	b := newBench(t, []string{plainEngine(t).URL})
	if r := b.chat(plainly); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	b.set(func(w *world) { w.away = true })
	// Past the time for which an answer of the store is used as it is.
	b.g.keys.mu.Lock()
	for _, e := range b.g.keys.entries {
		e.checked = e.checked.Add(-3 * time.Second)
	}
	b.g.keys.mu.Unlock()
	if r := b.chat(plainly); r.status != 200 {
		t.Errorf("a known key got %d %s", r.status, r.body)
	}
	req := b.request("POST", "/v1/chat/completions", plainly)
	req.Header.Set("Authorization", "Bearer sk-tf-never-seen")
	if r := b.do(req); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("an unknown key got %d %s", r.status, r.body)
	}
	// Bounded: nobody can revoke anything meanwhile.
	b.g.keys.mu.Lock()
	for _, e := range b.g.keys.entries {
		e.checked = e.checked.Add(-outage)
	}
	b.g.keys.mu.Unlock()
	if r := b.chat(plainly); r.status != 503 {
		t.Errorf("a key that was checked long ago got %d %s", r.status, r.body)
	}
	b.set(func(w *world) { w.away = false })
	b.until("it works again", func() bool { return b.chat(plainly).status == 200 })
	b.until("all usage is in the ledger", func() bool { return len(b.ledger()) == 3 })
}

func TestBadRequestsAreRefusedWithAReason(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL})
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/v1/chat/completions", `{"model":"demo-small"`, 400, "not valid JSON"},
		{"POST", "/v1/chat/completions", ``, 400, "not valid JSON"},
		{"POST", "/v1/chat/completions", `[1]`, 400, "not a JSON object"},
		{"POST", "/v1/chat/completions", `{"messages":[]}`, 400, "`model` is missing"},
		{"POST", "/v1/chat/completions", `{"model":5}`, 400, "has to be a text"},
		{"POST", "/v1/chat/completions", `{"model":"demo-small","model":"other"}`, 400, "twice"},
		{"POST", "/v1/chat/completions", `{"model":"demo-small","stream_options":{},"stream_options":{}}`, 400, "twice"},
		{"POST", "/v1/audio/speech", `{"model":"demo-small"}`, 404, "nothing at"},
		{"GET", "/v1/responses/resp_1", ``, 404, "nothing at"},
		{"GET", "/v1/rerank", ``, 405, "POST only"},
		{"POST", "/v1", `{}`, 404, "nothing at"},
		{"GET", "/v1/chat/completions", ``, 405, "POST only"},
		{"POST", "/v1/models", `{}`, 405, "GET only"},
		{"GET", "/v1/models/nope", ``, 404, "`nope` does not exist"},
	} {
		r := b.do(b.request(c.method, c.path, c.body))
		if r.status != c.status || !strings.Contains(gjson.Get(r.body, "error.message").String(), c.says) ||
			r.header.Get("Content-Type") != "application/json" || gjson.Get(r.body, "error.type").String() == "" || r.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, r.status, r.body)
		}
		if c.status == 405 && r.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if n := len(e.seen()); n != 0 {
		t.Errorf("%d upstream calls", n)
	}
}

func TestTenantsAndEndpointsSeeTheirOwnModelsOnly(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, nil, func(b *bench) {
		mine, other, open, hosted := routeTo("mine", e.URL), routeTo("other", e.URL), routeTo("open", e.URL), routeTo("hosted", e.URL)
		mine.Deployment.SharedWithAll, mine.Deployment.TenantIDs = false, []string{"tenant1"}
		other.Deployment.SharedWithAll, other.Deployment.TenantIDs = false, []string{"tenant2"}
		hosted.Hostname = "llm.example.org"
		b.routes = []factory.Route{mine, other, open, hosted}
	})
	for _, c := range []struct {
		host string
		want string
	}{
		{"", "hosted mine open"},
		{"llm.example.org", "hosted"},
		{"LLM.example.org.:8443", "hosted"},
		{"elsewhere.example.org", "hosted mine open"},
	} {
		req := b.request("GET", "/v1/models", "")
		req.Host = c.host
		var names []string
		for _, id := range gjson.Get(b.do(req).body, "data.#.id").Array() {
			names = append(names, id.String())
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%q: models %s, want %s", c.host, got, c.want)
		}
		for _, name := range []string{"mine", "other", "open", "hosted"} {
			req := b.request("POST", "/v1/chat/completions", `{"model":"`+name+`"}`)
			req.Host = c.host
			want := 404
			if strings.Contains(c.want, name) {
				want = 200
			}
			if r := b.do(req); r.status != want {
				t.Errorf("%q: chat with %s: %d, want %d", c.host, name, r.status, want)
			}
		}
	}
}

func TestLM05RefusalsSayWhenToComeBack(t *testing.T) {
	for name, accept := range map[string]string{"plain": "", "streamed": "text/event-stream"} {
		t.Run(name, func(t *testing.T) {
			e := plainEngine(t)
			now := time.Now()
			b := newBench(t, []string{e.URL}, func(b *bench) {
				b.g.limitClock = func() time.Time { return now }
				for h, k := range b.keys {
					k.RequestsPerMinute = 3
					b.keys[h] = k
				}
			})
			ask := func() reply {
				req := b.request("POST", "/v1/chat/completions", plainly)
				req.Header.Set("Accept", accept)
				return b.do(req)
			}
			for _, left := range []string{"2", "1", "0"} {
				r := ask()
				if r.status != 200 || r.header.Get("x-ratelimit-limit-requests") != "3" || r.header.Get("x-ratelimit-remaining-requests") != left || r.header.Get("x-ratelimit-reset-requests") == "" {
					t.Errorf("%d %v", r.status, r.header)
				}
				now = now.Add(200 * time.Millisecond)
			}
			r := ask()
			n, err := strconv.Atoi(r.header.Get("Retry-After"))
			if r.status != 429 || gjson.Get(r.body, "error.code").String() != "rate_limit_exceeded" || err != nil || n < 1 || n > 60 || r.header.Get("x-should-retry") != "" {
				t.Fatalf("%d %v %s", r.status, r.header, r.body)
			}
			now = now.Add(time.Duration(n-1) * time.Second)
			if r := ask(); r.status != 429 {
				t.Errorf("a second too early: %d", r.status)
			}
			now = now.Add(time.Second)
			if r := ask(); r.status != 200 {
				t.Errorf("after the time that was said: %d", r.status)
			}
			if len(e.seen()) != 4 {
				t.Errorf("%d upstream calls", len(e.seen()))
			}
		})
	}
}

func TestUsedKeysAreTouched(t *testing.T) {
	b := newBench(t, []string{plainEngine(t).URL})
	b.chat(plainly)
	b.g.saveTouched(t.Context())
	b.g.saveTouched(t.Context())
	b.set(func(w *world) {
		if at := w.touched["key1"]; time.Since(at) > time.Minute {
			t.Errorf("touched %v", w.touched)
		}
	})
}
