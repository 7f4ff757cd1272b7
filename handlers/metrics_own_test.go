package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// asks measures n requests of a tenant's key at a deployment, as the gateway does: beside
// everybody's, a minute ago.
func (s *site) asks(r *metrics.Recorder, deployment, tenant string, ms float64, n int) {
	s.t.Helper()
	at, k := s.now.Add(-time.Minute), s.keys[tenant]
	for _, of := range []metrics.Of{{Deployment: deployment, Replica: "r1"}, {Deployment: deployment, Tenant: k.TenantID, Key: k.ID}} {
		for _, name := range []metrics.Name{metrics.TTFT, metrics.E2E, metrics.Requests, metrics.InputTokens, metrics.OutputTokens} {
			value := ms
			if metrics.ShapeOf(name) == metrics.Counter {
				value = 1
			}
			r.ObserveOf(at, of, name, value, n)
		}
	}
}

// shares makes a deployment that both tenants may use, and measures requests of both: 30
// of acme with 100 ms, 700 of globex with 900 ms.
func (s *site) shares() {
	s.t.Helper()
	ctx := s.t.Context()
	d, err := s.store.Deployment(ctx, "d-acme")
	s.must(err)
	d.ID, d.Name, d.PublicName, d.SharedWithAll = "d-both", "both", "Qwen/both", true
	p := *d.Price
	p.ID, p.DeploymentID = "price-both", d.ID
	d.Price = &p
	s.must(s.store.CreateDeployment(ctx, d))
	s.measure(func(r *metrics.Recorder) {
		s.asks(r, "d-both", "acme", 100, 30)
		s.asks(r, "d-both", "globex", 900, 700)
		r.Observe(s.now.Add(-time.Minute), "d-both", "r1", metrics.KVCache, 0.5, 1)
		r.ObserveHistogram(s.now.Add(-time.Minute), metrics.Of{Deployment: "d-both", Replica: "r1"}, metrics.EngineTTFT,
			metrics.Histogram{Bounds: []float64{50, 500}, Counts: []float64{700, 720}, Count: 730, Sum: 73000})
		r.Observe(s.now.Add(-time.Minute), "d-both", "r1", metrics.GenerationTokens, 7300, 1)
	})
	s.must(s.store.RecordEvent(ctx, factory.Event{ID: factory.NewID(), DeploymentID: "d-both", Kind: factory.EventConfig, Text: "Shared with globex.", At: s.now.Add(-2 * time.Minute)}))
}

// manyRequests are the counts of the other tenant's requests, and of all.
var manyRequests = regexp.MustCompile(`[^.0-9](700|730)\b`)

func even(page string) string { return strings.ReplaceAll(page, "\u00a0", " ") }

func TestAMemberSeesItsOwnTrafficOfASharedDeployment(t *testing.T) {
	s := newSite(t)
	s.shares()
	mia := s.signIn("mia@acme.example")
	if _, list := mia.get("/t/acme/models"); !strings.Contains(list, `href="/t/acme/models/both/metrics"`) {
		t.Error("the models page does not lead to the measurements")
	}
	for _, path := range []string{"/t/acme/models/both/metrics", "/t/acme/models/d-both/metrics", "/t/acme/models/Qwen%2Fboth/metrics?tenant=" + s.tenants["globex"].ID, "/t/acme/models/both/metrics?view=table&compare=previous&replica=r1&range=6h"} {
		_, body := mia.get(path)
		page, text := even(body), even(mia.page(path))
		if !strings.Contains(text, "30 samples") || !strings.Contains(text, "100 ms") || !strings.Contains(page, "Your own requests") || !strings.Contains(page, "at least 1 min") {
			t.Errorf("%s lacks the tenant's figures: %s", path, text)
		}
		if got := manyRequests.FindAllString(page, -1); len(got) > 0 || strings.Contains(text, "900 ms") {
			t.Errorf("%s counts others: %q", path, got)
		}
		for _, theirs := range []string{"globex", "GLOBEX", s.tenants["globex"].ID, s.keys["globex"].ID, `data-card="kv_cache"`, `data-layer="infrastructure"`, `data-figure-of="concurrency"`,
			"/deployments/", "metrics-events", `"r1"`, "olga"} {
			if strings.Contains(page, theirs) {
				t.Errorf("%s has %q in it", path, theirs)
			}
		}
		if !strings.Contains(page, `data-layer="user"`) || !strings.Contains(page, `data-layer="workload"`) || !strings.Contains(page, "Engines do not tell tenants apart") {
			t.Errorf("%s lacks a layer, or the reason for what is missing", path)
		}
	}
	if status, page := mia.get("/t/acme/models/both/metrics?view=table"); status != http.StatusOK || !strings.Contains(even(page), "one point every 1 min") {
		t.Errorf("%d: the step is not a minute", status)
	}
	status, file := mia.get("/t/acme/models/both/metrics.csv?range=15m")
	if status != http.StatusOK || !strings.Contains(file, "both,ttft,ms,2026-12-01T11:59:00Z,60,30,100,") || strings.Contains(file, "kv_cache") || strings.Contains(file, "700") {
		t.Errorf("%d: %s", status, file)
	}
	if status, _ = mia.get("/t/acme/models/both/metrics.csv?from=x&to=y"); status == http.StatusOK {
		t.Error("a range that cannot be read gives a file")
	}
	if status, _ = mia.get("/t/acme/models/both/metrics?from=x&to=y"); status != http.StatusUnprocessableEntity {
		t.Errorf("a range that cannot be read answers %d", status)
	}
}

