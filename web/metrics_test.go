package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/web/paths"
	"tokenfactory/web/session"
)

// deployment makes one that is shared with the named tenants.
func (s *site) deployment(name string, tenants ...factory.Tenant) factory.Deployment {
	s.t.Helper()
	ctx := s.t.Context()
	if _, err := s.store.Cluster(ctx, "c1"); err != nil {
		s.must(s.store.CreateCluster(ctx, factory.Cluster{ID: "c1", Name: "desk", CreatedAt: s.now}))
		s.must(s.store.CreateEndpoint(ctx, factory.Endpoint{ID: "e1", Name: "front", Hostname: "llm.example.org", ClusterID: "c1", CreatedAt: s.now}))
		s.must(s.store.CreateProvider(ctx, factory.Provider{ID: "p1", Name: "qwen", CreatedAt: s.now}))
		m, _ := factory.BuiltInModel("qwen2-0.5b-instruct")
		m.ID, m.ProviderID, m.CreatedAt = "m1", "p1", s.now
		s.must(s.store.CreateLLM(ctx, m))
	}
	d := factory.Deployment{ID: "d-" + name, Name: name, ModelID: "m1", EndpointID: "e1", ClusterID: "c1", Revision: 1, CreatedAt: s.now, UpdatedAt: s.now,
		DeploymentSpec: factory.DeploymentSpec{Model: "qwen2-0.5b-instruct", Endpoint: "front", Cluster: "desk", PublicName: "Qwen/" + name, Engine: "vllm",
			Replicas: 1, Workload: factory.Interactive, Free: true}}
	for _, t := range tenants {
		d.Tenants, d.TenantIDs = append(d.Tenants, t.Name), append(d.TenantIDs, t.ID)
	}
	p := d.DeploymentSpec.Price()
	p.ID, p.DeploymentID, p.ValidFrom = "price-"+name, d.ID, s.now
	d.Price = &p
	s.must(s.store.CreateDeployment(ctx, d))
	return d
}

// measure records requests of a deployment at a moment: value in ms, so many times.
func (s *site) measure(deploymentID string, at time.Time, name metrics.Name, value float64, n int) {
	s.t.Helper()
	var r metrics.Recorder
	r.Observe(at, deploymentID, "r1", name, value, n)
	s.must(s.store.MergeBuckets(s.t.Context(), r.Flush()))
}

type latencies struct {
	T                  []time.Time
	P50, P90, P95, P99 []*float64
	N                  []int64
}

func TestMetricsAPIHasNumbersWhereThereAreSamplesAndNullElsewhere(t *testing.T) {
	s := newSite(t)
	d := s.deployment("chat")
	token, err := session.NewManagementToken(t.Context(), s.store)
	s.must(err)
	b := s.browser()
	b.header = http.Header{"Authorization": {"Bearer " + token}}
	at := s.now.Add(-10 * time.Minute)
	s.measure(d.ID, at, metrics.TTFT, 100, 98)
	s.measure(d.ID, at, metrics.TTFT, 900, 2)
	s.measure(d.ID, at, metrics.KVCache, 0.25, 1)
	s.measure(d.ID, at, metrics.KVCache, 0.75, 1)

	query := url.Values{"from": {s.now.Add(-20 * time.Minute).Format(time.RFC3339)}, "to": {s.now.Format(time.RFC3339)}, "step": {"60"}}
	r := b.get(paths.APIMetrics("chat") + "?" + query.Encode())
	r.is(http.StatusOK)
	var answer struct {
		StepS   int64 `json:"step_s"`
		Summary struct {
			TTFT struct {
				P50, P90, P95, P99 *float64
				N                  int64
			} `json:"ttft_ms"`
			ITL struct {
				P50 *float64
				N   int64
			} `json:"itl_ms"`
			KV struct{ Avg, Peak *float64 } `json:"kv_cache"`
		}
		Series struct {
			TTFT latencies `json:"ttft_ms"`
			KV   struct {
				T         []time.Time
				Avg, Peak []*float64
			} `json:"kv_cache"`
		}
	}
	s.must(json.Unmarshal([]byte(r.body), &answer))
	ttft := answer.Summary.TTFT
	near := func(v *float64, want float64) bool { return v != nil && *v > want*0.99 && *v < want*1.01 }
	if answer.StepS != 60 || ttft.N != 100 || !near(ttft.P50, 100) || !near(ttft.P95, 100) || !near(ttft.P99, 900) {
		t.Errorf("step %d, TTFT %+v", answer.StepS, ttft)
	}
	if answer.Summary.ITL.P50 != nil || answer.Summary.ITL.N != 0 || !strings.Contains(r.body, `"itl_ms":{"p50":null`) {
		t.Errorf("ITL without samples: %+v", answer.Summary.ITL)
	}
	if kv := answer.Summary.KV; kv.Avg == nil || *kv.Avg != 0.5 || *kv.Peak != 0.75 {
		t.Errorf("KV cache %+v", kv)
	}
	series := answer.Series.TTFT
	if len(series.T) != 20 || len(series.P99) != 20 || len(series.N) != 20 || !series.T[10].Equal(at) {
		t.Fatalf("series %+v", series)
	}
	for i, n := range series.N {
		if (n == 0) != (series.P50[i] == nil) || (i == 10) != (n == 100) {
			t.Errorf("step %d: %d samples, p50 %v", i, n, series.P50[i])
		}
	}
	if kv := answer.Series.KV; kv.Avg[10] == nil || kv.Avg[9] != nil || len(kv.T) != 20 {
		t.Errorf("KV series %+v", kv)
	}

	for query, status := range map[string]int{
		"from=yesterday": 400, "step=0": 400, "step=x": 400, "from=2026-11-30T12:00:00Z&to=2026-11-30T11:00:00Z": 400,
		"from=2020-01-01T00:00:00Z": 400, "": 200, "step=1": 200, "from=2026-11-30T13:00:00%2B02:00": 200,
	} {
		if got := b.get(paths.APIMetrics("chat") + "?" + query).StatusCode; got != status {
			t.Errorf("%q: %d, want %d", query, got, status)
		}
	}
	for _, ref := range []string{d.ID, "chat", "Qwen/chat"} {
		b.get(paths.APIMetrics(ref)).is(http.StatusOK)
	}
}

