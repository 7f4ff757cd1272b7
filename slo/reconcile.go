package slo

import "tokenfactory/metrics"

// Drift is how far the tokens that the gateway billed and those that the engine counted
// are apart, of one replica over a window.
type Drift struct {
	Gateway float64 `json:"gateway"` // tokens, prompts and outputs together
	Engine  float64 `json:"engine"`
	// Ratio is the engine's count over the gateway's, less one: 0.01 is one percent more
	// than was billed. Zero without OK.
	Ratio float64 `json:"ratio"`
	// OK says that both sides measured enough tokens for the ratio to mean something.
	OK bool `json:"ok"`
	// Alarm says that they are further apart than requests under way explain.
	Alarm bool `json:"alarm"`
}

const (
	driftLimit = 0.005
	// driftFloor is a difference that nobody looks for: a few tokens of the probes that ask
	// whether an engine serves, and of requests that clients cut short.
	driftFloor = 1000.0
	// driftLeast is the traffic from which half a percent is more than the floor.
	driftLeast = driftFloor / driftLimit / 10
)

// Reconciled are the metrics that Reconcile reads.
var Reconciled = []metrics.Name{
	metrics.InputTokens, metrics.OutputTokens, metrics.Requests, metrics.PromptTokens, metrics.GenerationTokens, metrics.Running,
}

// Reconcile compares one replica's tokens. The engine counts a prompt when it has read it
// and an output as it flows; we count both when the request is over, and learn of the
// engine's only with its next scrape. Requests that are under way at either end of the
// window are therefore on one side alone, and as many tokens as the fullest batch
// held are no drift.
func Reconcile(of map[metrics.Name]metrics.Summary) Drift {
	d := Drift{
		Gateway: of[metrics.InputTokens].Sum + of[metrics.OutputTokens].Sum,
		Engine:  of[metrics.PromptTokens].Sum + of[metrics.GenerationTokens].Sum,
	}
	requests := of[metrics.Requests].Sum
	measured := of[metrics.PromptTokens].N > 0 && of[metrics.GenerationTokens].N > 0
	d.OK = measured && requests > 0 && d.Gateway >= driftLeast && d.Engine >= driftLeast
	if !d.OK {
		return d
	}
	d.Ratio = d.Engine/d.Gateway - 1
	underWay := value(of[metrics.Running].Peak) * d.Gateway / requests
	apart := max(d.Engine-d.Gateway, d.Gateway-d.Engine)
	d.Alarm = apart-underWay > max(driftFloor, driftLimit*d.Gateway)
	return d
}

// Finding is what the drift says about an alert. Too little traffic says nothing, so that
// an alert neither comes nor goes with it.
func (d Drift) Finding() Finding {
	switch {
	case !d.OK:
		return Unknown
	case d.Alarm:
		return Wrong
	}
	return Right
}
