package metrics

// Catalogue is every metric that is kept, in the order of the page. What a newer agent
// measures beyond it is left out of its reports, and the rest of them is taken in.
var Catalogue = []Metric{
	{TTFT, Distribution, UserLayer, "TTFT", "Time to first token", "ms",
		"How long people look at nothing: our queue, the network, the engine's queue and the prefill of the prompt.",
		"Look at the engine's waiting requests and at prompt lengths. Add replicas, turn on prompt caching or shorten prompts. If only p99 is high, traffic comes in bursts."},
	{ITL, Distribution, UserLayer, "ITL", "Inter-token latency", "ms",
		"How smoothly the answer flows once it has begun. Above 250 ms text arrives slower than people read.",
		"Look at the running batch, the KV cache and the GPU's heat. Make the batch smaller, shorten outputs, or use GPUs with more memory bandwidth."},
	{E2E, Distribution, UserLayer, "E2E", "End to end", "ms",
		"From the request to its last byte, completed requests only: about TTFT plus ITL times the tokens after the first.",
		"See which part grew. TTFT points to queueing and prefill, ITL to decoding; if neither moved, answers became longer."},
	{KVCache, Gauge, InfrastructureLayer, "KV cache", "KV cache in use", "%",
		"How much of the engine's memory for running conversations is taken. A wide spread between peak and average means bursts of long contexts.",
		"Over 90 % the engine queues or preempts. Add replicas, lower the maximum context, or use an FP8 cache."},

	{Queue, Distribution, UserLayer, "Queue", "Wait in the gateway", "ms", "How long requests waited here before a replica took them.", "Add replicas, or raise the requests that one replica gets at once."},
	{Decode, Distribution, UserLayer, "Decode", "From the first token to the last", "ms", "How long answers take once they have begun.", "See ITL; if that did not move, answers became longer."},
	{Abandoned, Distribution, UserLayer, "Abandoned", "Waited, then left", "ms", "How long clients had waited that left before their first token.", "They left because of TTFT, or their own time limits are too short."},
	{Good, Counter, UserLayer, "Good", "Good requests", "", "Requests that succeeded and met the targets.", ""},
	{Bad, Counter, UserLayer, "Bad", "Bad requests", "", "Requests that failed, or missed a target.", "The diagnosis says which part is to blame."},

	{Requests, Counter, WorkloadLayer, "Requests", "Requests answered", "", "What clients asked and were answered, whatever the answer.", ""},
	{Failures, Counter, WorkloadLayer, "Errors", "Requests failed", "", "Requests that failed for reasons on our side: the engine, the machine, the way to it.", "Look at the states of replicas and at their last log lines. Restart, or roll back."},
	{InputTokens, Counter, WorkloadLayer, "Tokens in", "Prompt tokens", "tokens", "Prompt tokens of the requests, as billed.", ""},
	{CachedTokens, Counter, WorkloadLayer, "Cached", "Cached prompt tokens", "tokens", "Prompt tokens that the prefix cache saved.", ""},
	{OutputTokens, Counter, WorkloadLayer, "Tokens out", "Output tokens", "tokens", "Tokens made, as billed.", ""},
	{PromptLength, Distribution, WorkloadLayer, "Prompt length", "Tokens in a prompt", "tokens", "How long prompts are. Prefill takes time in proportion.", "Longer prompts raise TTFT. Shorten them, or turn on prefix caching."},
	{OutputLength, Distribution, WorkloadLayer, "Output length", "Tokens in an answer", "tokens", "How long answers are.", "Longer answers raise E2E and fill the KV cache. Bound them with max_tokens."},
	{InFlight, Gauge, WorkloadLayer, "Concurrency", "Requests under way", "", "Requests at engines at one time.", ""},
	{Held, Gauge, WorkloadLayer, "Held", "Requests held in the gateway", "", "Requests that wait here for a replica.", "Add replicas, or let one replica take more at once."},

	{Running, Gauge, InfrastructureLayer, "Running", "Requests in the batch", "", "How many requests the engine works on at once.", "A large batch slows every token down. Lower the engine's largest batch, or add replicas."},
	{Waiting, Gauge, InfrastructureLayer, "Waiting", "Requests in the engine's queue", "", "Requests that the engine has not begun with.", "A queue that stays means too few replicas."},
	{EngineTTFT, Bucketed, InfrastructureLayer, "Engine TTFT", "Time to first token, as the engine has it", "ms", "What the engine measured of itself: without our queue and the network.", "Where it differs from ours beyond the queue, look at the path between."},
	{EngineITL, Bucketed, InfrastructureLayer, "Engine ITL", "Inter-token latency, as the engine has it", "ms", "What the engine measured of itself.", ""},
	{EngineE2E, Bucketed, InfrastructureLayer, "Engine E2E", "End to end, as the engine has it", "ms", "What the engine measured of itself.", ""},
	{EngineQueue, Bucketed, InfrastructureLayer, "Engine queue", "Wait in the engine's queue", "ms", "How long requests waited in the engine.", "Add replicas."},
	{EnginePrefill, Bucketed, InfrastructureLayer, "Prefill", "Prefill of prompts", "ms", "How long the engine took to read prompts.", "Shorter prompts, prefix caching, or faster GPUs."},
	{EngineDecode, Bucketed, InfrastructureLayer, "Engine decode", "Decoding, as the engine has it", "ms", "How long the engine took from the first token to the last.", ""},
	{PromptTokens, Counter, InfrastructureLayer, "Engine tokens in", "Prompt tokens, as the engine counts", "tokens", "", ""},
	{GenerationTokens, Counter, InfrastructureLayer, "Engine tokens out", "Output tokens, as the engine counts", "tokens", "", ""},
	{PrefixHits, Counter, InfrastructureLayer, "Prefix hits", "Tokens found in the prefix cache", "tokens", "", ""},
	{PrefixQueries, Counter, InfrastructureLayer, "Prefix lookups", "Tokens looked up in the prefix cache", "tokens", "", ""},
	{PrefixHitRate, Gauge, InfrastructureLayer, "Prefix hit rate", "Prefix cache hit rate, as the engine has it", "%", "", ""},
	{Preemptions, Counter, InfrastructureLayer, "Preemptions", "Requests thrown out of the batch", "", "The engine ran out of KV cache and put requests back, to be computed again.", "Lower the longest context or the batch, use an FP8 cache, or add replicas."},
	{EngineFinished, Counter, InfrastructureLayer, "Engine finished", "Requests finished, as the engine counts", "", "", ""},
	{EngineFailed, Counter, InfrastructureLayer, "Engine failed", "Requests failed, as the engine counts", "", "", ""},
	{ScrapeErrors, Counter, InfrastructureLayer, "Unreadable lines", "Lines of the metrics page that could not be read", "", "", ""},
	{ScrapesMissed, Counter, InfrastructureLayer, "Missed readings", "Readings of the metrics page that failed", "", "", ""},

	{GPUUtilisation, Gauge, NodeLayer, "GPU", "GPU busy", "%", "The share of time in which anything ran on the GPU.", ""},
	{GPUMemory, Gauge, NodeLayer, "GPU memory", "GPU memory in use", "%", "", ""},
	{GPUTemperature, Gauge, NodeLayer, "Temperature", "GPU temperature", "°C", "", "Above its limit a GPU slows itself down: look at the clock and at the cooling."},
	{GPUPower, Gauge, NodeLayer, "Power", "GPU power", "W", "", ""},
	{GPUClock, Gauge, NodeLayer, "Clock", "GPU clock", "MHz", "", "A clock that falls under load is heat or a power limit."},
}

var byName = func() map[Name]Metric {
	out := make(map[Name]Metric, len(Catalogue))
	for _, m := range Catalogue {
		out[m.Name] = m
	}
	return out
}()

// Find finds a row of the catalogue.
func Find(n Name) (Metric, bool) {
	m, ok := byName[n]
	return m, ok
}

// ShapeOf says how a metric's buckets combine.
func ShapeOf(n Name) Shape {
	if m, ok := byName[n]; ok {
		return m.Shape
	}
	return Counter
}

// OfNode reports whether a metric is of a machine, not of a deployment.
func OfNode(n Name) bool { return byName[n].Layer == NodeLayer }
