package engines

import "tokenfactory/factory"

var llamacpp = Engine{
	Name:  "llamacpp",
	Title: "llama.cpp",
	About: "GGUF models on anything: CPUs, old and new GPUs, x86-64 and Arm. Few requests at a time.",
	Images: []Image{
		{Arch: "amd64", Ref: "ghcr.io/ggml-org/llama.cpp:server-cuda13", CUDA: "13"},
		{Arch: "amd64", Ref: "ghcr.io/ggml-org/llama.cpp:server-cuda", CUDA: "12"},
		{Arch: "amd64", Ref: "ghcr.io/ggml-org/llama.cpp:server", Note: "CPU only."},
		{Arch: "arm64", Ref: "ghcr.io/ggml-org/llama.cpp:server-cuda13", CUDA: "13", Note: "Also for DGX Spark."},
		{Arch: "arm64", Ref: "ghcr.io/ggml-org/llama.cpp:server", Note: "CPU only."},
	},
	Port:         8080,
	HealthPath:   "/health",
	Paths:        []string{PathChat, PathCompletions, PathEmbeddings, PathResponses, PathRerank},
	MetricsPath:  "/metrics",
	Command:      []string{"llama-server"},
	Probe:        []string{"llama-server", "--version"},
	Install:      "Install llama.cpp from your distribution or its releases page and put llama-server on the agent's PATH.",
	Sources:      []string{factory.SourceHuggingFace, factory.SourcePath},
	RunningUsage: "timings_per_token",
	arguments:    llamacppArguments,
	hints: []hint{
		{"failed to load model", "The weights could not be loaded. llama.cpp needs a GGUF file, or a Hugging Face repository that has one."},
		{"no gguf files found", "The Hugging Face repository has no GGUF file. Choose one whose name ends in -GGUF."},
	},
	mapping: mapping{
		prefixes: []string{"llamacpp:"},
		// Its token counters and these two gauges are all there is: no labels, no histograms.
		running:    named("requests_processing"),
		waiting:    named("requests_deferred"),
		kv:         named("kv_cache_usage_ratio"), // gone since mid-2025
		prompt:     named("prompt_tokens_total"),
		generation: named("tokens_predicted_total"),
		cached:     named("prompt_tokens_cached_total"),
		apart:      true, // it counts what it computed
	},
}

func llamacppArguments(spec factory.ReplicaSpec, host string, port int) []string {
	var f flags
	if spec.Source == factory.SourcePath {
		f.text("-m", spec.Location)
	} else {
		f.text("-hf", spec.Location)
	}
	f.text("-a", servedName(spec))
	f.listen(host, port)
	f.when(true, "--metrics")
	f.number("-c", spec.ContextLength)
	// Older builds leave the model on the CPU unless told.
	f.when(len(spec.GPUUUIDs) > 0, "-ngl", "999")
	f.when(!spec.PrefixCaching, "--no-cache-prompt")
	f.when(spec.Embedding, "--embeddings")
	return f
}
