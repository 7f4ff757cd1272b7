package factory

import "slices"

// BuiltInProviders are the sources of the built-in models, ready to be added
// to a catalogue together with the first model of theirs.
var BuiltInProviders = []Provider{
	{Name: "qwen", Description: "Qwen, by Alibaba Cloud", Website: "https://qwen.ai"},
	{Name: "meta", Description: "Llama, by Meta", Website: "https://www.llama.com"},
	{Name: "mistral", Description: "Mistral AI", Website: "https://mistral.ai"},
	{Name: "google", Description: "Gemma, by Google DeepMind", Website: "https://deepmind.google/models/gemma"},
	{Name: "microsoft", Description: "Phi, by Microsoft", Website: "https://azure.microsoft.com/products/phi"},
	{Name: "deepseek", Description: "DeepSeek", Website: "https://www.deepseek.com"},
	{Name: "openai", Description: "gpt-oss, by OpenAI", Website: "https://openai.com/open-models"},
	{Name: "nvidia", Description: "Nemotron, by NVIDIA", Website: "https://www.nvidia.com"},
	{Name: "baai", Description: "BGE, by the Beijing Academy of Artificial Intelligence", Website: "https://www.baai.ac.cn"},
}

// BuiltInModels are current open models to start a catalogue from. The figures
// are the publishers' own; context lengths are those that work without extra
// engine arguments. A shape of zero means that the memory estimate's formula
// does not hold for that architecture, so no number is better than a wrong one.
var BuiltInModels = []LLM{
	builtIn("qwen2-0.5b-instruct", "qwen", "Qwen/Qwen2-0.5B-Instruct",
		"Tiny chat model: proves an installation in seconds.", 32768, 0.494, 16, 24, 2, 64),
	builtIn("qwen2.5-7b-instruct", "qwen", "Qwen/Qwen2.5-7B-Instruct",
		"General chat on one small GPU.", 32768, 7.62, 16, 28, 4, 128),
	builtIn("qwen3-8b", "qwen", "Qwen/Qwen3-8B",
		"Chat with a thinking mode that can be switched off.", 40960, 8.19, 16, 36, 8, 128),
	builtIn("qwen3-32b", "qwen", "Qwen/Qwen3-32B",
		"Strong dense model with a thinking mode.", 40960, 32.8, 16, 64, 8, 128),
	builtIn("qwen3-coder-30b-a3b-instruct", "qwen", "Qwen/Qwen3-Coder-30B-A3B-Instruct",
		"Coding agents with long contexts; mixture of experts, 3.3B active.", 262144, 30.5, 16, 48, 4, 128),
	builtIn("llama-3.1-8b-instruct", "meta", "meta-llama/Llama-3.1-8B-Instruct",
		"General chat and tools. The licence must be accepted at Hugging Face.", 131072, 8.03, 16, 32, 8, 128),
	builtIn("llama-3.3-70b-instruct", "meta", "meta-llama/Llama-3.3-70B-Instruct",
		"Large general model. The licence must be accepted at Hugging Face.", 131072, 70.6, 16, 80, 8, 128),
	builtIn("mistral-7b-instruct-v0.3", "mistral", "mistralai/Mistral-7B-Instruct-v0.3",
		"Small chat model with function calling.", 32768, 7.25, 16, 32, 8, 128),
	builtIn("mistral-small-24b-instruct-2501", "mistral", "mistralai/Mistral-Small-24B-Instruct-2501",
		"Low-latency general model for one large GPU.", 32768, 23.6, 16, 40, 8, 128),
	builtIn("gemma-2-9b-it", "google", "google/gemma-2-9b-it",
		"Chat model; half its layers see 4,096 tokens only, so the cache estimate is an upper bound.", 8192, 9.24, 16, 42, 8, 256),
	builtIn("gemma-3-27b-it", "google", "google/gemma-3-27b-it",
		"Text and images; five of six layers see 1,024 tokens only, so the cache estimate is an upper bound.", 131072, 27.4, 16, 62, 16, 128),
	builtIn("phi-4", "microsoft", "microsoft/phi-4",
		"Reasoning and mathematics in a compact model.", 16384, 14.7, 16, 40, 10, 128),
	builtIn("deepseek-r1-distill-qwen-32b", "deepseek", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
		"Reasoning distilled into a dense 32B model.", 131072, 32.8, 16, 64, 8, 128),
	builtIn("gpt-oss-20b", "openai", "openai/gpt-oss-20b",
		"Reasoning and tools; mixture of experts with MXFP4 weights, a download of 12.8 GiB.", 131072, 20.9, 4, 24, 8, 64),
	builtIn("gpt-oss-120b", "openai", "openai/gpt-oss-120b",
		"Reasoning and tools on one 80 GB GPU; MXFP4 weights, a download of 60.8 GiB.", 131072, 116.8, 4, 36, 8, 64),
	builtIn("nemotron-nano-9b-v2", "nvidia", "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
		"Hybrid of Mamba and attention: long contexts need little cache.", 131072, 8.89, 16, 0, 0, 0),
	embedding(builtIn("bge-m3", "baai", "BAAI/bge-m3",
		"Multilingual embeddings for search; answers /v1/embeddings.", 8192, 0.568, 16, 0, 0, 0)),
}

// BuiltInModel finds an entry of the built-in list by its name.
func BuiltInModel(name string) (LLM, bool) {
	i := slices.IndexFunc(BuiltInModels, func(m LLM) bool { return m.Name == name })
	if i < 0 {
		return LLM{}, false
	}
	return BuiltInModels[i], true
}

// BuiltInProvider finds a provider of the built-in list by its name.
func BuiltInProvider(name string) (Provider, bool) {
	i := slices.IndexFunc(BuiltInProviders, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return BuiltInProviders[i], true
}

func builtIn(name, provider, location, about string, context int, parameters float64, bits, layers, kvHeads, headSize int) LLM {
	return LLM{Name: name, ProviderName: provider, ModelSpec: ModelSpec{
		Provider: provider, Source: SourceHuggingFace, Location: location, Description: about,
		ContextLength: context, Parameters: parameters, WeightBits: bits,
		Layers: layers, KVHeads: kvHeads, HeadSize: headSize,
	}}
}

func embedding(m LLM) LLM {
	m.Embedding = true
	return m
}
