package slo

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Latency is a duration over a window, in milliseconds; nil where nothing was measured.
type Latency struct {
	N                        float64
	Mean, P50, P90, P95, P99 *float64
}

// Figures are what a window showed, in the units of the catalogue. A nil figure was not
// measured, which is not the same as zero.
type Figures struct {
	Requests, Failures float64
	TTFT, ITL          Latency
	Queue              *float64 // mean wait in the gateway
	Held               *float64 // requests held there, on average

	EngineTTFT    *float64 // mean
	EngineTTFTN   float64
	EngineTTFT95  metrics.Estimate
	EngineQueue   *float64 // mean
	EnginePrefill *float64 // mean
	Running       *float64
	Waiting       *float64
	KV, KVPeak    *float64
	// Preemptions is how often requests were thrown out of the batch, for each one
	// answered; PreemptionCount is how often in all.
	Preemptions     *float64
	PreemptionCount float64

	PromptLength *float64 // mean
	OutputLength *float64 // mean

	GPUClock       *float64 // mean, MHz
	GPUTemperature *float64 // the highest, °C

	// Started is how many replicas became ready within the window. No metric says it: the
	// caller fills it in.
	Started int
}

// Diagnosed are the metrics that FiguresOf reads, apart from those of machines.
var Diagnosed = []metrics.Name{
	metrics.Requests, metrics.Failures, metrics.TTFT, metrics.ITL, metrics.Queue, metrics.Held, metrics.PromptLength, metrics.OutputLength,
	metrics.EngineTTFT, metrics.EngineQueue, metrics.EnginePrefill, metrics.Running, metrics.Waiting, metrics.KVCache, metrics.Preemptions,
}

// DiagnosedOfGPUs are those of the GPUs that a deployment runs on.
var DiagnosedOfGPUs = []metrics.Name{metrics.GPUClock, metrics.GPUTemperature}

// FiguresOf reads figures from summaries of one window. Names that are missing are not
// measured.
func FiguresOf(of map[metrics.Name]metrics.Summary) Figures {
	f := Figures{
		Requests: of[metrics.Requests].Sum, Failures: of[metrics.Failures].Sum,
		TTFT: latencyOf(of[metrics.TTFT]), ITL: latencyOf(of[metrics.ITL]),
		Queue: of[metrics.Queue].Average, Held: of[metrics.Held].Average,
		EngineTTFT: of[metrics.EngineTTFT].Average, EngineTTFTN: of[metrics.EngineTTFT].N,
		EngineTTFT95:  estimateAt(of[metrics.EngineTTFT], 0.95),
		EngineQueue:   of[metrics.EngineQueue].Average,
		EnginePrefill: of[metrics.EnginePrefill].Average,
		Running:       of[metrics.Running].Average, Waiting: of[metrics.Waiting].Average,
		KV: of[metrics.KVCache].Average, KVPeak: of[metrics.KVCache].Peak,
		PromptLength: of[metrics.PromptLength].Average, OutputLength: of[metrics.OutputLength].Average,
		GPUClock: of[metrics.GPUClock].Average, GPUTemperature: of[metrics.GPUTemperature].Peak,
	}
	if p := of[metrics.Preemptions]; p.N > 0 && f.Requests > 0 {
		each := p.Sum / f.Requests
		f.Preemptions, f.PreemptionCount = &each, p.Sum
	}
	return f
}

func latencyOf(s metrics.Summary) Latency {
	return Latency{N: s.N, Mean: s.Average, P50: quantileAt(s, 0.50), P90: quantileAt(s, 0.90), P95: quantileAt(s, 0.95), P99: quantileAt(s, 0.99)}
}

func quantileAt(s metrics.Summary, q float64) *float64 {
	for i, p := range metrics.Percentiles {
		if p == q && i < len(s.Q) {
			return s.Q[i]
		}
	}
	return nil
}

func estimateAt(s metrics.Summary, q float64) metrics.Estimate {
	for i, p := range metrics.Percentiles {
		if p == q && i < len(s.Estimates) {
			return s.Estimates[i]
		}
	}
	return metrics.Estimate{}
}

// Promises are what figures are held against; zero targets are none.
type Promises struct {
	TTFT, ITL time.Duration
	Share     float64 // of requests that have to be good
}

// PromisesOf are those of a deployment.
func PromisesOf(s factory.DeploymentSpec) Promises {
	return Promises{TTFT: s.TTFTTarget(), ITL: s.ITLTarget(), Share: s.ObjectiveShare()}
}

// at is the percentile that a promise speaks of: when 95 % of requests have to be within
// the target, the 95th has to. A p99 of few samples is the slowest of them by chance, and
// the p95 stands for it.
func (l Latency) at(share float64) (value *float64, name string) {
	switch {
	case share > 0 && share <= 0.90:
		return l.P90, "p90"
	case share > 0.95 && l.N >= metrics.FewSamples:
		return l.P99, "p99"
	}
	return l.P95, "p95"
}

// Together is what several gauges were as one: the average of all their samples and the
// highest of their peaks.
func Together(of []metrics.Summary) metrics.Summary {
	var out metrics.Summary
	for _, s := range of {
		if s.N == 0 {
			continue
		}
		out.N += s.N
		out.Sum += s.Sum
		if s.Peak != nil && (out.Peak == nil || *s.Peak > *out.Peak) {
			out.Peak = s.Peak
		}
	}
	if out.N > 0 {
		average := out.Sum / out.N
		out.Average = &average
	}
	return out
}
