package engines

import (
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var trtllm = Engine{
	Name:  "trtllm",
	Title: "TensorRT-LLM",
	About: "NVIDIA's compiled engine: highest throughput on its newer GPUs, slower to start.",
	Images: []Image{
		{Arch: "arm64", Ref: "nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev", CUDA: "13", Device: "GB10", Note: "For DGX Spark."},
		{Arch: "amd64", Ref: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13", CUDA: "13"},
		{Arch: "arm64", Ref: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13", CUDA: "13"},
	},
	Port:       8000,
	HealthPath: "/health",
	Paths:      []string{PathChat, PathCompletions, PathResponses},
	// Only with return_perf_metrics; /metrics is a queue of JSON that reading empties.
	MetricsPath:   "/prometheus/metrics",
	NeedsGPU:      true,
	MinComputeCap: "8.0",
	Sources:       []string{factory.SourceHuggingFace, factory.SourcePath},
	RunningUsage:  "continuous_usage_stats",
	mapping: mapping{
		prefixes:   []string{"trtllm_", "trtllm:"},
		model:      "model_name",
		running:    named("num_requests_running"),
		waiting:    named("num_requests_waiting"),
		kv:         named("kv_cache_utilization"),
		prompt:     named("prompt_tokens_total"),
		generation: named("generation_tokens_total"),
		cached:     named("prompt_cached_tokens_total"),
		hitRate:    named("kv_cache_hit_rate"),
		finished:   []outcome{{name: "request_success_total", by: []string{"finished_reason"}}},
		failed:     []outcome{{name: "request_error_total", by: []string{"http_code"}}},
		histograms: map[metrics.Name][]series{
			metrics.EngineTTFT: named("time_to_first_token_seconds"),
			// time_per_output_token_seconds is a mean per request here, not an ITL.
			metrics.EngineE2E:     named("e2e_request_latency_seconds"),
			metrics.EngineQueue:   named("request_queue_time_seconds"),
			metrics.EnginePrefill: named("request_prefill_time_seconds"),
			metrics.EngineDecode:  named("request_decode_time_seconds"),
		},
	},
}