func TestAMemberChoosesOneOfItsOwnKeysOnly(t *testing.T) {
	s := newSite(t)
	s.shares()
	ours, theirs := s.keys["acme"], s.keys["globex"]
	second := factory.Key{ID: factory.NewID(), TenantID: ours.TenantID, Name: "nightly", Prefix: "sk-tf-n", Hash: "n", Scope: factory.ScopeInference, CreatedAt: s.now}
	s.must(s.store.CreateKey(t.Context(), second))
	s.measure(func(r *metrics.Recorder) {
		s.keys["acme"] = second
		s.asks(r, "d-both", "acme", 400, 5)
	})
	s.must(s.store.RevokeKey(t.Context(), ours.TenantID, second.ID, s.now))
	mia := s.signIn("mia@acme.example")
	_, all := mia.get("/t/acme/models/both/metrics")
	if !strings.Contains(all, "35 samples") && !strings.Contains(even(all), "35 samples") || !strings.Contains(all, "nightly (revoked)") || !strings.Contains(all, "acme-key") || strings.Contains(all, "globex-key") {
		t.Error("the choice is not of the tenant's own keys, or the revoked one is not marked")
	}
	status, one := mia.get("/t/acme/models/both/metrics?key=" + second.ID + "&range=6h")
	if one = even(one); status != http.StatusOK || !strings.Contains(one, "5 samples") || !strings.Contains(one, "Requests with your key nightly (revoked)") || !strings.Contains(one, `name="range" value="6h"`) {
		t.Errorf("%d: the key's own page", status)
	}
	if status, file := mia.get("/t/acme/models/both/metrics.csv?key=" + second.ID); status != http.StatusOK || !strings.Contains(file, ",5,400,") || strings.Contains(file, ",30,100,") {
		t.Errorf("%d: %s", status, file)
	}
	for _, path := range []string{
		"/t/acme/models/both/metrics?key=" + theirs.ID, "/t/acme/models/both/metrics?key=no-such", "/t/acme/models/both/metrics.csv?key=" + theirs.ID,
		"/t/acme/models/globex-chat/metrics", "/t/acme/models/d-globex/metrics", "/t/acme/models/globex%2Fmodel/metrics", "/t/acme/models/globex-chat/metrics.csv", "/t/acme/models/no-such/metrics",
		"/t/globex/models/both/metrics", "/t/globex/models/both/metrics.csv",
	} {
		if status, _ := mia.get(path); status != http.StatusNotFound {
			t.Errorf("%s answers %d, want 404", path, status)
		}
	}
	// What served the tenant before stays in its view, without what it costs now.
	s.measure(func(r *metrics.Recorder) {
		s.keys["acme"] = ours
		s.asks(r, "d-globex", "acme", 200, 7)
	})
	status, was := mia.get("/t/acme/models/globex-chat/metrics")
	if was = even(was); status != http.StatusOK || !strings.Contains(was, "7 samples") || !strings.Contains(was, "No price is known.") {
		t.Errorf("%d: what served the tenant before", status)
	}
}

func TestAnOwnPageWithoutRequestsSaysHowToSendOne(t *testing.T) {
	s := newSite(t)
	s.measure(func(r *metrics.Recorder) { r.Observe(s.now.Add(-time.Minute), "d-acme", "r1", metrics.E2E, 100, 50) })
	page := s.signIn("mia@acme.example").page("/t/acme/models/acme-chat/metrics")
	if !strings.Contains(page, "No request of yours has been answered yet") || !strings.Contains(page, "http://factory.example:8080/v1/chat/completions") {
		t.Error(page)
	}
}

