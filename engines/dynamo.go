package engines

import (
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var dynamo = Engine{
	Name:  "dynamo",
	Title: "NVIDIA Dynamo",
	About: "Spreads one model over many machines, with prefill and decode apart.",
	Images: []Image{
		{Arch: "amd64", Ref: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0", CUDA: "12"},
		{Arch: "arm64", Ref: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0", CUDA: "12"},
	},
	Port:          8000,
	HealthPath:    "/health", // can be 200 with "unhealthy" in its body before a worker registers
	Paths:         []string{PathChat, PathCompletions, PathEmbeddings, PathResponses},
	MetricsPath:   "/metrics",
	NeedsGPU:      true,
	MinComputeCap: "8.0",
	Sources:       []string{factory.SourceHuggingFace},
	mapping: mapping{
		prefixes:   []string{"dynamo_frontend_"},
		model:      "model", // lower-cased on request metrics, as given on model_* gauges
		running:    named("inflight_requests"),
		waiting:    named("queued_requests"), // no first token yet, so prefill is in it
		prompt:     []series{{name: "input_sequence_tokens", sum: true}},
		generation: named("output_tokens_total"),
		cached:     []series{{name: "cached_tokens", sum: true}},
		finished:   []outcome{{name: "requests_total", by: []string{"status"}, only: "success"}},
		failed:     []outcome{{name: "requests_total", by: []string{"error_type", "status"}, where: "status", is: "error"}},
		histograms: map[metrics.Name][]series{
			metrics.EngineTTFT: named("time_to_first_token_seconds"),
			metrics.EngineITL:  named("inter_token_latency_seconds"),
			metrics.EngineE2E:  named("request_duration_seconds"),
		},
	},
}
