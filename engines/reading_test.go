package engines

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"tokenfactory/metrics"
)

// expectation is a row of testdata/expected.json. A missing key expects nothing; a null
// expects that the page does not say.
type expectation struct {
	Engine  string
	Model   json.RawMessage
	Numbers map[string]json.RawMessage
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readString(t *testing.T, e Engine, body string) Reading {
	t.Helper()
	r, err := e.Read(strings.NewReader(body))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return r
}

func engineNamed(t *testing.T, name string) Engine {
	t.Helper()
	if name == tgi.Name {
		return tgi
	}
	e, ok := Find(name)
	if !ok {
		t.Fatalf("no engine %s", name)
	}
	return e
}

func TestEveryFixtureReadsAsExpected(t *testing.T) {
	var rows map[string]map[string]json.RawMessage
	if err := json.Unmarshal(readFixture(t, "expected.json"), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 14 {
		t.Fatalf("%d expectations, want all 14", len(rows))
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			body := string(readFixture(t, name))
			var engine string
			_ = json.Unmarshal(row["engine"], &engine)
			if engine == "vllm-sim" {
				engine = "vllm" // the simulator speaks vLLM's names
			}
			got := readString(t, engineNamed(t, engine), body)
			any, err := ReadAny(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if got.Engine != engine || any.Engine != engine {
				t.Errorf("recognised as %q and %q, want %q", got.Engine, any.Engine, engine)
			}
			for key, raw := range row {
				compare(t, got, key, raw)
			}
		})
	}
}

func compare(t *testing.T, got Reading, key string, raw json.RawMessage) {
	t.Helper()
	switch key {
	case "engine", "note":
		return
	case "model":
		var want string
		_ = json.Unmarshal(raw, &want)
		if got.Model != want {
			t.Errorf("model %q, want %q", got.Model, want)
		}
		return
	case "live_engines":
		var want []string
		_ = json.Unmarshal(raw, &want)
		if !slices.Equal(got.Ranks, want) {
			t.Errorf("ranks %v, want %v", got.Ranks, want)
		}
		return
	case "finished", "failed":
		counts := got.Finished
		if key == "failed" {
			counts = got.Failed
		}
		want := map[string]float64{}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		for reason, n := range want {
			if v, ok := counts[reason]; !ok || v != n {
				t.Errorf("%s %s: %v (%v), want %v", key, reason, v, ok, n)
			}
		}
		for reason, n := range counts {
			if _, ok := want[reason]; !ok && n != 0 {
				t.Errorf("%s has %v of %s, which is not expected", key, n, reason)
			}
		}
		return
	}
	var value *float64
	switch key {
	case "running":
		value = got.Running
	case "waiting":
		value = got.Waiting
	case "kv":
		value = got.KV
	case "kv_max":
		value = got.KVPeak
	case "prompt_tokens":
		value = got.PromptTokens
	case "generation_tokens":
		value = got.GenerationTokens
	case "cached":
		value = got.CachedTokens
	case "prefix_queries":
		value = got.PrefixQueries
	case "ttft_count", "ttft_sum", "itl_count":
		n := metrics.EngineTTFT
		if key == "itl_count" {
			n = metrics.EngineITL
		}
		if h, ok := got.Histograms[n]; ok {
			value = &h.Count
			if key == "ttft_sum" {
				value = &h.Sum
			}
		}
	default:
		t.Fatalf("expected.json has a key %q that is not compared", key)
	}
	var want *float64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	switch {
	case (value == nil) != (want == nil):
		t.Errorf("%s: %v, want %v", key, show(value), show(want))
	case want != nil && math.Abs(*value-*want) > 1e-9*math.Abs(*want):
		t.Errorf("%s: %v, want %v", key, *value, *want)
	}
}

func show(v *float64) any {
	if v == nil {
		return "nothing"
	}
	return *v
}

func TestEveryPageInTestdataParses(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadAny(strings.NewReader(string(b)))
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for n, h := range r.Histograms {
			if len(h.Bounds) != len(h.Counts) || !slices.IsSorted(h.Bounds) || h.Count < 0 {
				t.Errorf("%s: broken histogram %s: %+v", f, n, h)
			}
		}
	}
}

