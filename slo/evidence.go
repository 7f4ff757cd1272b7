package slo

import (
	"fmt"
	"math"
	"strings"

	"tokenfactory/metrics"
)

// report puts an examination into words. Each signature brings the figures that speak for
// it, the telling ones first.
func (x examination) report(s Signature) Diagnosis {
	m := ManualOf(s)
	d := Diagnosis{Signature: s, Title: m.Title, Evidence: []Evidence{}, Look: m.Look, Do: m.Do}
	switch s {
	case Upstream:
		d.Evidence = x.evidence(x.ttftLine(), x.itlLine(), x.tailLine(), x.engineLine(), x.queueLine(), x.engineQueueLine(), x.waitingLine(), x.prefillLine(), x.promptLine(), x.startLine(), x.failLine())
		d.Summary = "The first token comes late and the rest flows as usual: " + x.where() + "."
	case DecodeBound:
		d.Evidence = x.evidence(x.itlLine(), x.ttftLine(), x.clockLine(), x.heatLine(), x.batchLine(), x.kvLine(), x.preemptLine(), x.outputLine(), x.failLine())
		d.Summary = "Tokens come slower than they should"
		switch {
		case x.clockFell:
			d.Summary += ", and a GPU's clock has fallen: heat or a power limit."
		case rose(x.now.Running, x.was.Running, batchRatio, batchMore):
			d.Summary += ", and the running batch has grown."
		default:
			d.Summary += ", while the first token comes as usual."
		}
	case Capacity:
		d.Evidence = x.evidence(x.ttftLine(), x.itlLine(), x.kvLine(), x.queueLine(), x.engineQueueLine(), x.waitingLine(), x.batchLine(), x.preemptLine(), x.clockLine(), x.failLine())
		d.Summary = "The first token and the flow of tokens are both slow: the replicas have more to do than they can."
	case KVPressure:
		d.Evidence = x.evidence(x.kvLine(), x.preemptLine(), x.promptLine(), x.outputLine(), x.ttftLine(), x.itlLine(), x.failLine())
		d.Summary = "The memory for running conversations is full"
		if x.preempting {
			d.Summary += ", and the engine throws requests out of its batch and computes them again."
		} else {
			d.Summary += "; more or longer requests will have to wait."
		}
	case Errors:
		d.Evidence = x.evidence(x.failLine(), x.ttftLine(), x.itlLine(), x.startLine())
		d.Summary = percent(failureShare(x.now)) + " of requests fail, and the others are as fast as usual."
		if x.now.TTFT.N < leastSamples {
			d.Summary = percent(failureShare(x.now)) + " of requests fail, and hardly any came to a first token."
		}
	case Instrumentation:
		d.Evidence = x.evidence(x.gapLine(), x.ttftLine(), x.engineLine(), x.queueLine(), x.itlLine())
		d.Summary = "The gateway waits longer for the first token than the engine says: the difference is on the way between them, or in a queue that the engine does not count."
		if value(x.gap) < 0 {
			d.Summary = "The engine says that it is slower than clients find it: it counts requests that do not come through the gateway, or its clock is off."
		}
	case Healthy:
		d.Evidence = x.evidence(x.ttftLine(), x.itlLine(), x.kvLine())
		d.Summary = "Every figure is within its target and near what it was before."
	case NotEnough:
		d.Evidence = x.evidence(x.samplesLine())
		d.Summary = fmt.Sprintf("Only %s with a first token in this window; a pattern needs %d.", count(x.now.TTFT.N, "request"), leastSamples)
	}
	return d
}