func TestTenantsReadMeasurementsOfWhatIsSharedWithThem(t *testing.T) {
	s := newSite(t)
	acme, globex := s.tenant("acme"), s.tenant("globex")
	s.deployment("own", acme)
	s.deployment("both", acme, globex)
	s.deployment("other", globex)
	b := s.browser()
	b.header = http.Header{"Authorization": {"Bearer " + s.key(acme, factory.ScopeManagement)}}
	for name, want := range map[string]int{"own": 200, "both": 200, "other": 404, "none": 404} {
		if got := b.get(paths.APIMetrics(name)).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestMetricsTabShowsCardsChartsAndTables(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	d := s.deployment("chat")
	b := s.signedIn("olga@example.org")
	tab := paths.DeploymentMetrics(d.ID)

	first := b.get(tab)
	first.is(http.StatusOK)
	if text := first.document().Find("#metrics-live").Text(); !strings.Contains(text, "http://llm.example.org") || !strings.Contains(text, "Qwen/chat") {
		t.Errorf("without traffic: %s", text)
	}

	s.measure(d.ID, s.now.Add(-5*time.Minute), metrics.TTFT, 120, 200)
	s.measure(d.ID, s.now.Add(-5*time.Minute), metrics.E2E, 2500, 200)
	page := b.get(tab + "?range=15m").document()
	card := page.Find(`[data-card="ttft"]`)
	if got := strings.Join(strings.Fields(card.Find("[data-figure]").Text()), " "); !strings.HasPrefix(got, "1") || !strings.HasSuffix(got, "ms") {
		t.Errorf("TTFT card says %q", got)
	}
	if !strings.Contains(card.Text(), "200 samples") || !strings.Contains(card.Text(), "Met") {
		t.Errorf("TTFT card: %s", card.Text())
	}
	if got := page.Find(`[data-card="kv_cache"]`).Text(); !strings.Contains(got, "Not reported by this engine") {
		t.Errorf("KV card: %s", got)
	}
	if n := page.Find(".chart-panel [data-chart]").Length(); n != 3 {
		t.Errorf("%d charts, want all but the KV cache", n)
	}
	s.measure(d.ID, s.now.Add(-5*time.Minute), metrics.KVCache, 0.5, 1)
	live := b.do(http.MethodGet, tab+"?range=15m", nil, http.Header{"Hx-Request": {"true"}})
	if live.document().Find(".chart-panel [data-chart]").Length() != 4 || strings.Contains(live.body, "<nav") {
		t.Error("the live part is not all charts, or more than the live part")
	}
	for _, path := range []string{tab + "?range=15m&view=table", tab + "?range=30d&view=table"} {
		table := b.get(path).document()
		if table.Find(".chart-panel table").Length() != 4 || table.Find("[data-chart]").Length() != 0 || table.Find("tbody td.num").Length() == 0 {
			t.Errorf("%s has no tables with figures", path)
		}
	}
	b.header.Set("Cookie", "tz=Europe%2FBerlin")
	custom := b.get(tab + "?from=2026-11-30T12:50&to=2026-11-30T13:00&view=table").document() // UTC+1: 11:50 to 12:00
	if custom.Find("tbody td.num").Length() == 0 || custom.Find("#field-from").AttrOr("value", "") != "2026-11-30T12:50" {
		t.Error("a custom range is not read in the viewer's zone")
	}
	for _, bad := range []string{"?from=x&to=y", "?from=2026-11-30T13:00&to=2026-11-30T12:00", "?from=2026-11-30T13:00", "?from=2019-01-01T00:00&to=2019-01-02T00:00", "?from=2027-01-01T00:00&to=2027-01-02T00:00"} {
		r := b.get(tab + bad)
		r.is(http.StatusUnprocessableEntity)
		if r.document().Find(".field-error").Length() == 0 {
			t.Errorf("%s: no message at a field", bad)
		}
	}
	b.get(tab + "?range=forever").is(http.StatusOK)
	b.get(paths.DeploymentMetrics("no-such")).is(http.StatusNotFound)
}
