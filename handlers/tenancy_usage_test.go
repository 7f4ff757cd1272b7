package handlers_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

// spend writes requests into the ledger: one each of 20,000 tokens in, 16,000 of
// them cached, and 900 out.
func (s *site) spend(tenant string, ids ...string) {
	s.t.Helper()
	rows := make([]factory.Usage, len(ids))
	for i, id := range ids {
		rows[i] = factory.Usage{
			ID: id, TenantID: s.tenants[tenant].ID, KeyID: s.keys[tenant].ID, DeploymentID: "d-" + tenant, PriceID: s.prices[tenant],
			Endpoint: "chat.completions", ModelAsked: tenant + "/model", ModelServed: tenant + "/model", Status: 200, Attempts: 1,
			PromptTokens: 20_000, CachedTokens: 16_000, CompletionTokens: 900, StartedAt: s.now.Add(-time.Duration(i+1) * time.Hour),
		}
	}
	s.must(s.store.AppendUsage(s.t.Context(), rows))
}

// program asks the API with a bearer token.
func (s *site) program(token, path string, into any) (status int, body string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	s.must(err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	s.must(err)
	if into != nil {
		s.must(json.Unmarshal(raw, into))
	}
	return resp.StatusCode, string(raw)
}

type usageTold struct {
	Rows []struct {
		Tenant, Key, Deployment, Cost, Currency string
		Requests                                int64
	}
	Total struct {
		Requests   int64
		Prompt     int64 `json:"prompt_tokens"`
		Cached     int64 `json:"cached_tokens"`
		Completion int64 `json:"completion_tokens"`
		Cost       string
		Currency   string
	}
}

func TestUsageOfATenantIsItsOwnEverywhere(t *testing.T) {
	s := newSite(t)
	s.spend("acme", "a1", "a2")
	s.spend("globex", "g1", "g2", "g3")
	for _, query := range []string{"", "&tenant=globex", "&tenant=" + s.tenants["globex"].ID} {
		var told usageTold
		status, body := s.program(s.secrets["acme"], "/api/v1/usage?group=tenant,key,deployment"+query, &told)
		if status != http.StatusOK || strings.Contains(body, "globex") {
			t.Errorf("a key of acme asking %q gets %d %s", query, status, body)
		}
		// 4,000 × 0.15 + 16,000 × 0.03 + 900 × 0.60 per million, twice.
		if told.Total.Requests != 2 || told.Total.Prompt != 40_000 || told.Total.Cached != 32_000 || told.Total.Completion != 1800 || told.Total.Cost != "0.00324" || told.Total.Currency != "USD" {
			t.Errorf("the total is %+v", told.Total)
		}
		if len(told.Rows) != 1 || told.Rows[0].Tenant != "acme" || told.Rows[0].Key != "acme-key" || told.Rows[0].Deployment != "acme-chat" || told.Rows[0].Cost != "0.00324" {
			t.Errorf("the rows are %+v", told.Rows)
		}
		var ledger struct {
			Rows []struct{ ID, Tenant, Cost string }
		}
		if _, body := s.program(s.secrets["acme"], "/api/v1/requests?limit=100"+query, &ledger); len(ledger.Rows) != 2 || ledger.Rows[0].ID != "a1" || ledger.Rows[0].Cost != "0.00162" {
			t.Errorf("requests are %s", body)
		}
	}
	mia := s.signIn("mia@acme.example")
	for _, path := range []string{"/t/acme/usage", "/t/acme/usage.csv", "/t/acme/usage/requests", "/t/acme/usage?tenant=globex", "/t/acme/usage.csv?tenant=globex", "/api/v1/usage?group=tenant", "/api/v1/requests"} {
		status, body := mia.get(path)
		if status != http.StatusOK || !strings.Contains(body, "acme") || strings.Contains(strings.ToLower(body), "globex") {
			t.Errorf("%s answers %d, or tells of the other tenant", path, status)
		}
	}
	for path, want := range map[string]int{
		"/t/globex/usage": http.StatusNotFound, "/t/globex/usage.csv": http.StatusNotFound, "/t/globex/usage/requests": http.StatusNotFound,
		"/api/v1/usage?tenant=globex": http.StatusNotFound, "/api/v1/requests?tenant=globex": http.StatusNotFound,
		"/usage": http.StatusForbidden, "/usage.csv": http.StatusForbidden, "/usage/requests": http.StatusForbidden,
	} {
		if status, _ := mia.get(path); status != want {
			t.Errorf("%s answers %d, want %d", path, status, want)
		}
	}
}

func TestOperatorsSeeAllUsageAndMayNameATenant(t *testing.T) {
	s := newSite(t)
	s.spend("acme", "a1", "a2")
	s.spend("globex", "g1", "g2", "g3")
	olga := s.signIn("olga@factory.example")
	for query, want := range map[string]int64{"": 5, "&tenant=globex": 3, "&tenant=" + s.tenants["acme"].ID: 2} {
		status, body := olga.get("/api/v1/usage?group=tenant" + query)
		var told usageTold
		if err := json.Unmarshal([]byte(body), &told); err != nil || status != http.StatusOK || told.Total.Requests != want {
			t.Errorf("usage?%s answers %d %s", query, status, body)
		}
	}
	// What is gone keeps its name in the books.
	s.must(s.store.DeleteDeployment(t.Context(), "d-globex", s.now))
	s.must(s.store.DeleteTenant(t.Context(), s.tenants["globex"].ID))
	for _, path := range []string{"/usage", "/usage.csv", "/usage/requests", "/usage?tenant=acme", "/usage?tenant=" + s.tenants["globex"].ID} {
		status, body := olga.get(path)
		if status != http.StatusOK || strings.Contains(path, "acme") == strings.Contains(body, "globex-key") {
			t.Errorf("%s answers %d, or has the wrong tenants", path, status)
		}
	}
	if _, body := olga.get("/usage.csv"); !strings.Contains(body, "globex (deleted),globex-key (revoked),globex/model (deleted),globex-chat (deleted),") || strings.Count(body, "\n") != 3 {
		t.Errorf("the export is\n%s", body)
	}
	for _, path := range []string{"/api/v1/usage?group=colour", "/api/v1/usage?from=yesterday", "/api/v1/usage?tz=Mars/Base", "/api/v1/requests?limit=many", "/api/v1/requests?cursor=nonsense",
		"/api/v1/usage?from=2026-12-01T00:00:00Z&to=2026-11-01T00:00:00Z"} {
		if status, body := olga.get(path); status != http.StatusBadRequest {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
}
