// Package metrics turns observations into percentiles over time: sketches that
// merge without losing accuracy, buckets of them, and the series that charts
// draw. It is pure: no SQL, no HTTP, no clock of its own.
package metrics

import "time"

// Name identifies a metric, in the catalogue, in buckets and in the API.
type Name string

const (
	TTFT Name = "ttft" // time to first token, at the gateway
	ITL  Name = "itl"  // inter-token latency, at the gateway
	E2E  Name = "e2e"  // whole request, at the gateway
	// KVCache is the engine's own gauge of KV cache in use, 0 to 1.
	KVCache Name = "kv_cache"
	Running Name = "running" // requests in the engine's batch
	Waiting Name = "waiting" // requests in the engine's queue
	// Counters, as increases per bucket.
	Requests         Name = "requests" // answered by the gateway
	Failures         Name = "failures" // of those, our fault or the engine's
	PromptTokens     Name = "engine_prompt_tokens"
	GenerationTokens Name = "engine_generation_tokens"
	// Abandoned is how long clients had waited that left before their first token.
	// It is kept apart: percentiles that lose the slowest flatter.
	Abandoned Name = "abandoned"
	// What engines measure of themselves, from their own histograms. The names
	// differ from the gateway's so that the two can never be added by mistake.
	EngineTTFT    Name = "engine_ttft"
	EngineITL     Name = "engine_itl"
	EngineE2E     Name = "engine_e2e"
	EngineQueue   Name = "engine_queue"
	EnginePrefill Name = "engine_prefill"
	EngineDecode  Name = "engine_decode"
)

// Shape says how observations of a metric combine.
type Shape int

const (
	Latency Shape = iota // a sketch of durations in milliseconds
	Gauge                // sampled: average and peak
	Counter              // increases add up
)

// Metric is a row of the catalogue. Tell and Do are the reading guide beside the
// chart: what the figure says, and what to do when it is bad.
type Metric struct {
	Name  Name
	Title string // the abbreviation or short name, as on cards
	Long  string
	Unit  string // ms, % or none
	Tell  string
	Do    string
}

// Catalogue lists the metrics that have a card and a chart, in their order on the page.
var Catalogue = []Metric{
	{TTFT, "TTFT", "Time to first token", "ms",
		"How long people look at nothing: our queue, the network, the engine's queue and the prefill of the prompt.",
		"Look at the engine's waiting requests and at prompt lengths. Add replicas, turn on prompt caching or shorten prompts. If only p99 is high, traffic comes in bursts."},
	{ITL, "ITL", "Inter-token latency", "ms",
		"How smoothly the answer flows once it has begun. Above 250 ms text arrives slower than people read.",
		"Look at the running batch, the KV cache and the GPU's heat. Make the batch smaller, shorten outputs, or use GPUs with more memory bandwidth."},
	{E2E, "E2E", "End to end", "ms",
		"From the request to its last byte, completed requests only: about TTFT plus ITL times the tokens after the first.",
		"See which part grew. TTFT points to queueing and prefill, ITL to decoding; if neither moved, answers became longer."},
	{KVCache, "KV cache", "KV cache in use", "%",
		"How much of the engine's memory for running conversations is taken. A wide spread between peak and average means bursts of long contexts.",
		"Over 90 % the engine queues or preempts. Add replicas, lower the maximum context, or use an FP8 cache."},
}

// Shape says how the metric's buckets combine.
func (m Metric) Shape() Shape { return ShapeOf(m.Name) }

// ShapeOf says how a metric's buckets combine.
func ShapeOf(n Name) Shape {
	switch n {
	case TTFT, ITL, E2E, Abandoned:
		return Latency
	case KVCache, Running, Waiting:
		return Gauge
	}
	return Counter
}

// Percentiles that are stored for nothing and read for everything: cards, charts, API.
var Percentiles = []float64{0.50, 0.90, 0.95, 0.99}

// FewSamples is the count under which a p99 says that it rests on few samples.
const FewSamples = 100

// Resolution is how fine buckets are kept, and for how long.
type Resolution struct {
	Step time.Duration
	Keep time.Duration
}

// Resolutions, finest first. Every observation is written to each of them, so a
// coarse one is complete without a job that could lag behind or fail.
var Resolutions = []Resolution{
	{10 * time.Second, 6 * time.Hour},
	{time.Minute, 8 * 24 * time.Hour},
	{time.Hour, 400 * 24 * time.Hour},
}
