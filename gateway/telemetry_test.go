package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"tokenfactory/factory"
)

// gathered are the gateway's own metrics at this moment.
func (b *bench) gathered() map[string]*dto.MetricFamily {
	b.Helper()
	families, err := b.g.telemetry.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// seriesCount leaves out what the process says of itself: its runtime may find new things
// to tell at any time.
func seriesCount(families map[string]*dto.MetricFamily) int {
	n := 0
	for name, f := range families {
		if strings.HasPrefix(name, "gen_ai") || strings.HasPrefix(name, "tokenfactory") {
			n += len(f.Metric)
		}
	}
	return n
}

// find is the one series with these labels, written name=value.
func find(f *dto.MetricFamily, labels ...string) *dto.Metric {
	for _, m := range f.GetMetric() {
		has := map[string]bool{}
		for _, l := range m.Label {
			has[l.GetName()+"="+l.GetValue()] = true
		}
		all := true
		for _, l := range labels {
			all = all && has[l]
		}
		if all {
			return m
		}
	}
	return nil
}

func TestTelemetryTellsWhatWasUsedAndHowLongItTook(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 2 {
			sse(w, delta("a ")+delta("b ")+delta("c")+usage+done)
			return
		}
		_, _ = io.WriteString(w, whole)
	})
	b := newBench(t, []string{e.URL})
	for _, body := range []string{plainly, streamed} {
		if r := b.chat(body); r.status != 200 {
			t.Fatal(r.status, r.body)
		}
	}
	b.row(2)
	var prompt, completion float64
	for _, u := range b.ledger() {
		prompt += float64(u.PromptTokens)
		completion += float64(u.CompletionTokens)
	}
	m := b.gathered()
	model := []string{"gen_ai_operation_name=chat", "gen_ai_provider_name=vllm", "gen_ai_request_model=" + asked}
	for _, c := range []struct {
		name   string
		labels []string
		count  uint64
	}{
		{"gen_ai_server_request_duration_seconds", model, 2},
		{"gen_ai_server_time_to_first_token_seconds", model, 1},
		{"gen_ai_server_time_per_output_token_seconds", model, 1},
		{"gen_ai_client_token_usage", append([]string{"gen_ai_token_type=input"}, model...), 2},
		{"gen_ai_client_token_usage", append([]string{"gen_ai_token_type=output"}, model...), 2},
		{"tokenfactory_gateway_overhead_seconds", model, 1},
		{"tokenfactory_gateway_queue_seconds", model, 2},
	} {
		h := find(m[c.name], c.labels...).GetHistogram()
		if h.GetSampleCount() != c.count {
			t.Errorf("%s %v has %d samples and not %d", c.name, c.labels, h.GetSampleCount(), c.count)
		}
		if h.Schema == nil || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%s is no native histogram", c.name)
		}
		if len(h.Bucket) == 0 {
			t.Errorf("%s has no classic buckets", c.name)
		}
	}
	for kind, want := range map[string]float64{"input": prompt, "output": completion} {
		if got := find(m["gen_ai_client_token_usage"], "gen_ai_token_type="+kind).GetHistogram().GetSampleSum(); got != want || want == 0 {
			t.Errorf("%s tokens are %v, and %v in the ledger", kind, got, want)
		}
	}
	if took := find(m["tokenfactory_gateway_overhead_seconds"]).GetHistogram().GetSampleSum(); took <= 0 || took > 1 {
		t.Errorf("the gateway's own time is %v s", took)
	}
}

func TestTelemetryTellsFailuresApart(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n%2 == 1 {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		sse(w, delta("a")) // and breaks off
	})
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	b.chat(streamed)
	b.row(2)
	m := b.gathered()["gen_ai_server_request_duration_seconds"]
	for _, why := range []string{"500", factory.FlagTruncated} {
		if n := find(m, "error_type="+why).GetHistogram().GetSampleCount(); n != 1 {
			t.Errorf("%d requests failed with %s, want 1", n, why)
		}
	}
}

// A client that asks for names that do not exist must not fill anybody's monitoring.
func TestRR07UnknownNamesAddNoSeries(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL})
	ask := func(name string) {
		if r := b.chat(fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, name)); r.status != 404 {
			t.Fatalf("%s: status %d", name, r.status)
		}
	}
	b.chat(plainly)
	b.row(1)
	ask("nope")
	before := seriesCount(b.gathered())
	for i := range 200 {
		ask(fmt.Sprint("nope-", i))
		ask(strings.ToUpper(asked) + fmt.Sprint(i))
	}
	if after := seriesCount(b.gathered()); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if n := find(b.gathered()["tokenfactory_gateway_refusals_total"], "code=model_not_found").GetCounter().GetValue(); n != 401 {
		t.Errorf("%v requests for unknown models were counted, and 401 were made", n)
	}
	if rows := b.ledger(); len(rows) != 1 {
		t.Errorf("%d usage rows", len(rows))
	}
}

func TestTelemetryTellsWhichLimitRefused(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.RequestsPerMinute = 1 }))
	for range 3 {
		b.chat(plainly)
	}
	m := b.gathered()
	if n := find(m["tokenfactory_gateway_limit_refusals_total"], "scope=deployment", "kind=requests_per_minute").GetCounter().GetValue(); n != 2 {
		t.Errorf("%v refusals by the deployment's limit, want 2", n)
	}
	if n := find(m["tokenfactory_gateway_refusals_total"], "code="+codeRate).GetCounter().GetValue(); n != 2 {
		t.Errorf("%v refusals with status 429, want 2", n)
	}
}

// What monitoring gets is read by more people than the ledger.
func TestTelemetryNamesNobody(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL})
	r := b.chat(plainly)
	b.row(1)
	text := scrape(b, "text/plain")
	if !strings.Contains(text, "gen_ai_server_request_duration_seconds_bucket{") {
		t.Fatalf("the scrape has no classic buckets:\n%.2000s", text)
	}
	for _, secret := range []string{"tenant1", "key1", b.secret, factory.HashSecret(b.secret), r.header.Get("X-Request-Id"), e.URL} {
		if strings.Contains(text, secret) {
			t.Errorf("the scrape has %q in it", secret)
		}
	}
	for _, name := range []string{"tokenfactory_gateway_requests_in_flight", "tokenfactory_gateway_spool_bytes", "tokenfactory_gateway_ledger_lag_seconds", "go_goroutines"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("the scrape does not have %s", name)
		}
	}
}

func scrape(b *bench, accept string) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	b.g.MetricsHandler().ServeHTTP(w, r)
	if w.Code != 200 {
		b.Fatal(w.Code, w.Body.String())
	}
	return w.Body.String()
}

func TestTelemetryForgetsNamesThatAreGone(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	b.row(1)
	has := func() bool {
		return find(b.gathered()["gen_ai_server_request_duration_seconds"], "gen_ai_request_model="+asked) != nil
	}
	table := func() *routeTable { return b.g.routes.now.Load() }
	late := time.Now().Add(2 * forgetAfter)
	if b.g.telemetry.forget(table(), late); !has() {
		t.Error("a model that is served was forgotten")
	}
	b.change(func(w *world) { w.routes = nil })
	if b.g.telemetry.forget(table(), time.Now()); !has() {
		t.Error("a model was forgotten before the last scrapes")
	}
	if b.g.telemetry.forget(table(), late); has() {
		t.Error("a model that is gone stays for ever")
	}
}