// where names the part of TTFT that grew most.
func (x examination) where() string {
	best, grown := "the engine takes longer to begin", 0.0
	for _, p := range []struct {
		now, was *float64
		text     string
	}{
		{x.now.Queue, x.was.Queue, "requests wait in the gateway for a replica"},
		{x.now.EngineQueue, x.was.EngineQueue, "requests wait in the engine's queue"},
		{x.now.EnginePrefill, x.was.EnginePrefill, "reading prompts takes longer"},
	} {
		if by := value(p.now) - value(p.was); p.now != nil && by > grown {
			best, grown = p.text, by
		}
	}
	if best == "reading prompts takes longer" && rose(x.now.PromptLength, x.was.PromptLength, lengthRatio, lengthMore) {
		best += ", because prompts are longer"
	}
	if x.now.Started > 0 {
		best += "; a replica has just started"
	}
	return best
}

// evidence leaves out the lines that have nothing to say.
func (x examination) evidence(lines ...Evidence) []Evidence {
	out := []Evidence{}
	for _, l := range lines {
		if l.Text != "" {
			out = append(out, l)
		}
	}
	return out
}

// line is a figure beside its past and its target, with what it means.
func line(name metrics.Name, what string, now, was, target *float64, show func(float64) string) Evidence {
	if now == nil {
		return Evidence{}
	}
	e := Evidence{Name: name, Figure: what, Now: now, Baseline: was, Target: target, Shown: Shown{Now: show(*now)}}
	var beside []string
	if target != nil {
		e.Shown.Target = show(*target)
		beside = append(beside, "target "+e.Shown.Target)
	}
	if was != nil {
		e.Shown.Baseline = show(*was)
		beside = append(beside, "before "+e.Shown.Baseline)
	}
	e.Text = what + " is " + e.Shown.Now
	if len(beside) > 0 {
		e.Text += " (" + strings.Join(beside, ", ") + ")"
	}
	e.Text += "."
	return e
}

// noted adds a sentence to what is shown.
func (e Evidence) noted(note string) Evidence {
	e.Text += " " + note
	e.Shown.Note = note
	return e
}

func (x examination) ttftLine() Evidence {
	return line(metrics.TTFT, "TTFT "+x.ttftName, x.ttft, x.ttftWas, milliseconds(x.promises.TTFT), duration)
}

func (x examination) itlLine() Evidence {
	return line(metrics.ITL, "ITL p95", x.itl, x.itlWas, milliseconds(x.promises.ITL), duration)
}

// tailLine tells bursts from a wait that everybody has.
func (x examination) tailLine() Evidence {
	half := x.now.TTFT.P50
	if half == nil || over(half, milliseconds(x.promises.TTFT)) || rose(half, x.was.TTFT.P50, ttftRatio, ttftMore) {
		return Evidence{}
	}
	e := line(metrics.TTFT, "TTFT p50", half, x.was.TTFT.P50, milliseconds(x.promises.TTFT), duration)
	e.Text = "Only the slowest wait: " + e.Text
	return e.noted("Traffic comes in bursts.")
}

// engineLine is the engine's own TTFT, as far as its buckets reach.
func (x examination) engineLine() Evidence {
	e := line(metrics.EngineTTFT, "The engine's own mean TTFT", x.now.EngineTTFT, x.was.EngineTTFT, nil, duration)
	if target := milliseconds(x.promises.TTFT); e.Text != "" && target != nil && Exceeds(x.now.EngineTTFT95, *target) == Wrong {
		return e.noted("Its p95 is beyond the target as well.")
	}
	return e
}

func (x examination) queueLine() Evidence {
	return line(metrics.Queue, "The mean wait in the gateway", x.now.Queue, x.was.Queue, nil, duration)
}

func (x examination) engineQueueLine() Evidence {
	return line(metrics.EngineQueue, "The mean wait in the engine's queue", x.now.EngineQueue, x.was.EngineQueue, nil, duration)
}

func (x examination) prefillLine() Evidence {
	return line(metrics.EnginePrefill, "The mean prefill", x.now.EnginePrefill, x.was.EnginePrefill, nil, duration)
}

func (x examination) waitingLine() Evidence {
	return line(metrics.Waiting, "The engine's queue", x.now.Waiting, x.was.Waiting, nil, counted("request"))
}

