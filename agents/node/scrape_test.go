package node

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"tokenfactory/agents/runtimes/process"
	"tokenfactory/engines"
	"tokenfactory/metrics"
)

// enginePage is vLLM's page after n requests on each of two ranks.
func enginePage(n int) string {
	return fmt.Sprintf(`vllm:kv_cache_usage_perc{engine="0"} 0.9
vllm:kv_cache_usage_perc{engine="1"} 0.1
vllm:num_requests_running{engine="0"} 3
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} %d
vllm:generation_tokens_total{engine="1"} %d
vllm:prefix_cache_hits_total{engine="0"} %d
vllm:prefix_cache_queries_total{engine="0"} %d
vllm:num_preemptions_total{engine="0"} %d
vllm:request_success_total{engine="0",finished_reason="stop"} %d
vllm:request_success_total{engine="0",finished_reason="length"} %d
vllm:request_success_total{engine="0",finished_reason="error"} %d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} %d
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} %d
vllm:time_to_first_token_seconds_sum{engine="0"} %d
vllm:time_to_first_token_seconds_count{engine="0"} %d
`, 1000+10*n, 500+10*n, 30*n, 100*n, n, 5+n, 6+n, n, 8+n, 8+2*n, n, 8+2*n)
}

// reading scrapes one engine that was found running, page after page, and returns what
// was recorded by metric. A page of "" is an error of the engine.
func reading(t *testing.T, s *scraper, pages ...string) map[metrics.Name]metrics.Bucket {
	t.Helper()
	var page atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page.Load() == "" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, page.Load())
	}))
	defer server.Close()
	s.recorder, s.log = &metrics.Recorder{}, slog.New(slog.DiscardHandler)
	s.last, s.failing = map[string]engines.Reading{}, map[string]bool{}
	target := process.Target{ReplicaID: "r", DeploymentID: "d", Engine: "vllm", URL: server.URL}
	for _, p := range pages {
		page.Store(p)
		r, err := s.read(t.Context(), target)
		answers := make(chan answer, 1)
		answers <- answer{target, r, err}
		s.takeIn(t.Context(), answers, 1)
	}
	return byMetric(t, s.recorder.Flush())
}

// byMetric adds buckets up by metric, whatever step they fell into.
func byMetric(t *testing.T, buckets []metrics.Bucket) map[metrics.Name]metrics.Bucket {
	t.Helper()
	out := map[metrics.Name]metrics.Bucket{}
	for _, b := range buckets {
		if err := b.Check(); err != nil {
			t.Error(err)
		}
		if sum, seen := out[b.Name]; seen {
			if err := sum.Merge(b); err != nil {
				t.Fatal(err)
			}
			b = sum
		}
		out[b.Name] = b
	}
	return out
}

func TestEverySignalOfAnEngineIsRecorded(t *testing.T) {
	got := reading(t, &scraper{}, enginePage(0), enginePage(1), enginePage(3))
	for name, want := range map[metrics.Name]float64{
		metrics.GenerationTokens: 60, metrics.PrefixHits: 90, metrics.PrefixQueries: 300, metrics.Preemptions: 3,
		metrics.EngineFinished: 6, metrics.EngineFailed: 3, metrics.ScrapeErrors: 0, metrics.ScrapesMissed: 0, metrics.Running: 9,
	} {
		if b, ok := got[name]; !ok || b.Sum != want {
			t.Errorf("%s: %+v, want a sum of %v", name, b, want)
		}
	}
	if b := got[metrics.KVCache]; math.Abs(b.Sum-1.5) > 1e-9 || b.Max != 0.9 {
		t.Errorf("KV cache: average %v of %v, peak %v", b.Sum, b.Count, b.Max)
	}
	h, err := metrics.DecodeHistogram(got[metrics.EngineTTFT].Sketch)
	if err != nil || h.Count != 6 || h.Sum != 3000 || h.Bounds[0] != 500 || h.Counts[0] != 3 {
		t.Errorf("TTFT in milliseconds: %+v, %v", h, err)
	}
	for _, silent := range []metrics.Name{metrics.Waiting, metrics.PromptTokens, metrics.EngineITL} {
		if b, ok := got[silent]; ok {
			t.Errorf("%s was recorded, which the page does not have: %+v", silent, b)
		}
	}
}

func TestEM12AnEngineWithABadLineIsUpWithErrors(t *testing.T) {
	var s scraper
	bad := strings.Replace(enginePage(1), `vllm:generation_tokens_total{engine="1"}`, `vllm:generation_tokens_total{engine="1" y"}`, 1)
	got := reading(t, &s, enginePage(0), bad, enginePage(2))
	if b := got[metrics.GenerationTokens]; b.Sum != 40 {
		t.Errorf("tokens %v, want 40", b.Sum)
	}
	if got[metrics.ScrapeErrors].Sum != 1 || got[metrics.ScrapesMissed].Sum != 0 || got[metrics.Preemptions].Sum != 2 {
		t.Errorf("errors %v, missed %v, preemptions %v", got[metrics.ScrapeErrors].Sum, got[metrics.ScrapesMissed].Sum, got[metrics.Preemptions].Sum)
	}
	if c := s.complaint("r"); c != "" {
		t.Errorf("still complains: %q", c)
	}
	reading(t, &s, enginePage(0), bad)
	if c := s.complaint("r"); !strings.Contains(c, "1 line could not be read (line 6: vllm:generation_tokens_total") {
		t.Errorf("complaint %q", c)
	}
	if c := s.complaint("other"); c != "" {
		t.Errorf("another replica's: %q", c)
	}
}

func TestAReadingThatFailsIsCountedAndLosesNothing(t *testing.T) {
	got := reading(t, &scraper{}, enginePage(0), "", "", enginePage(4))
	if got[metrics.ScrapesMissed].Sum != 2 || got[metrics.ScrapesMissed].Count != 4 || got[metrics.GenerationTokens].Sum != 80 {
		t.Errorf("missed %+v, tokens %v", got[metrics.ScrapesMissed], got[metrics.GenerationTokens].Sum)
	}
	if got[metrics.Running].Count != 2 {
		t.Errorf("running was recorded %v times, want 2", got[metrics.Running].Count)
	}
}

func TestAStopIsNoMissedReading(t *testing.T) {
	s := scraper{recorder: &metrics.Recorder{}, log: slog.New(slog.DiscardHandler), failing: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers := make(chan answer, 1)
	answers <- answer{process.Target{ReplicaID: "r", DeploymentID: "d"}, engines.Reading{}, ctx.Err()}
	s.takeIn(ctx, answers, 1)
	if b := s.recorder.Flush(); len(b) != 0 {
		t.Errorf("%+v", b)
	}
}
