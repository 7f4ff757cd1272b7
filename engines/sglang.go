package engines

import (
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var sglang = Engine{
	Name:  "sglang",
	Title: "SGLang",
	About: "Strong where prompts share long beginnings: agents, tools, structured output.",
	Images: []Image{
		{Arch: "amd64", Ref: "lmsysorg/sglang:latest-cu130", CUDA: "13"},
		{Arch: "amd64", Ref: "lmsysorg/sglang:latest", CUDA: "12"},
		{Arch: "arm64", Ref: "lmsysorg/sglang:latest-cu130", CUDA: "13", Note: "Also for DGX Spark."},
	},
	Port:        30000,
	HealthPath:  "/health", // generates a token, so it takes at least a second
	Paths:       []string{PathChat, PathCompletions, PathEmbeddings, PathResponses, PathRerank},
	MetricsPath: "/metrics",
	Command:     []string{"python3", "-m", "sglang.launch_server"},
	// Importing it takes many seconds; asking for the version of the package does not.
	Probe:         []string{"python3", "-c", "from importlib.metadata import version; print(version('sglang'))"},
	Install:       "Install it with pip install sglang for the python3 that is on the agent's PATH.",
	NeedsGPU:      true,
	MinComputeCap: "7.5",
	Sources:       []string{factory.SourceHuggingFace, factory.SourcePath},
	RunningUsage:  "continuous_usage_stats",
	arguments:     sglangArguments,
	hints: []hint{
		{"not enough memory", "The GPU's memory is too small. Lower the context length, use more GPUs, or change --mem-fraction-static in the engine arguments."},
	},
	mapping: mapping{
		// The router's own exporter writes an underscore.
		prefixes: []string{"sglang:", "sglang_"},
		model:    "model_name",
		copies:   []string{"tp_rank", "pp_rank", "moe_ep_rank", "pid"},
		// A priority breaks the figure without one down; source "total" sums the sources.
		totals:     map[string]string{"priority": "", "cache_source": "total"},
		running:    named("num_running_reqs"),
		waiting:    named("num_queue_reqs"),
		kv:         named("token_usage"),
		prompt:     named("prompt_tokens_total"),
		generation: named("generation_tokens_total"),
		cached:     named("cached_tokens_total"),
		hitRate:    named("cache_hit_rate"), // of the last batch
		// num_retracted_reqs is a gauge, and num_retractions is per request.
		preemptions: named("num_retracted_requests_total"),
		finished:    []outcome{{name: "num_requests_total", none: "finished"}},
		histograms: map[metrics.Name][]series{
			metrics.EngineTTFT:  named("time_to_first_token_seconds"),
			metrics.EngineITL:   named("inter_token_latency_seconds", "time_per_output_token_seconds"),
			metrics.EngineE2E:   named("e2e_request_latency_seconds"),
			metrics.EngineQueue: named("queue_time_seconds"),
		},
	},
}

func sglangArguments(spec factory.ReplicaSpec, host string, port int) []string {
	f := flags{"--model-path", spec.Location}
	f.text("--served-model-name", servedName(spec))
	f.listen(host, port)
	f.when(true, "--enable-metrics", "--enable-cache-report")
	f.number("--context-length", spec.ContextLength)
	if n := len(spec.GPUUUIDs); n > 1 {
		f.number("--tp", n)
	}
	f.when(spec.Unified, "--mem-fraction-static", "0.75")
	f.when(!spec.PrefixCaching, "--disable-radix-cache")
	f.when(spec.Embedding, "--is-embedding")
	return f
}
