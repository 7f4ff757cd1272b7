package engines

import (
	"strings"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var vllm = Engine{
	Name:  "vllm",
	Title: "vLLM",
	About: "The widely used default: continuous batching, prefix caching, nearly every open model, on x86-64 and Arm.",
	Images: []Image{
		{Arch: "arm64", Ref: "nvcr.io/nvidia/vllm:26.05.post1-py3", CUDA: "13", Device: "GB10", Note: "NVIDIA's build for DGX Spark; its entrypoint is a shell."},
		{Arch: "amd64", Ref: "vllm/vllm-openai:v0.21.0", CUDA: "13"},
		{Arch: "amd64", Ref: "vllm/vllm-openai:v0.21.0-cu129", CUDA: "12"},
		{Arch: "arm64", Ref: "vllm/vllm-openai:v0.21.0", CUDA: "13"},
		{Arch: "arm64", Ref: "vllm/vllm-openai:v0.21.0-cu129", CUDA: "12"},
	},
	Port:          8000,
	HealthPath:    "/health",
	Paths:         []string{PathChat, PathCompletions, PathEmbeddings, PathResponses, PathRerank},
	MetricsPath:   "/metrics",
	Command:       []string{"vllm", "serve"},
	Install:       "Install it with pip install vllm in an environment that is on the agent's PATH.",
	NeedsGPU:      true,
	MinComputeCap: "7.0",
	Sources:       []string{factory.SourceHuggingFace, factory.SourceObject, factory.SourcePath},
	RunningUsage:  "continuous_usage_stats",
	arguments:     vllmArguments,
	hints: []hint{
		{"invalid literal for int() with base 10: 'gpu-", "This vLLM is too old to be given GPUs by UUID. Update vLLM to a release from the second half of 2026."},
		{"invalid literal for int() with base 10: 'mig-", "This vLLM is too old to be given MIG slices by UUID. Update vLLM to a release from the second half of 2026."},
		{"is less than desired gpu memory utilization", "Something else holds the GPU's memory. Stop it, or add --gpu-memory-utilization with a smaller share to the engine arguments."},
		{"no available memory for the cache blocks", "After the weights no memory is left for the KV cache. Lower the context length, use more GPUs, or a quantised model."},
		{"is larger than the maximum number of tokens that can be stored in kv cache", "The KV cache cannot hold one sequence of this context length. Lower the context length."},
		{"trust_remote_code", "The model brings its own code. If you trust it, add --trust-remote-code to the engine arguments."},
	},
	mapping: vllmMapping,
}

func vllmArguments(spec factory.ReplicaSpec, host string, port int) []string {
	f := flags{spec.Location}
	f.text("--served-model-name", servedName(spec))
	f.listen(host, port)
	f.number("--max-model-len", spec.ContextLength)
	if n := len(spec.GPUUUIDs); n > 1 {
		f.number("--tensor-parallel-size", n)
	}
	// The fraction is of all memory, which on GB10 the system lives in too: the
	// default of 0.9 fails at start there.
	f.when(spec.Unified, "--gpu-memory-utilization", "0.85")
	if !spec.Embedding {
		f.when(spec.PrefixCaching, "--enable-prefix-caching")
		f.when(!spec.PrefixCaching, "--no-enable-prefix-caching")
		// Without it cached tokens are not told apart, and would be billed in full.
		f.when(true, "--enable-prompt-tokens-details")
	}
	f.when(strings.Contains(spec.Location, "://"), "--load-format", "runai_streamer")
	return f
}

// Names of the v1 engine first, those of earlier releases after.
var vllmMapping = mapping{
	prefixes: []string{"vllm:"},
	model:    "model_name",
	rank:     "engine",
	running:  named("num_requests_running"),
	waiting:  named("num_requests_waiting"),
	kv:       named("kv_cache_usage_perc", "gpu_cache_usage_perc"),
	// By source comes last: its samples add up to the plain counter.
	prompt:     named("prompt_tokens_total", "prompt_tokens_by_source_total"),
	generation: named("generation_tokens_total"),
	cached: []series{
		{name: "prompt_tokens_cached_total"},
		{name: "prompt_tokens_by_source_total", label: "source", value: "local_cache_hit"},
		{name: "prefix_cache_hits_total"},
		// gpu_prefix_cache_hits_total counted blocks, not tokens.
	},
	// The external cache's counters are of the tokens that this one did not have.
	hits:        named("prefix_cache_hits_total"),
	lookups:     named("prefix_cache_queries_total"),
	hitRate:     named("gpu_prefix_cache_hit_rate"),
	preemptions: named("num_preemptions_total"),
	// In spite of its name the family has aborts and errors in it. llm-d's simulator
	// writes finish_reason.
	finished: []outcome{{name: "request_success_total", by: []string{"finished_reason", "finish_reason"}, none: "stop", except: "error"}},
	failed:   []outcome{{name: "request_success_total", by: []string{"finished_reason", "finish_reason"}, only: "error"}},
	histograms: map[metrics.Name][]series{
		metrics.EngineTTFT: named("time_to_first_token_seconds"),
		// request_time_per_output_token_seconds is a mean per request: another thing.
		metrics.EngineITL:     named("inter_token_latency_seconds", "time_per_output_token_seconds"),
		metrics.EngineE2E:     named("e2e_request_latency_seconds"),
		metrics.EngineQueue:   named("request_queue_time_seconds", "time_in_queue_requests"),
		metrics.EnginePrefill: named("request_prefill_time_seconds"),
		metrics.EngineDecode:  named("request_decode_time_seconds"),
	},
}
