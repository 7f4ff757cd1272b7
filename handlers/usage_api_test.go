package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestBadParametersAreNamed(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string]string{
		"usage?group=colour":                  "Parameter group",
		"usage?group=day,":                    "Parameter group",
		"usage?from=yesterday":                "Parameter from",
		"usage?to=2026-13-01":                 "Parameter to",
		"usage?to=99999-01-01":                "Parameter to",
		"usage?tz=Mars/Base":                  "Parameter tz",
		"usage?tz=../etc/passwd":              "Parameter tz",
		"usage?from=2026-12-01&to=2026-11-01": "Parameter to",
		"usage?from=2020-01-01":               "Parameter from",
		"requests?limit=many":                 "Parameter limit",
		"requests?limit=0":                    "Parameter limit",
		"requests?limit=1001":                 "Parameter limit",
		"requests?cursor=nonsense":            "Parameter cursor",
		"requests?from=1900-01-01T00:00:00Z":  "Parameter from",
	} {
		var told struct {
			Error struct{ Kind, Message string }
		}
		status, body := s.program(s.secrets["acme"], "/api/v1/"+path, &told)
		if status != http.StatusBadRequest || told.Error.Kind != string(factory.Invalid) || !strings.HasPrefix(told.Error.Message, want) {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
	mia := s.signIn("mia@acme.example")
	for _, path := range []string{"/t/acme/usage", "/t/acme/usage/requests"} {
		for query, want := range map[string]string{"?from=yesterday": `id="field-from-error"`, "?from=2026-12-01&to=2026-11-01": `id="field-to-error"`, "?range=forever": "There is no range"} {
			if status, body := mia.get(path + query); status != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
				t.Errorf("%s answers %d without %s", path+query, status, want)
			}
		}
	}
	if status, _ := mia.get("/t/acme/usage/requests?cursor=nonsense"); status != http.StatusBadRequest {
		t.Errorf("a made-up cursor on the page answers %d", status)
	}
	if status, _ := mia.get("/t/acme/usage.csv?from=yesterday"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong day in an export answers %d", status)
	}
}

// Nobody without a session, a key or a token gets any of it, and a key for
// inference does not open the books.
func TestUsageTakesCredentials(t *testing.T) {
	s := newSite(t)
	s.spend("acme", "a1")
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]int{
		"/usage": http.StatusSeeOther, "/usage.csv": http.StatusSeeOther, "/usage/requests": http.StatusSeeOther,
		"/t/acme/usage": http.StatusSeeOther, "/t/acme/usage.csv": http.StatusSeeOther, "/t/acme/usage/requests": http.StatusSeeOther,
		"/t/acme/models": http.StatusSeeOther, "/t/acme/keys": http.StatusSeeOther, "/t/acme/members": http.StatusSeeOther,
		"/tenants": http.StatusSeeOther, "/tenants/new": http.StatusSeeOther, "/tenants/" + s.tenants["acme"].ID: http.StatusSeeOther,
		"/api/v1/usage": http.StatusUnauthorized, "/api/v1/requests": http.StatusUnauthorized,
	} {
		resp, err := plain.Get(s.url + path)
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s without credentials answers %d, want %d", path, resp.StatusCode, want)
		}
	}
	// An operator has pages of their own, and is no member.
	olga := s.signIn("olga@factory.example")
	for _, path := range []string{"/t/acme/usage", "/t/acme/usage.csv", "/t/acme/usage/requests", "/t/acme/models", "/t/acme/keys", "/t/acme/members"} {
		if status, _ := olga.get(path); status != http.StatusNotFound {
			t.Errorf("%s answers an operator who is no member with %d", path, status)
		}
	}
	secret, hash := factory.NewSecret(factory.PrefixKey)
	s.must(s.store.CreateKey(t.Context(), factory.Key{ID: "inference", TenantID: s.tenants["acme"].ID, Name: "app", Hash: hash, Scope: factory.ScopeInference, CreatedAt: s.now}))
	for token, want := range map[string]int{secret: http.StatusForbidden, "sk-tf-unknown": http.StatusUnauthorized, "tfm-unknown": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		for _, path := range []string{"/api/v1/usage", "/api/v1/requests"} {
			if status, body := s.program(token, path, nil); status != want || strings.Contains(body, "acme") {
				t.Errorf("%s with %q answers %d %s", path, token, status, body)
			}
		}
	}
}

func TestALedgerRowSaysWhatHappened(t *testing.T) {
	s := newSite(t)
	r := s.row("r1", "2026-12-01T10:00:00.25Z", s.prices["acme"], 100, 40, 20)
	ttft, e2e := 84.5, 1310.0
	r.ModelAsked, r.ModelServed, r.Flags, r.Attempts, r.Status, r.TTFTMS, r.E2EMS = "fast", "acme/model", "aborted,estimated", 3, 499, &ttft, &e2e
	s.must(s.store.AppendUsage(t.Context(), []factory.Usage{r}))
	var got struct{ Rows []map[string]any }
	_, body := s.program(s.secrets["acme"], "/api/v1/requests", &got)
	if len(got.Rows) != 1 {
		t.Fatal(body)
	}
	for field, want := range map[string]any{
		"id": "r1", "time": "2026-12-01T10:00:00.25Z", "tenant": "acme", "key": "acme-key", "deployment": "acme-chat",
		"model_asked": "fast", "model_served": "acme/model", "status": 499.0, "flags": "aborted,estimated", "attempts": 3.0,
		"prompt_tokens": 100.0, "cached_tokens": 40.0, "completion_tokens": 20.0, "cost": "0.0000222", "currency": "USD", "ttft_ms": 84.5, "e2e_ms": 1310.0, "queue_ms": nil,
	} {
		if got.Rows[0][field] != want {
			t.Errorf("%s is %v, want %v", field, got.Rows[0][field], want)
		}
	}
	if !json.Valid([]byte(body)) || !strings.Contains(body, `"next":""`) {
		t.Errorf("the end is not marked: %s", body)
	}
}
