package factory

import (
	"math"
	"time"
)

// Objectives are what a deployment promises beside its TTFT and ITL targets. Zero
// fields are the workload's defaults.
type Objectives struct {
	// ObjectivePercent of the requests have to be good over 30 days.
	ObjectivePercent float64 `json:"objective_percent,omitempty"`
	// OutputRateTarget is how many output tokens a second a request gets at least, from its
	// header to its last byte: what batch work is judged by.
	OutputRateTarget float64 `json:"output_rate_target,omitempty"`
	// CostTarget is the most that a million tokens cost on average, input and output
	// together, in the price's currency. It is shown met or missed; requests are not judged by it.
	CostTarget string `json:"cost_target,omitempty"`
}

// Defaults of objectives.
const (
	defaultObjectivePercent = 95
	defaultOutputRate       = 10
	defaultTTFT             = 500 * time.Millisecond
	defaultITL              = 250 * time.Millisecond
)

// ObjectiveWindow is the time over which an error budget is spent.
const ObjectiveWindow = 30 * 24 * time.Hour

func (o Objectives) validate(errs FieldErrors) {
	if p := o.ObjectivePercent; p != 0 && !(p >= 50 && p <= 99.999) {
		errs.Add("objective_percent", "Write a percentage from 50 to 99.999.")
	}
	if r := o.OutputRateTarget; r != 0 && !(r > 0 && r <= 1e6) {
		errs.Add("output_rate_target", "Write tokens per second, more than 0.")
	}
	if o.CostTarget != "" && !pricePattern.MatchString(o.CostTarget) {
		errs.Add("cost_target", "Write an amount such as 0.80.")
	}
}

// Targets are what one request is judged by; zero fields are no target.
type Targets struct {
	TTFT, ITL  time.Duration
	OutputRate float64 // tokens per second
}

// Targets are those in force.
func (s DeploymentSpec) Targets() Targets {
	return Targets{TTFT: s.TTFTTarget(), ITL: s.ITLTarget(), OutputRate: s.outputRateTarget()}
}

// ObjectiveShare is the share of requests that has to be good, 0 to 1.
func (s DeploymentSpec) ObjectiveShare() float64 {
	if s.ObjectivePercent > 0 {
		// 99.9 / 100 is not 0.999 in binary, and 1 minus it is what burn rates divide by.
		return math.Round(s.ObjectivePercent*1e9) / 1e11
	}
	return defaultObjectivePercent / 100.0
}

// TTFTTarget is the objective in force for a first token; zero means none.
func (s DeploymentSpec) TTFTTarget() time.Duration {
	if s.TTFTTargetMS > 0 {
		return time.Duration(s.TTFTTargetMS) * time.Millisecond
	}
	if s.Workload == Interactive {
		return defaultTTFT
	}
	return 0
}

// ITLTarget is the objective in force for the gap between tokens; zero means none.
func (s DeploymentSpec) ITLTarget() time.Duration {
	if s.ITLTargetMS > 0 {
		return time.Duration(s.ITLTargetMS) * time.Millisecond
	}
	if s.Workload == Interactive {
		return defaultITL
	}
	return 0
}

func (s DeploymentSpec) outputRateTarget() float64 {
	if s.OutputRateTarget > 0 || s.Workload != Batch {
		return s.OutputRateTarget
	}
	return defaultOutputRate
}

// SameTargets reports whether two specs judge requests alike.
func (s DeploymentSpec) SameTargets(o DeploymentSpec) bool {
	return s.Targets() == o.Targets() && s.ObjectiveShare() == o.ObjectiveShare()
}
