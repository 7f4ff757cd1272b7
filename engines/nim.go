package engines

import (
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var nim = Engine{
	Name:  "nim",
	Title: "NVIDIA NIM",
	About: "NVIDIA's ready-made images, one for each model, tuned for its GPUs.",
	Images: []Image{
		{Arch: "arm64", Ref: "nvcr.io/nim/meta/llama-3.1-8b-instruct-dgx-spark:latest", CUDA: "13", Device: "GB10", Note: "The model's own image for DGX Spark; few models have one."},
		{Arch: "amd64", Ref: "nvcr.io/nim/meta/llama-3.1-8b-instruct:latest", CUDA: "12", Note: "The model's location names the image."},
	},
	Port:          8000,
	HealthPath:    "/v1/health/ready",
	Paths:         []string{PathChat, PathCompletions, PathEmbeddings, PathResponses},
	MetricsPath:   "/v1/metrics",
	NeedsGPU:      true,
	MinComputeCap: "7.0",
	Sources:       []string{factory.SourceNGC},
	RunningUsage:  "continuous_usage_stats",
	// Releases 1.x have vLLM's old names without its prefix; 2.x pass vLLM's page
	// through, which is recognised by what is on it.
	mapping: mapping{
		prefixes:   []string{""},
		model:      "model_name",
		running:    named("num_requests_running"),
		waiting:    named("num_requests_waiting"),
		kv:         named("gpu_cache_usage_perc"),
		prompt:     named("prompt_tokens_total"),
		generation: named("generation_tokens_total"),
		finished:   []outcome{{name: "request_finish_total", by: []string{"finished_reason"}}, {name: "request_success_total", none: "success"}},
		failed:     []outcome{{name: "request_failure_total", none: "error"}},
		histograms: map[metrics.Name][]series{
			metrics.EngineTTFT: named("time_to_first_token_seconds"),
			metrics.EngineITL:  named("time_per_output_token_seconds"),
			metrics.EngineE2E:  named("e2e_request_latency_seconds"),
		},
	},
}
