package slo

import (
	"time"

	"tokenfactory/metrics"
)

// Diagnosis is what is to blame in a window, and how that shows.
type Diagnosis struct {
	Signature Signature  `json:"signature"`
	Title     string     `json:"title"`
	Summary   string     `json:"summary"` // a sentence or two
	Evidence  []Evidence `json:"evidence"`
	Look      []string   `json:"look"`
	Do        []string   `json:"do"`
	// Past is the range that figures were held against; nil when nothing was measured then.
	Past *Span `json:"past"`
}

// Span is a range of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Evidence is one figure against its target and its own past.
type Evidence struct {
	Name     metrics.Name `json:"name"`
	Figure   string       `json:"figure"` // what is told of the metric: "TTFT p95"
	Now      *float64     `json:"now"`
	Baseline *float64     `json:"baseline"`
	Target   *float64     `json:"target"`
	Text     string       `json:"text"` // a sentence
	Shown    Shown        `json:"-"`
}

// Shown are the values of an evidence as people read them; empty where there is none.
type Shown struct{ Now, Baseline, Target, Note string }

// Missed reports whether the figure is over its target.
func (e Evidence) Missed() bool { return over(e.Now, e.Target) }

// How far a figure has to be from its past to stand out. Each needs the ratio and the
// amount: 4 ms after 2 ms is noise, and so is 1,050 ms after 1,000.
const (
	leastSamples = 20 // under it a percentile is chance

	ttftRatio, ttftMore     = 2.0, 100.0 // ms
	itlRatio, itlMore       = 1.5, 15.0  // ms
	partRatio, partMore     = 2.0, 50.0  // ms: parts of TTFT
	queueRatio, queueMore   = 2.0, 2.0   // requests
	lengthRatio, lengthMore = 1.5, 100.0 // tokens
	batchRatio, batchMore   = 1.3, 2.0   // requests

	// failing is the share of requests whose failure is no accident, and leastFailed how many.
	failing, leastFailed, failRatio = 0.02, 5.0, 2.0

	kvNear = 0.85 // nearly full: new requests soon have to wait
	// leastPreempted is how many preemptions are more than an accident, preempting their share.
	leastPreempted, preempting, preemptRatio = 3.0, 0.01, 2.0
	// preemptedOften is the share of preemptions that needs no full cache beside it: engines
	// preempt for lack of memory alone, which frees it at once, and the cache is read between.
	preemptedOften = 0.10

	clockFell = 0.88 // of what it was
	gpuHot    = 83.0 // °C: GPUs of most makes slow themselves down from about here

	// gapMore (ms) and gapShare bound how far gateway and engine may differ: the way between
	// them takes time, and a scrape sees other requests at the edges of a window.
	gapMore, gapShare = 50.0, 0.25
	// gapExplains is the part of TTFT's rise that a gap has to account for to be its cause.
	gapExplains = 0.5
)

// Diagnose names the pattern of a window: each figure is held against its target, and
// against the same deployment's past. Where several patterns fit the first of these wins:
//
//  1. errors: requests fail and no latency is high. What fails is quick, so this needs no
//     other traffic. With a high latency, failures are its consequence more often than not.
//  2. not enough traffic: fewer than 20 requests streamed a token.
//  3. kv_pressure: requests were thrown out of the batch, and the cache was seen over 90 %
//     full or it happened to more than a tenth of them.
//     That slows everything, so it comes before whatever it slowed.
//  4. both latencies high: capacity when the cache is near full or a queue grew; else decode
//     when a GPU's clock fell, because a hot GPU is slow at everything; else
//     instrumentation when the way to the engine explains it; else capacity.
//  5. TTFT high: instrumentation when the gap between gateway and engine explains it,
//     else upstream.
//  6. ITL high: decode.
//  7. kv_pressure: the cache is over 90 % full on average, and nobody feels it yet.
//  8. instrumentation: gateway and engine disagree more than they used to.
//  9. healthy.
func Diagnose(now, baseline Figures, promises Promises) Diagnosis {
	x := examine(now, baseline, promises)
	return x.report(x.signature())
}

// examination is what stands out in a window.
type examination struct {
	now, was Figures
	promises Promises

	ttft, itl, ttftWas, itlWas *float64
	ttftName                   string
	ttftHigh, itlHigh          bool

	failing, preempting, kvOver, kvNear, queueing, clockFell bool

	gap, gapWas          *float64 // ms that neither queue nor engine accounts for
	gapWrong, gapToBlame bool
}

