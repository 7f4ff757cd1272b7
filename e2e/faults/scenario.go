package faults

import (
	"math/rand/v2"
	"time"

	"tokenfactory/engines/sim"
	"tokenfactory/slo"
)

// Scenario is a way for things to go wrong, or not to.
type Scenario struct {
	Name string
	Want slo.Signature
	// Faults are drawn anew for every seed.
	Faults func(*rand.Rand) []sim.Fault
	Prompt float64 // tokens, on average; 0: as usual
	Output float64
	Busier float64 // than before, while it goes on; 0: no
	Few    bool    // requests, while it goes on
}

// Scenarios has every fault of the engine and what each has to be found out as.
var Scenarios = []Scenario{
	{Name: "as usual", Want: slo.Healthy},
	{Name: "busier", Want: slo.Healthy, Busier: 1.5},
	{Name: "hardly any requests", Want: slo.NotEnough, Faults: one(sim.SlowPrefill, 5, 9), Few: true},
	{Name: "slow prefill", Want: slo.Upstream, Faults: one(sim.SlowPrefill, 5, 9)},
	{Name: "queue", Want: slo.Upstream, Faults: one(sim.Queue, 12, 20)},
	{Name: "slow decode", Want: slo.DecodeBound, Faults: one(sim.SlowDecode, 3, 6)},
	{Name: "thermal", Want: slo.DecodeBound, Faults: one(sim.Thermal, 2.6, 3.5)},
	{Name: "queue and slow decode", Want: slo.Capacity, Faults: func(rng *rand.Rand) []sim.Fault {
		return []sim.Fault{{Kind: sim.Queue, Factor: between(rng, 6, 10)}, {Kind: sim.SlowDecode, Factor: between(rng, 2.8, 4)}}
	}},
	{Name: "kv pressure", Want: slo.KVPressure, Faults: one(sim.KVPressure, 30, 45), Prompt: 40, Output: 12},
	// Long prompts and short answers, so that what is computed again weighs.
	{Name: "preemption", Want: slo.KVPressure, Faults: one(sim.Preemption, 0.5, 1), Prompt: 400, Output: 3.5},
	{Name: "errors", Want: slo.Errors, Faults: one(sim.Errors, 0.35, 0.9)},
	{Name: "crash", Want: slo.Errors, Faults: one(sim.Crash, 0, 0)},
	{Name: "hidden queue", Want: slo.Instrumentation, Faults: func(rng *rand.Rand) []sim.Fault {
		return []sim.Fault{{Kind: sim.HiddenQueue, Delay: time.Duration(between(rng, 750, 1300)) * time.Millisecond}}
	}},
}

// one is a single fault of a strength that differs from seed to seed.
func one(kind sim.FaultKind, least, most float64) func(*rand.Rand) []sim.Fault {
	return func(rng *rand.Rand) []sim.Fault { return []sim.Fault{{Kind: kind, Factor: between(rng, least, most)}} }
}

func between(rng *rand.Rand, least, most float64) float64 { return least + (most-least)*rng.Float64() }

// Options is an engine that is slow enough for a busy computer not to matter, and quick
// enough to wait for. No two seeds have the same one.
func Options(rng *rand.Rand) sim.Options {
	return sim.Options{
		TTFT: milliseconds(between(rng, 120, 170)), PrefillPerToken: milliseconds(between(rng, 0.6, 0.9)), ITL: milliseconds(between(rng, 110, 130)),
		Jitter: between(rng, 0.05, 0.15), MaxSeqs: 64, KVBlocks: 2500, BlockSize: 4, NoPrefixCaching: true, Seed: rng.Uint64(),
	}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Load is what clients ask for before anything goes wrong.
func (s Scenario) Load(rng *rand.Rand) Load {
	l := Load{Rate: between(rng, 12, 18), Prompt: between(rng, 60, 120), Output: between(rng, 4, 7)}
	if s.Prompt > 0 {
		l.Prompt = s.Prompt
	}
	if s.Output > 0 {
		l.Output = s.Output
	}
	return l
}

// Then is what they ask for while it goes on, and how many requests that is in all.
func (s Scenario) Then(rng *rand.Rand, l Load, usual int) (Load, int) {
	if s.Busier > 0 {
		l.Rate *= s.Busier
		return l, int(float64(usual) * s.Busier)
	}
	if s.Few {
		return l, 6 + rng.IntN(12)
	}
	return l, usual
}

// Begin starts the scenario's faults.
func (s Scenario) Begin(rng *rand.Rand, e *sim.Engine) error {
	if s.Faults == nil {
		return nil
	}
	for _, f := range s.Faults(rng) {
		if err := e.Start(f); err != nil {
			return err
		}
	}
	return nil
}

// End ends whatever is under way.
func End(e *sim.Engine) {
	for _, f := range e.Faults() {
		e.End(f.Kind)
	}
}