func TestTensorRTOf2026HasAllSignals(t *testing.T) {
	r := readString(t, trtllm, string(readFixture(t, "trtllm-2026-metrics.reconstructed.txt")))
	for what, got := range map[string]*float64{"running 2": r.Running, "waiting 0": r.Waiting, "kv 0.0415": r.KV,
		"prompt 4812": r.PromptTokens, "generation 2290": r.GenerationTokens, "cached 1024": r.CachedTokens} {
		if got == nil {
			t.Errorf("%s is missing", what)
		}
	}
	if r.Failed["400"] != 1 || r.Finished["stop"] != 11 {
		t.Errorf("finished %v, failed %v", r.Finished, r.Failed)
	}
	if _, ok := r.Histograms[metrics.EngineITL]; ok {
		t.Error("a mean per request was taken for an inter-token latency")
	}
}

func TestIdleServerHasNoCountersRatherThanZeros(t *testing.T) {
	r := readString(t, vllm, string(readFixture(t, "inference-sim-metrics-idle.txt")))
	if r.Running == nil || *r.Running != 0 || r.KV == nil {
		t.Errorf("gauges are missing: %+v", r)
	}
	if r.PromptTokens != nil || r.GenerationTokens != nil || r.Finished != nil || r.Histograms != nil {
		t.Errorf("absent series were read as something: %+v", r)
	}
}

func TestOpenMetricsCountersAreReadAlthoughUntyped(t *testing.T) {
	r := readString(t, vllm, string(readFixture(t, "vllm-openmetrics.reconstructed.txt")))
	if r.PromptTokens == nil || *r.PromptTokens != 66 || r.Running == nil || *r.Running != 2 {
		t.Errorf("prompt %v, running %v", show(r.PromptTokens), show(r.Running))
	}
}

func TestNIM2IsReadByWhatIsOnThePage(t *testing.T) {
	r := readString(t, nim, string(readFixture(t, "vllm-0.13-metrics.txt")))
	if r.Engine != "vllm" || r.GenerationTokens == nil || *r.GenerationTokens != 600 {
		t.Errorf("read as %q: %v", r.Engine, show(r.GenerationTokens))
	}
}

func TestDynamoWorkerPageIsReadAsItsBackend(t *testing.T) {
	r := readString(t, dynamo, string(readFixture(t, "dynamo-worker-vllm-metrics.txt")))
	if r.Engine != "vllm" || *r.PromptTokens != 66 {
		t.Errorf("read as %q: %v", r.Engine, show(r.PromptTokens))
	}
}

func TestCaseEM01KVCacheRenamed(t *testing.T) {
	before := "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.302\n"
	after := "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.302\n"
	for body, want := range map[string]*float64{before: num(0.302), after: num(0.302), before + after: num(0.302), "vllm:num_requests_running 1\n": nil} {
		r := readString(t, vllm, body)
		if (r.KV == nil) != (want == nil) || (want != nil && *r.KV != *want) {
			t.Errorf("%q: %v, want %v", body, show(r.KV), show(want))
		}
	}
}

func TestCaseEM02TokenLatencyRenamed(t *testing.T) {
	hist := func(name string) string {
		return "# TYPE " + name + " histogram\n" + name + "_bucket{le=\"0.1\"} 200\n" + name + "_bucket{le=\"+Inf\"} 243\n" + name + "_count 243\n" + name + "_sum 12\n"
	}
	before, after := hist("vllm:time_per_output_token_seconds"), hist("vllm:inter_token_latency_seconds")
	other := hist("vllm:request_time_per_output_token_seconds")
	for _, body := range []string{before + after + other, after + other, before + other} {
		if got := readString(t, vllm, body).Histograms[metrics.EngineITL].Count; got != 243 {
			t.Errorf("%v observations, want 243", got)
		}
	}
	if h, ok := readString(t, vllm, other+"vllm:num_requests_running 0\n").Histograms[metrics.EngineITL]; ok {
		t.Errorf("the mean per request was read as ITL: %+v", h)
	}
}

func TestCaseEM03DataParallelRanks(t *testing.T) {
	r := readString(t, vllm, `vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 5
vllm:kv_cache_usage_perc{engine="0"} 0.9
vllm:kv_cache_usage_perc{engine="1"} 0.1
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} 1000
vllm:generation_tokens_total{engine="1"} 500
`)
	if *r.Running != 8 || *r.KV != 0.5 || *r.KVPeak != 0.9 || *r.GenerationTokens != 1500 {
		t.Errorf("running %v, kv %v peak %v, tokens %v", *r.Running, *r.KV, *r.KVPeak, *r.GenerationTokens)
	}
}

