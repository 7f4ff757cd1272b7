package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FaultKind is something that can go wrong with an engine.
type FaultKind string

const (
	SlowPrefill FaultKind = "slow_prefill" // first tokens take Factor times as long
	SlowDecode  FaultKind = "slow_decode"  // gaps between tokens are Factor times as long
	// Thermal is a GPU that slows itself down: tokens are late as with SlowDecode, by less.
	Thermal    FaultKind = "thermal"
	KVPressure FaultKind = "kv_pressure" // the KV cache is smaller by Factor, and what outgrows it is preempted
	Preemption FaultKind = "preemption"  // a share of Factor of the requests is put back once and computed again
	Queue      FaultKind = "queue"       // seats are fewer by Factor, so requests wait in the engine's own queue
	// HiddenQueue keeps requests for Delay before the engine's own clock starts: no figure
	// of the engine shows it.
	HiddenQueue FaultKind = "hidden_queue"
	Errors      FaultKind = "errors" // a share of Factor of the requests fails with status 500
	// Crash resets all connections and refuses new ones. What comes back afterwards is a new
	// process: it loads, and its counters begin at zero.
	Crash FaultKind = "crash"
)

// usual is how strong each fault is when nothing is said.
var usual = map[FaultKind]Fault{
	SlowPrefill: {Factor: 4}, SlowDecode: {Factor: 4}, Thermal: {Factor: 2}, KVPressure: {Factor: 16}, Queue: {Factor: 64},
	Preemption: {Factor: 0.5}, Errors: {Factor: 0.5}, HiddenQueue: {Delay: 500 * time.Millisecond}, Crash: {},
}

// kinds is the order in which people read of them.
var kinds = []FaultKind{SlowPrefill, SlowDecode, Thermal, KVPressure, Preemption, Queue, HiddenQueue, Errors, Crash}

// Fault is something that goes wrong on demand.
type Fault struct {
	Kind   FaultKind
	Factor float64       // zero: what is usual for the kind
	Delay  time.Duration // of HiddenQueue
	For    time.Duration // zero: until it is ended
}

// complete fills in what is usual and checks the rest.
func (f Fault) complete() (Fault, error) {
	u, known := usual[f.Kind]
	if !known {
		return f, fmt.Errorf("there is no fault %q; there are %s", f.Kind, kindList())
	}
	if f.Factor == 0 {
		f.Factor = u.Factor
	}
	if f.Delay == 0 {
		f.Delay = u.Delay
	}
	share := f.Kind == Preemption || f.Kind == Errors
	switch {
	case f.For < 0 || f.Delay < 0:
		return f, fmt.Errorf("times of the fault %s must not be negative", f.Kind)
	case share && !(f.Factor > 0 && f.Factor <= 1):
		return f, fmt.Errorf("the fault %s takes a share of the requests, above 0 and at most 1", f.Kind)
	case !share && u.Factor > 0 && !(f.Factor >= 1 && f.Factor <= 1e6):
		return f, fmt.Errorf("the fault %s takes a factor from 1 to 1000000", f.Kind)
	}
	return f, nil
}

func kindList() string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// ParseFault reads KIND, KIND=STRENGTH or KIND=STRENGTH@DURATION, as in slow-prefill=4x,
// errors=20%@30s and hidden-queue=500ms.
func ParseFault(text string) (Fault, error) {
	text, duration, ends := strings.Cut(text, "@")
	kind, strength, given := strings.Cut(text, "=")
	f := Fault{Kind: FaultKind(strings.ReplaceAll(kind, "-", "_"))}
	var err error
	if ends {
		if f.For, err = time.ParseDuration(duration); err != nil || f.For <= 0 {
			return f, fmt.Errorf("%q is no duration; write one such as 30s", duration)
		}
	}
	if given {
		if f.Kind == HiddenQueue {
			f.Delay, err = time.ParseDuration(strength)
		} else if share, percent := strings.CutSuffix(strength, "%"); percent {
			f.Factor, err = strconv.ParseFloat(share, 64)
			f.Factor /= 100
		} else {
			f.Factor, err = strconv.ParseFloat(strings.TrimSuffix(strength, "x"), 64)
		}
		if err != nil {
			return f, fmt.Errorf("%q is no strength of a fault; write 4x, 20%% or, for hidden-queue, 500ms", strength)
		}
	}
	return f.complete()
}

// faultJSON is how the control endpoint writes a fault.
type faultJSON struct {
	Kind     FaultKind `json:"kind"`
	Factor   float64   `json:"factor,omitempty"`
	Delay    string    `json:"delay,omitempty"`
	Duration string    `json:"duration,omitempty"`
}

func (f Fault) MarshalJSON() ([]byte, error) {
	out := faultJSON{Kind: f.Kind, Factor: f.Factor}
	if f.Delay > 0 {
		out.Delay = f.Delay.String()
	}
	if f.For > 0 {
		out.Duration = f.For.String()
	}
	return json.Marshal(out)
}

func (f *Fault) UnmarshalJSON(b []byte) error {
	var in faultJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*f = Fault{Kind: in.Kind, Factor: in.Factor}
	for _, d := range []struct {
		text string
		into *time.Duration
	}{{in.Delay, &f.Delay}, {in.Duration, &f.For}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.into, err = time.ParseDuration(d.text); err != nil {
			return fmt.Errorf("%q is no duration; write one such as 30s", d.text)
		}
	}
	return nil
}
