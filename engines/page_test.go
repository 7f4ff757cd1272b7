package engines

import (
	"slices"
	"testing"

	"tokenfactory/metrics"
)

func TestEM01KVCacheRenamed(t *testing.T) {
	before := "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.302\n"
	after := "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.302\n"
	for body, want := range map[string]*float64{before: num(0.302), after: num(0.302), before + after: num(0.302), "vllm:num_requests_running 1\n": nil} {
		r := readString(t, vllm, body)
		if (r.KV == nil) != (want == nil) || (want != nil && *r.KV != *want) {
			t.Errorf("%q: %v, want %v", body, show(r.KV), show(want))
		}
	}
}

func TestEM02TokenLatencyRenamed(t *testing.T) {
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

func TestEM03DataParallelRanks(t *testing.T) {
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

func TestEM10LabelValuesWithCommasBracesAndQuotes(t *testing.T) {
	awkward := readString(t, vllm, `vllm:num_requests_running{engine="0",model_name="a,b{c}=\"d\" \\ e"} 4`+"\n")
	if awkward.Model != `a,b{c}="d" \ e` || *awkward.Running != 4 {
		t.Errorf("model %q running %v", awkward.Model, show(awkward.Running))
	}
	trailing := readString(t, vllm, `vllm:num_requests_waiting{model_name="x",} 2`+"\n")
	if trailing.Model != "x" || *trailing.Waiting != 2 || trailing.ParseErrors != 0 {
		t.Errorf("model %q waiting %v", trailing.Model, show(trailing.Waiting))
	}
	line := readString(t, vllm, `vllm:num_requests_waiting{model_name="two\nlines # TYPE"} 3`+"\n")
	if line.Model != "two\nlines # TYPE" || *line.Waiting != 3 {
		t.Errorf("model %q waiting %v", line.Model, show(line.Waiting))
	}
}

func TestEM11CreationTimesAreNoTokens(t *testing.T) {
	r := readString(t, vllm, `# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 500
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7537953e+09
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="1",model_name="m"} 2
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1
# TYPE vllm:time_to_first_token_seconds_created gauge
vllm:time_to_first_token_seconds_created{engine="0",model_name="m"} 1.7537953e+09
`)
	if *r.PromptTokens != 500 {
		t.Errorf("prompt tokens %v", *r.PromptTokens)
	}
	if h := r.Histograms[metrics.EngineTTFT]; h.Count != 2 || h.Sum != 1 {
		t.Errorf("%+v", h)
	}
	for i, v := range []*float64{r.Running, r.Waiting, r.KV, r.GenerationTokens, r.CachedTokens, r.PrefixQueries, r.Preemptions} {
		if v != nil {
			t.Errorf("signal %d is %v, which nobody said", i, *v)
		}
	}
}

func TestPrefixHitsAreOfTheirLookups(t *testing.T) {
	r := readString(t, vllm, `vllm:prompt_tokens_cached_total 50
vllm:prefix_cache_hits_total 40
vllm:prefix_cache_queries_total 100
vllm:external_prefix_cache_hits_total 9
vllm:num_preemptions_total{engine="0"} 2
vllm:num_preemptions_total{engine="1"} 3
`)
	if *r.PrefixHits != 40 || *r.PrefixQueries != 100 || *r.CachedTokens != 50 || *r.Preemptions != 5 {
		t.Errorf("hits %v of %v, cached %v, preemptions %v", show(r.PrefixHits), show(r.PrefixQueries), show(r.CachedTokens), show(r.Preemptions))
	}
	if r := readString(t, vllm, "vllm:gpu_prefix_cache_hit_rate -1\nvllm:num_requests_running 0\n"); r.HitRate != nil {
		t.Errorf("a hit rate of %v", *r.HitRate)
	}
	if r := readString(t, sglang, "sglang:num_retracted_requests_total{tp_rank=\"0\"} 4\nsglang:num_retracted_requests_total{tp_rank=\"1\"} 4\nsglang:cache_hit_rate 0.25\n"); *r.Preemptions != 4 || *r.HitRate != 0.25 {
		t.Errorf("preemptions %v, hit rate %v", show(r.Preemptions), show(r.HitRate))
	}
}

func TestTensorParallelCopiesAndPrioritiesAreNotAdded(t *testing.T) {
	r := readString(t, sglang, `sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0",priority=""} 4
sglang:num_running_reqs{model_name="m",tp_rank="1",dp_rank="0",priority=""} 5
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="1",priority=""} 2
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0",priority="1"} 3
sglang:cached_tokens_total{model_name="m",cache_source="device"} 30
sglang:cached_tokens_total{model_name="m",cache_source="host"} 12
sglang:cached_tokens_total{model_name="m",cache_source="total"} 42
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m",is_streaming="true"} 100
sglang:prompt_tokens_total{model_name="m",is_streaming="false"} 11
`)
	if *r.Running != 7 || *r.CachedTokens != 42 || *r.PromptTokens != 111 {
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

func TestPhantomRanksDoNotLowerTheAverage(t *testing.T) {
	r := readString(t, vllm, string(readFixture(t, "vllm-dp-multiproc-metrics.reconstructed.txt")))
	if r.KV == nil || *r.KV != 0.5 {
		t.Errorf("KV %v, want the average of ranks 6 and 7", show(r.KV))
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

func TestOpenMetricsCountersAreReadAlthoughUntyped(t *testing.T) {
	r := readString(t, vllm, string(readFixture(t, "vllm-openmetrics.reconstructed.txt")))
	if r.PromptTokens == nil || *r.PromptTokens != 66 || r.Running == nil || *r.Running != 2 {
		t.Errorf("prompt %v, running %v", show(r.PromptTokens), show(r.Running))
	}
}
