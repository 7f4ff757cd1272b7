// Package metrics turns observations into percentiles over time: sketches that
// merge without losing accuracy, buckets of them, and the series that charts
// draw. It is pure: no SQL, no HTTP, no clock of its own.
package metrics

import "time"

// Name identifies a metric, in the catalogue, in buckets and in the API.
type Name string

// What the gateway measures of every request.
const (
	TTFT Name = "ttft" // time to first token
	ITL  Name = "itl"  // inter-token latency
	E2E  Name = "e2e"  // whole request, completed ones only
	// Queue is how long a request waited for a replica, and Decode what came after the
	// first token: with the engine's own figures they say where E2E goes.
	Queue  Name = "queue"
	Decode Name = "decode"
	// Abandoned is how long clients had waited that left before their first token.
	// It is kept apart: percentiles that lose the slowest flatter.
	Abandoned Name = "abandoned"
	// Good and Bad are the requests that were judged against the targets in force when
	// they came; see slo.
	Good Name = "good"
	Bad  Name = "bad"

	Requests     Name = "requests" // admitted and answered
	Failures     Name = "failures" // of those, our fault or the engine's
	InputTokens  Name = "input_tokens"
	CachedTokens Name = "cached_tokens" // part of InputTokens
	OutputTokens Name = "output_tokens"
	PromptLength Name = "prompt_length" // tokens of one request
	OutputLength Name = "output_length"
	InFlight     Name = "in_flight" // requests at engines
	Held         Name = "held"      // requests that wait in the gateway for a replica
)

// What engines say of themselves. The names differ from the gateway's so that the two
// can never be added by mistake.
const (
	// KVCache is the share of the KV cache in use, 0 to 1.
	KVCache Name = "kv_cache"
	Running Name = "running" // requests in the engine's batch
	Waiting Name = "waiting" // requests in the engine's queue

	EngineTTFT    Name = "engine_ttft"
	EngineITL     Name = "engine_itl"
	EngineE2E     Name = "engine_e2e"
	EngineQueue   Name = "engine_queue"
	EnginePrefill Name = "engine_prefill"
	EngineDecode  Name = "engine_decode"

	PromptTokens     Name = "engine_prompt_tokens"
	GenerationTokens Name = "engine_generation_tokens"
	PrefixHits       Name = "engine_prefix_hits"    // tokens found in the prefix cache
	PrefixQueries    Name = "engine_prefix_queries" // tokens looked up in it
	// PrefixHitRate, 0 to 1, is all that some engines tell of their prefix cache.
	PrefixHitRate  Name = "engine_prefix_hit_rate"
	Preemptions    Name = "engine_preemptions" // requests thrown out of the batch for lack of memory
	EngineFinished Name = "engine_finished"
	EngineFailed   Name = "engine_failed"
	ScrapeErrors   Name = "scrape_errors" // lines of the metrics page that could not be read
	ScrapesMissed  Name = "scrapes_missed"
)

// What a machine says of its GPUs: the bucket's deployment is the node, its replica
// the GPU.
const (
	GPUUtilisation Name = "gpu_utilisation" // 0 to 1
	GPUMemory      Name = "gpu_memory"      // share in use, 0 to 1
	GPUTemperature Name = "gpu_temperature" // degrees Celsius
	GPUPower       Name = "gpu_power"       // watts
	GPUClock       Name = "gpu_clock"       // of the multiprocessors, MHz
)

// Shape says how observations of a metric combine.
type Shape int

const (
	Distribution Shape = iota // a sketch; percentiles
	Bucketed                  // an engine's histogram; percentiles within its bounds
	Gauge                     // sampled: average and peak
	Counter                   // increases add up
)

// Layer is the part of the Metrics tab that a metric belongs to.
type Layer string

const (
	UserLayer           Layer = "user"           // what people feel
	WorkloadLayer       Layer = "workload"       // what is asked and answered
	InfrastructureLayer Layer = "infrastructure" // what it runs on
	NodeLayer           Layer = "node"           // part of infrastructure: one machine's GPUs
)

// Metric is a row of the catalogue. Tell and Do are the reading guide beside the
// chart: what the figure says, and what to do when it is bad.
type Metric struct {
	Name  Name
	Shape Shape
	Layer Layer
	Title string // the abbreviation or short name, as on cards
	Long  string
	Unit  string // ms, %, tokens, °C, W, MHz or none; shares are kept as 0 to 1
	Tell  string
	Do    string
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