func TestAnOperatorNarrowsTheTabDownToATenantAndAKey(t *testing.T) {
	s := newSite(t)
	s.shares()
	olga := s.signIn("olga@factory.example")
	acme, globex := s.tenants["acme"], s.tenants["globex"]
	status, all := olga.get("/deployments/d-both/metrics")
	if status != http.StatusOK || !strings.Contains(even(all), "730 samples") || !strings.Contains(all, `value="`+acme.ID+`"`) || !strings.Contains(all, `data-card="kv_cache"`) || strings.Contains(all, `name="key"`) {
		t.Errorf("%d: everybody's tab", status)
	}
	for _, query := range []string{"?tenant=acme", "?tenant=" + acme.ID + "&replica=r1", "?key=" + s.keys["acme"].ID, "?tenant=" + acme.ID + "&key=" + s.keys["acme"].ID + "&view=table&compare=previous"} {
		status, page := olga.get("/deployments/d-both/metrics" + query)
		page = even(page)
		if status != http.StatusOK || !strings.Contains(page, "30 samples") || strings.Contains(page, "730 samples") || !strings.Contains(page, "Only acme") || !strings.Contains(page, "a step is at least 1 min") {
			t.Errorf("%s answers %d without the tenant's figures", query, status)
		}
		if strings.Contains(page, `data-card="kv_cache"`) || strings.Contains(page, `data-layer="infrastructure"`) || !strings.Contains(page, "Shared with globex.") {
			t.Errorf("%s shows the engine, or not the events", query)
		}
		if dropped := strings.Contains(page, "all replicas are shown"); dropped != strings.Contains(query, "replica") {
			t.Errorf("%s: says that a replica was dropped: %v", query, dropped)
		}
		if strings.Contains(query, "key") != strings.Contains(page, "Only acme, key acme-key") {
			t.Errorf("%s does not name the key", query)
		}
	}
	status, file := olga.get("/deployments/d-both/metrics.csv?tenant=globex&range=15m")
	if status != http.StatusOK || !strings.Contains(file, "both,ttft,ms,2026-12-01T11:59:00Z,60,700,900,") || strings.Contains(file, "kv_cache") || strings.Contains(file, ",30,100,") {
		t.Errorf("%d: %s", status, file)
	}
	for _, query := range []string{"?tenant=no-such", "?key=no-such", "?tenant=acme&key=" + s.keys["globex"].ID} {
		for _, path := range []string{"/deployments/d-both/metrics", "/deployments/d-both/metrics.csv"} {
			if status, _ := olga.get(path + query); status != http.StatusNotFound {
				t.Errorf("%s answers %d, want 404", path+query, status)
			}
		}
	}
	s.must(s.store.DeleteTenant(t.Context(), globex.ID))
	if status, page := olga.get("/deployments/d-both/metrics?tenant=" + globex.ID); status != http.StatusOK || !strings.Contains(page, "globex (deleted)") || !strings.Contains(even(page), "700 samples") {
		t.Errorf("%d: a deleted tenant's history", status)
	}
}

// narrowed is what a program reads of somebody's measurements.
type narrowed struct {
	TenantID string `json:"tenant_id"`
	KeyID    string `json:"key_id"`
	StepS    int    `json:"step_s"`
	Summary  struct {
		TTFT struct {
			P50 *float64
			N   int64
		} `json:"ttft_ms"`
		KV struct{ Avg *float64 } `json:"kv_cache"`
	}
	Layers map[string]any
	Engine *struct {
		TTFT struct {
			N        float64
			Avg      *float64
			P50, P99 metrics.Estimate
		} `json:"ttft_ms"`
		E2E struct {
			N   float64
			P50 metrics.Estimate
		} `json:"e2e_ms"`
		Prompt *float64 `json:"prompt_tokens"`
		Output *float64 `json:"completion_tokens"`
	}
}