func TestTensorParallelCopiesAndPrioritiesAreNotAdded(t *testing.T) {
	r := readString(t, sglang, `sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0",priority=""} 4
sglang:num_running_reqs{model_name="m",tp_rank="1",dp_rank="0",priority=""} 4
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="1",priority=""} 2
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0",priority="1"} 3
sglang:cached_tokens_total{model_name="m",cache_source="device"} 30
sglang:cached_tokens_total{model_name="m",cache_source="host"} 12
sglang:cached_tokens_total{model_name="m",cache_source="total"} 42
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m",is_streaming="true"} 100
sglang:prompt_tokens_total{model_name="m",is_streaming="false"} 11
`)
	if *r.Running != 6 || *r.CachedTokens != 42 || *r.PromptTokens != 111 {
		t.Errorf("running %v, cached %v, prompt %v", *r.Running, *r.CachedTokens, *r.PromptTokens)
	}
}

func TestNaNIsNoValue(t *testing.T) {
	r := readString(t, llamacpp, "llamacpp:requests_processing 0\nllamacpp:kv_cache_usage_ratio nan\n# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total nan\n")
	if r.KV != nil || r.PromptTokens != nil || r.Running == nil {
		t.Errorf("kv %v, prompt %v, running %v", show(r.KV), show(r.PromptTokens), show(r.Running))
	}
}

func TestAbortsStayApartFromErrors(t *testing.T) {
	r := readString(t, vllm, `# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop"} 7
vllm:request_success_total{finished_reason="abort"} 2
vllm:request_success_total{finished_reason="error"} 1
`)
	if r.Finished["stop"] != 7 || r.Finished["abort"] != 2 || r.Failed["error"] != 1 || len(r.Failed) != 1 {
		t.Errorf("finished %v, failed %v", r.Finished, r.Failed)
	}
	if _, ok := r.Finished["error"]; ok {
		t.Error("an error counts as finished")
	}
}

func TestNothingIsKeptOfABrokenPage(t *testing.T) {
	whole := string(readFixture(t, "vllm-0.13-metrics.txt"))
	twice := "# HELP vllm:x a\n# TYPE vllm:x gauge\nvllm:x 1\n# HELP vllm:x b\nvllm:num_requests_running 1\n"
	for what, r := range map[string]io.Reader{
		"cut inside a line":  strings.NewReader(whole[:len(whole)/2]),
		"no final newline":   strings.NewReader(strings.TrimSuffix(whole, "\n")),
		"an HTML page":       strings.NewReader("<!doctype html><html></html>\n"),
		"a JSON array":       strings.NewReader(`[{"iter":1}]` + "\n"),
		"a second HELP line": strings.NewReader(twice),
		"a failing reader":   io.MultiReader(strings.NewReader(whole), iotest.ErrReader(errors.New("connection reset"))),
		"more than 8 MiB":    strings.NewReader(strings.Repeat("vllm:num_requests_running 1\n", maxPage/28+2)),
	} {
		got, err := vllm.Read(r)
		if err == nil {
			t.Errorf("%s: no error", what)
		}
		if got.Engine != "" || got.Running != nil || got.Histograms != nil {
			t.Errorf("%s: half a page was kept: %+v", what, got)
		}
	}
}

func TestUnknownPageIsEmptyNotAnError(t *testing.T) {
	for _, body := range []string{"", "# TYPE python_gc_objects_collected_total counter\npython_gc_objects_collected_total 3\n"} {
		r := readString(t, vllm, body)
		if r.Engine != "" || r.Running != nil || r.PromptTokens != nil {
			t.Errorf("%q read as %+v", body, r)
		}
	}
}

func TestBucketsOfAnyOrderAndSpellingAreTheSame(t *testing.T) {
	a := readString(t, vllm, `# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum 2
vllm:time_to_first_token_seconds_bucket{le="1.0"} 3
vllm:time_to_first_token_seconds_bucket{le="0.5"} 1
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4
vllm:time_to_first_token_seconds_count 4
`).Histograms[metrics.EngineTTFT]
	b := readString(t, vllm, `# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.5"} 1
vllm:time_to_first_token_seconds_bucket{le="1"} 3
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4
vllm:time_to_first_token_seconds_count 4
vllm:time_to_first_token_seconds_sum 2
`).Histograms[metrics.EngineTTFT]
	if !slices.Equal(a.Bounds, b.Bounds) || !slices.Equal(a.Counts, b.Counts) || a.Sum != b.Sum || a.Count != b.Count || a.Bounds[0] != 0.5 {
		t.Errorf("%+v and %+v", a, b)
	}
}

func num(v float64) *float64 { return &v }