func (x examination) batchLine() Evidence {
	return line(metrics.Running, "The running batch", x.now.Running, x.was.Running, nil, counted("request"))
}

func (x examination) promptLine() Evidence {
	return line(metrics.PromptLength, "The mean prompt", x.now.PromptLength, x.was.PromptLength, nil, counted("token"))
}

func (x examination) outputLine() Evidence {
	return line(metrics.OutputLength, "The mean answer", x.now.OutputLength, x.was.OutputLength, nil, counted("token"))
}

func (x examination) kvLine() Evidence {
	bound := kvBound
	e := line(metrics.KVCache, "KV cache in use", x.now.KV, x.was.KV, &bound, percent)
	if e.Text != "" && x.now.KVPeak != nil {
		e.Text = strings.TrimSuffix(e.Text, ".") + ", at its peak " + percent(*x.now.KVPeak) + "."
		e.Shown.Note = "At its peak " + percent(*x.now.KVPeak) + "."
	}
	return e
}

func (x examination) preemptLine() Evidence {
	if x.now.PreemptionCount == 0 {
		return Evidence{}
	}
	return line(metrics.Preemptions, "The share of requests thrown out of the batch", x.now.Preemptions, x.was.Preemptions, nil, percent)
}

func (x examination) clockLine() Evidence {
	e := line(metrics.GPUClock, "The GPUs' mean clock", x.now.GPUClock, x.was.GPUClock, nil, func(v float64) string { return fmt.Sprintf("%.0f MHz", v) })
	if x.clockFell {
		return e.noted("It has fallen under load.")
	}
	return e
}

func (x examination) heatLine() Evidence {
	e := line(metrics.GPUTemperature, "The hottest GPU", x.now.GPUTemperature, x.was.GPUTemperature, nil, func(v float64) string { return fmt.Sprintf("%.0f °C", v) })
	if above(x.now.GPUTemperature, gpuHot) {
		return e.noted("GPUs slow themselves down at such heat.")
	}
	return e
}

func (x examination) failLine() Evidence {
	if x.now.Failures == 0 || x.now.Requests == 0 {
		return Evidence{}
	}
	now, was := failureShare(x.now), (*float64)(nil)
	if x.was.Requests > 0 {
		share := failureShare(x.was)
		was = &share
	}
	return line(metrics.Failures, "The share of requests that failed", &now, was, nil, percent)
}

func (x examination) startLine() Evidence {
	if x.now.Started == 0 {
		return Evidence{}
	}
	n := float64(x.now.Started)
	return Evidence{Figure: "Replicas that became ready", Now: &n, Shown: Shown{Now: count(n, "replica"), Note: "Requests may have waited for a cold start."},
		Text: count(n, "replica") + " became ready in this window: requests may have waited for a cold start."}
}

func (x examination) gapLine() Evidence {
	return line(metrics.TTFT, "The part of the mean TTFT that neither our queue nor the engine accounts for", x.gap, x.gapWas, nil, duration)
}

func (x examination) samplesLine() Evidence {
	n := x.now.TTFT.N
	return Evidence{Name: metrics.TTFT, Figure: "Requests with a first token", Now: &n, Shown: Shown{Now: count(n, "request")},
		Text: "TTFT rests on " + count(n, "sample") + "."}
}

// duration shows milliseconds as people say them.
func duration(ms float64) string {
	switch size := math.Abs(ms); {
	case size >= 10_000:
		return fmt.Sprintf("%.0f s", ms/1000)
	case size >= 1000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case size >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func percent(share float64) string {
	if share > 0 && share < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

func counted(noun string) func(float64) string {
	return func(v float64) string { return count(v, noun) }
}

// count shows averages with one decimal while they are small.
func count(v float64, noun string) string {
	text := fmt.Sprintf("%.0f", v)
	if v >= 0.05 && v < 10 && v != math.Trunc(v) {
		text = fmt.Sprintf("%.1f", v)
	}
	if text == "1" {
		return "1 " + noun
	}
	return text + " " + noun + "s"
}