func TestProgramsReadATenantsTrafficAndOperatorsTheEnginesWords(t *testing.T) {
	s := newSite(t)
	s.shares()
	read := func(as, query string) (out narrowed, status int, body string) {
		status, body = s.programSends(as, http.MethodGet, "/api/v1/deployments/both/metrics"+query, "")
		if status == http.StatusOK {
			s.must(json.Unmarshal([]byte(body), &out))
		}
		return out, status, body
	}
	acme, key := s.tenants["acme"].ID, s.keys["acme"].ID
	for query, of := range map[string]string{"": "", "?step=10": "", "?key=" + key: key, "?tenant=globex": ""} {
		got, status, body := read("acme", query)
		if status != http.StatusOK || got.TenantID != acme || got.KeyID != of || got.StepS != 60 || got.Summary.TTFT.N != 30 || !about(got.Summary.TTFT.P50, 100) {
			t.Errorf("%q: %d %+v", query, status, got)
		}
		if got.Engine != nil || len(got.Layers) != 2 || got.Summary.KV.Avg != nil || strings.Contains(body, "700") || strings.Contains(body, `"engine`) {
			t.Errorf("%q has something of engines or others in it", query)
		}
	}
	// A member's session reads the same.
	if status, body := s.signIn("mia@acme.example").get("/api/v1/deployments/Qwen%2Fboth/metrics"); status != http.StatusOK || !strings.Contains(body, `"n":30`) || strings.Contains(body, `"n":7`) {
		t.Errorf("%d: %s", status, body)
	}
	theirs := s.keys["globex"].ID
	for query, want := range map[string]int{"?key=" + theirs: 404, "?key=no-such": 404, "?replica=r1": 400} {
		if _, status, _ := read("acme", query); status != want {
			t.Errorf("%q: %d, want %d", query, status, want)
		}
	}
	for query, n := range map[string]int64{"": 730, "?tenant=acme": 30, "?tenant=globex": 700, "?key=" + key: 30, "?tenant=" + acme + "&key=" + key: 30, "?replica=r1": 730} {
		got, status, _ := read("", query)
		if status != http.StatusOK || got.Summary.TTFT.N != n || (got.TenantID == "") != (n == 730) || (got.KeyID == key) != strings.Contains(query, "key=") {
			t.Errorf("operators, %q: %d %+v", query, status, got)
		}
		// The engine tells nobody apart.
		e := got.Engine
		if e == nil || e.TTFT.N != 730 || !is(e.TTFT.Avg, 100) || !is(e.TTFT.P50.AtMost, 50) || !is(e.TTFT.P99.Above, 500) || e.TTFT.P99.Value != nil ||
			e.E2E.N != 0 || e.E2E.P50.Value != nil || e.Prompt != nil || !is(e.Output, 7300) {
			t.Errorf("operators, %q: engine %+v", query, e)
		}
	}
	for query, want := range map[string]int{"?tenant=acme&key=" + theirs: 404, "?tenant=no-such": 404, "?key=no-such": 404, "?tenant=acme&replica=r1": 400} {
		if _, status, _ := read("", query); status != want {
			t.Errorf("operators, %q: %d, want %d", query, status, want)
		}
	}
	if status, file := s.programSends("", http.MethodGet, "/api/v1/deployments/both/metrics.csv?"+url.Values{"key": {key}}.Encode(), ""); status != http.StatusOK || !strings.Contains(file, ",60,30,100,") || strings.Contains(file, "engine_ttft") {
		t.Errorf("%d: %s", status, file)
	}
}

// about allows for the error of a sketch.
func about(v *float64, want float64) bool { return v != nil && *v > want*0.99 && *v < want*1.01 }

func TestEM08ATenantsKeysAndMinutesAreMergedNotAveraged(t *testing.T) {
	s := newSite(t)
	k := s.keys["acme"]
	s.measure(func(r *metrics.Recorder) {
		r.ObserveOf(s.now.Add(-40*time.Minute), metrics.Of{Deployment: "d-acme", Tenant: k.TenantID, Key: k.ID}, metrics.TTFT, 50, 900)
		r.ObserveOf(s.now.Add(-20*time.Minute), metrics.Of{Deployment: "d-acme", Tenant: k.TenantID, Key: "another"}, metrics.TTFT, 7500, 100)
	})
	status, body := s.programSends("acme", http.MethodGet, "/api/v1/deployments/acme-chat/metrics"+hour(s, "3600"), "")
	var got figures
	s.must(json.Unmarshal([]byte(body), &got))
	of := got.Layers["user"]["ttft"].Summary
	if status != http.StatusOK || of.N != 1000 || !about(of.Percentiles["p50"], 50) || !about(of.Percentiles["p95"], 7500) {
		t.Errorf("%d: %+v", status, of)
	}
}
