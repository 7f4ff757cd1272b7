package slo

import "tokenfactory/metrics"

// Part is one stage of a request's time.
type Part struct {
	Name  PartName `json:"name"`
	Title string   `json:"title"`
	Mean  float64  `json:"mean"` // ms
}

// PartName names a stage.
type PartName string

const (
	PartQueue       PartName = "queue"
	PartEngineQueue PartName = "engine_queue"
	PartPrefill     PartName = "prefill"
	// PartEngine is the engine's time to its first token that it does not divide further.
	PartEngine PartName = "engine"
	// PartNetwork is what neither our queue nor the engine accounts for.
	PartNetwork PartName = "network"
	// PartBeforeToken stands for engine and network together, when the engine says nothing.
	PartBeforeToken PartName = "before_token"
	PartDecode      PartName = "decode"
)

// Split is where the mean time of streamed requests went.
type Split struct {
	Parts []Part  `json:"parts"`
	Total float64 `json:"total"` // ms; the sum of the parts
	// Unknown are stages that the engine does not report; they are in another part.
	Unknown []PartName `json:"unknown,omitempty"`
	// Clipped says that the engine claims more time than clients waited, so that its parts
	// were made smaller to fit.
	Clipped bool `json:"clipped,omitempty"`
}

// SplitNames are the metrics that SplitOf reads.
var SplitNames = []metrics.Name{metrics.Queue, metrics.TTFT, metrics.Decode, metrics.EngineTTFT, metrics.EngineQueue, metrics.EnginePrefill}

// SplitOf divides the mean time of streams: up to the first token and after it. Means add
// up where percentiles do not. False without streams.
func SplitOf(of map[metrics.Name]metrics.Summary) (Split, bool) {
	ttft, decode := of[metrics.TTFT].Average, of[metrics.Decode].Average
	if ttft == nil || decode == nil {
		return Split{}, false
	}
	var s Split
	queue := min(value(of[metrics.Queue].Average), *ttft)
	s.add(PartQueue, "Queue in the gateway", queue)
	s.engine(*ttft-queue, of[metrics.EngineTTFT].Average, of[metrics.EngineQueue].Average, of[metrics.EnginePrefill].Average)
	s.add(PartDecode, "Decode", *decode)
	return s, true
}

// engine divides the time between our queue and the first token.
func (s *Split) engine(left float64, ttft, queue, prefill *float64) {
	if ttft == nil && (queue == nil || prefill == nil) {
		s.Unknown = []PartName{PartEngineQueue, PartPrefill, PartNetwork}
		s.add(PartBeforeToken, "Engine and network", left)
		return
	}
	// An engine that says two of the three has said the third.
	if ttft != nil && queue != nil && prefill == nil {
		rest := max(0, *ttft-*queue)
		prefill = &rest
	}
	if ttft != nil && prefill != nil && queue == nil {
		rest := max(0, *ttft-*prefill)
		queue = &rest
	}
	whole := value(queue) + value(prefill)
	rest := max(0, value(ttft)-whole)
	whole += rest
	fit := 1.0
	if whole > left {
		fit, s.Clipped = left/whole, true
	}
	if queue == nil {
		s.Unknown = []PartName{PartEngineQueue, PartPrefill}
		s.add(PartEngine, "Engine queue and prefill", rest*fit)
	} else {
		s.add(PartEngineQueue, "Queue in the engine", *queue*fit)
		s.add(PartPrefill, "Prefill", *prefill*fit)
		if rest > 0 {
			s.add(PartEngine, "Engine, before and after", rest*fit)
		}
	}
	s.add(PartNetwork, "Network and other", max(0, left-whole*fit))
}

func (s *Split) add(name PartName, title string, mean float64) {
	s.Parts = append(s.Parts, Part{name, title, mean})
	s.Total += mean
}