func examine(now, was Figures, p Promises) examination {
	x := examination{now: now, was: was, promises: p}
	x.ttft, x.ttftName = now.TTFT.at(p.Share)
	// ITL is judged by each request's mean, and kept by token: the slowest tokens of a request
	// that is fine on the whole are no reason, so that its p95 does for every promise.
	x.itl = now.ITL.P95
	// Percentiles of few samples say nothing, neither of now nor of the past.
	if was.TTFT.N >= leastSamples {
		x.ttftWas = was.TTFT.named(x.ttftName)
	}
	if was.ITL.N >= leastSamples {
		x.itlWas = was.ITL.P95
	}
	x.ttftHigh = now.TTFT.N >= leastSamples && (over(x.ttft, milliseconds(p.TTFT)) || rose(x.ttft, x.ttftWas, ttftRatio, ttftMore))
	x.itlHigh = now.ITL.N >= leastSamples && (over(x.itl, milliseconds(p.ITL)) || rose(x.itl, x.itlWas, itlRatio, itlMore))

	x.failing = now.Failures >= leastFailed && failureShare(now) > failing && failureShare(now) > failRatio*failureShare(was)
	x.preempting = now.Preemptions != nil && now.PreemptionCount >= leastPreempted && *now.Preemptions > preempting &&
		(was.Preemptions == nil || *now.Preemptions > preemptRatio**was.Preemptions)
	x.kvOver = above(now.KV, kvBound)
	x.kvNear = above(now.KV, kvNear) || above(now.KVPeak, kvBound)
	x.queueing = grew(now.Queue, was.Queue, partRatio, partMore) || grew(now.EngineQueue, was.EngineQueue, partRatio, partMore) ||
		grew(now.Waiting, was.Waiting, queueRatio, queueMore) || grew(now.Held, was.Held, queueRatio, queueMore)
	x.clockFell = now.GPUClock != nil && was.GPUClock != nil && *now.GPUClock < clockFell**was.GPUClock

	x.gap, x.gapWas = gapOf(now), gapOf(was)
	x.gapWrong = disagree(now, x.gap) && (x.gapWas == nil || beyond(*x.gap, *x.gapWas))
	x.gapToBlame = x.gapWrong && *x.gap > 0 && *x.gap-value(x.gapWas) > gapExplains*(*now.TTFT.Mean-value(was.TTFT.Mean))
	return x
}

func (x examination) signature() Signature {
	preempted := x.preempting && (x.kvOver || above(x.now.KVPeak, kvBound) || *x.now.Preemptions > preemptedOften)
	switch {
	case x.failing && !x.ttftHigh && !x.itlHigh:
		return Errors
	case x.now.TTFT.N < leastSamples:
		return NotEnough
	case preempted:
		return KVPressure
	case x.ttftHigh && x.itlHigh:
		return x.both()
	case x.ttftHigh && x.gapToBlame:
		return Instrumentation
	case x.ttftHigh:
		return Upstream
	case x.itlHigh:
		return DecodeBound
	case x.kvOver:
		return KVPressure
	case x.gapWrong:
		return Instrumentation
	}
	return Healthy
}

func (x examination) both() Signature {
	switch {
	case x.kvNear || x.queueing:
		return Capacity
	case x.clockFell:
		return DecodeBound
	case x.gapToBlame:
		return Instrumentation
	}
	return Capacity
}

// gapOf is the part of the mean TTFT that neither our queue nor the engine accounts for;
// nil when one of them was not measured often enough.
func gapOf(f Figures) *float64 {
	if f.TTFT.Mean == nil || f.EngineTTFT == nil || f.TTFT.N < leastSamples || f.EngineTTFTN < leastSamples {
		return nil
	}
	gap := *f.TTFT.Mean - value(f.Queue) - *f.EngineTTFT
	// Answers that are not streamed have a first token for the engine only. When the engine saw
	// many more first tokens than we did, an engine that looks slower proves nothing.
	if gap < 0 && f.EngineTTFTN > 1.5*f.TTFT.N {
		return nil
	}
	return &gap
}

func disagree(f Figures, gap *float64) bool {
	return gap != nil && max(*gap, -*gap) > max(gapMore, gapShare**f.EngineTTFT)
}

// beyond reports whether a gap is clearly larger than the one that was always there.
func beyond(gap, was float64) bool {
	size, before := max(gap, -gap), max(was, -was)
	return gap*was < 0 || size > partRatio*before && size-before > gapMore
}

func failureShare(f Figures) float64 {
	if !(f.Requests > 0) {
		return 0
	}
	return f.Failures / f.Requests
}

func (l Latency) named(name string) *float64 {
	switch name {
	case "p90":
		return l.P90
	case "p99":
		return l.P99
	}
	return l.P95
}

// over reports whether a figure misses its target; one without a target misses none.
func over(v, target *float64) bool { return v != nil && target != nil && *v > *target }

func above(v *float64, bound float64) bool { return v != nil && *v > bound }

// rose reports whether a figure is clearly above its past; without a past it is not.
func rose(v, was *float64, ratio, more float64) bool {
	return v != nil && was != nil && *v > ratio**was && *v-*was > more
}

// grew is rose of what is normally next to nothing, so that no past is a past of zero.
func grew(v, was *float64, ratio, more float64) bool {
	if was == nil {
		was = new(float64)
	}
	return rose(v, was, ratio, more)
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// milliseconds is nil for no target.
func milliseconds(d time.Duration) *float64 {
	if d <= 0 {
		return nil
	}
	ms := float64(d) / float64(time.Millisecond)
	return &ms
}
