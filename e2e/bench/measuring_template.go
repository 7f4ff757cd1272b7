//go:build linux

package main

import (
	"math"
	"math/rand/v2"
	"time"

	"tokenfactory/metrics"
)

// traffic is what one replica of a deployment serves, around the clock.
type traffic struct {
	perMinute float64 // requests
	ttft, itl float64 // medians, milliseconds
	prompt    float64 // tokens, mean
	output    float64
}

// traffics are the templates that deployments are copies of: chat, code, batch.
var traffics = []traffic{
	{perMinute: 30, ttft: 80, itl: 18, prompt: 300, output: 120},
	{perMinute: 12, ttft: 170, itl: 12, prompt: 1900, output: 250},
	{perMinute: 4, ttft: 470, itl: 29, prompt: 3000, output: 400},
}

// drawn is the most values that one sketch of the seed is drawn from; each then stands
// for several. More would not make the sketch larger: its bins are taken by then.
const drawn = 120

// vllmBounds are the bounds of vLLM's histogram of TTFT, in milliseconds.
var vllmBounds = []float64{1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000, 20000, 40000, 80000, 160000, 640000, 2560000}

// templateBuckets are the buckets of one replica over the time for which each resolution is
// kept, at most the days: everything that gateway and engine record of a deployment that
// serves. Nobody's id is in them yet.
func templateBuckets(t traffic, seed uint64, now time.Time, days int) []metrics.Bucket {
	m := maker{traffic: t, rnd: rand.New(rand.NewPCG(seed, 1))}
	for _, r := range metrics.Resolutions {
		reach := min(r.Keep, time.Duration(days)*24*time.Hour)
		for at := now.Add(-reach).Truncate(r.Step); at.Before(now); at = at.Add(r.Step) {
			m.step(at, r.Step)
		}
	}
	return m.out
}

// maker invents buckets, step for step.
type maker struct {
	traffic
	rnd *rand.Rand
	out []metrics.Bucket
}

func (m *maker) step(at time.Time, step time.Duration) {
	requests := math.Round(m.perMinute * step.Minutes() * (0.6 + 0.8*m.rnd.Float64()))
	if requests < 1 {
		requests = float64(m.rnd.IntN(2)) // some tens of seconds pass without one
	}
	add := func(b metrics.Bucket) {
		b.Step, b.Start = step, at
		m.out = append(m.out, b)
	}
	// The gateway's and the engine's gauges are read every few seconds, also while nothing is asked.
	for name, around := range map[metrics.Name]float64{metrics.InFlight: 4, metrics.KVCache: 0.3, metrics.Running: 4, metrics.Waiting: 1} {
		v := m.around(around, 0.3)
		n := step.Seconds() / 5
		add(metrics.Bucket{Name: name, Count: n, Sum: v * n, Max: v * 1.6})
	}
	for _, name := range []metrics.Name{metrics.Preemptions, metrics.EngineFailed, metrics.ScrapeErrors, metrics.ScrapesMissed} {
		add(metrics.Bucket{Name: name, Count: step.Seconds() / 5})
	}
	if requests < 1 {
		return
	}
	count := func(name metrics.Name, sum float64) {
		if sum >= 1 {
			add(metrics.Bucket{Name: name, Count: requests, Sum: math.Round(sum), Max: math.Round(sum)})
		}
	}
	bad := math.Round(requests * 0.02 * m.rnd.Float64())
	count(metrics.Requests, requests)
	count(metrics.Failures, math.Round(bad/3))
	count(metrics.Good, requests-bad)
	count(metrics.Bad, bad)
	tokensIn, tokensOut := requests*m.prompt, requests*m.output
	for name, sum := range map[metrics.Name]float64{
		metrics.InputTokens: tokensIn, metrics.CachedTokens: tokensIn * 0.3, metrics.OutputTokens: tokensOut,
		metrics.PromptTokens: tokensIn, metrics.GenerationTokens: tokensOut,
		metrics.PrefixHits: tokensIn * 0.3, metrics.PrefixQueries: tokensIn, metrics.EngineFinished: requests,
	} {
		count(name, sum)
	}
	add(m.distribution(metrics.TTFT, m.ttft, 0.35, requests))
	add(m.distribution(metrics.ITL, m.itl, 0.2, requests*m.output))
	add(m.distribution(metrics.E2E, m.ttft+m.itl*m.output, 0.5, requests))
	add(m.distribution(metrics.Decode, m.itl*m.output, 0.5, requests))
	add(m.distribution(metrics.Queue, 3, 0.8, requests))
	add(m.distribution(metrics.PromptLength, m.prompt, 0.6, requests))
	add(m.distribution(metrics.OutputLength, m.output, 0.6, requests))
	if bad > 0 {
		add(m.distribution(metrics.Abandoned, m.ttft*4, 0.5, bad))
	}
	for name, median := range map[metrics.Name]float64{
		metrics.EngineTTFT: m.ttft * 0.9, metrics.EngineITL: m.itl, metrics.EngineE2E: m.ttft + m.itl*m.output,
		metrics.EngineQueue: 8, metrics.EnginePrefill: m.ttft * 0.7, metrics.EngineDecode: m.itl * m.output,
	} {
		add(m.histogram(name, median, requests))
	}
}

func (m *maker) distribution(name metrics.Name, median, spread, n float64) metrics.Bucket {
	b, s := metrics.Bucket{Name: name}, metrics.NewSketch()
	values := math.Min(n, drawn)
	weight := math.Round(n / values) // whole, as counts are: others take eight bytes for each bin
	for range int(values) {
		v := m.around(median, spread)
		if s.Add(v, weight) != nil {
			continue // no draw of a log-normal is refused
		}
		b.Count += weight
		b.Sum += v * weight
		b.Max = max(b.Max, v)
	}
	b.Sketch = s.Encode()
	return b
}

func (m *maker) histogram(name metrics.Name, median, n float64) metrics.Bucket {
	h := metrics.Histogram{Bounds: vllmBounds, Counts: make([]float64, len(vllmBounds)), Sum: median * n, Count: n}
	for i, bound := range vllmBounds {
		h.Counts[i] = math.Round(n * 0.5 * (1 + math.Erf(math.Log(bound/median)/0.5)))
	}
	return metrics.Bucket{Name: name, Count: h.Count, Sum: h.Sum, Sketch: h.Encode()}
}

// around draws a log-normal value.
func (m *maker) around(median, spread float64) float64 {
	return median * math.Exp(spread*m.rnd.NormFloat64())
}

// ofGateway reports whether a metric is recorded for single keys too.
func ofGateway(name metrics.Name) bool {
	metric, _ := metrics.Find(name)
	return metric.Layer == metrics.UserLayer || (metric.Layer == metrics.WorkloadLayer && metric.Shape != metrics.Gauge)
}

// gpuBuckets are one GPU's buckets of one resolution.
func gpuBuckets(now time.Time, step, reach time.Duration) []metrics.Bucket {
	var out []metrics.Bucket
	for at := now.Add(-reach).Truncate(step); at.Before(now); at = at.Add(step) {
		for name, v := range map[metrics.Name]float64{metrics.GPUUtilisation: 0.7, metrics.GPUMemory: 0.8, metrics.GPUTemperature: 68, metrics.GPUPower: 420, metrics.GPUClock: 1500} {
			n := step.Seconds() / 5
			out = append(out, metrics.Bucket{Name: name, Step: step, Start: at, Count: n, Sum: v * n, Max: v * 1.1})
		}
	}
	return out
}
