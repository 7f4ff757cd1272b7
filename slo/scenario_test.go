package slo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/metrics"
)

// load is what a deployment goes through in a window, as means.
type load struct {
	requests                                   int
	gatewayQueue, engineQueue, prefill, hidden float64 // ms
	itl                                        float64 // ms
	prompt, output                             float64 // tokens
	kv, kvSpread                               float64
	running, waiting, held                     float64
	preemptions, failures                      float64 // for each request
	clock, heat                                float64
}

func usual(rng *rand.Rand) load {
	return load{
		requests: 60 + rng.IntN(400), gatewayQueue: 2, engineQueue: 6, prefill: 60 + 80*rng.Float64(), hidden: 4 + 10*rng.Float64(),
		itl: 15 + 20*rng.Float64(), prompt: 600 + 600*rng.Float64(), output: 80 + 80*rng.Float64(), kv: 0.2 + 0.3*rng.Float64(), kvSpread: 0.1,
		running: 4 + 4*rng.Float64(), waiting: 0.2, held: 0.1, preemptions: 0.001, failures: 0.003, clock: 1900, heat: 66,
	}
}

// jitter moves every mean a little, as the same deployment does from hour to hour.
func (l load) jitter(rng *rand.Rand, size float64) load {
	for _, mean := range []*float64{&l.gatewayQueue, &l.engineQueue, &l.prefill, &l.hidden, &l.itl, &l.prompt, &l.output, &l.running, &l.waiting, &l.preemptions, &l.failures} {
		*mean *= math.Exp(size * rng.NormFloat64())
	}
	l.kv *= math.Exp(size / 2 * rng.NormFloat64())
	l.clock *= math.Exp(size / 10 * rng.NormFloat64())
	return l
}

// engineBounds are the bounds, in milliseconds, of an engine's latency histograms.
var engineBounds = []float64{1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000, 20000}

func histogramOf(ms float64) metrics.Histogram {
	h := metrics.Histogram{Bounds: engineBounds, Counts: make([]float64, len(engineBounds)), Sum: ms, Count: 1}
	for i, b := range engineBounds {
		if ms <= b {
			h.Counts[i] = 1
		}
	}
	return h
}

// draw is log-normal around a mean.
func draw(rng *rand.Rand, mean, sigma float64) float64 {
	return mean * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)
}

// run draws a window's requests, records them as gateway and agents do, and reads the figures back.
func (l load) run(t *testing.T, rng *rand.Rand) Figures {
	t.Helper()
	const length = 15 * time.Minute
	var r metrics.Recorder
	for i := range l.requests {
		at := start.Add(time.Duration(rng.Int64N(int64(length))))
		replica := []string{"r1", "r2"}[i%2]
		see := func(name metrics.Name, v float64, n int) { r.Observe(at, "d", replica, name, v, n) }
		engine := func(name metrics.Name, v float64) {
			r.ObserveHistogram(at, metrics.Of{Deployment: "d", Replica: replica}, name, histogramOf(v))
		}
		see(metrics.Requests, 1, 1)
		if rng.Float64() < l.failures {
			see(metrics.Failures, 1, 1)
			continue
		}
		prompt := draw(rng, l.prompt, 0.4)
		queue, waited, prefill, way := draw(rng, l.gatewayQueue, 0.6), draw(rng, l.engineQueue, 0.6), draw(rng, l.prefill, 0.25)*prompt/l.prompt, draw(rng, l.hidden, 0.3)
		see(metrics.Queue, queue, 1)
		see(metrics.TTFT, queue+waited+prefill+way, 1)
		engine(metrics.EngineQueue, waited)
		engine(metrics.EnginePrefill, prefill)
		engine(metrics.EngineTTFT, waited+prefill)
		see(metrics.PromptLength, math.Round(prompt), 1)
		output := max(2, math.Round(draw(rng, l.output, 0.4)))
		see(metrics.OutputLength, output, 1)
		mean := draw(rng, l.itl, 0.1)
		for range 6 {
			see(metrics.ITL, draw(rng, mean, 0.2), max(1, int(output/6)))
		}
		thrown := 0.0
		for p := l.preemptions; rng.Float64() < p; p-- {
			thrown++
		}
		see(metrics.Preemptions, thrown, 1)
	}
	for at := start; at.Before(start.Add(length)); at = at.Add(5 * time.Second) {
		kv := min(0.99, l.kv*(1+0.05*rng.NormFloat64()))
		r.ObservePeak(at, metrics.Of{Deployment: "d", Replica: "r1"}, metrics.KVCache, kv, min(1, kv+l.kvSpread*rng.Float64()))
		for name, mean := range map[metrics.Name]float64{metrics.Running: l.running, metrics.Waiting: l.waiting, metrics.Held: l.held} {
			r.Observe(at, "d", "r1", name, math.Round(draw(rng, mean, 0.3)), 1)
		}
		r.Observe(at, "n", "gpu", metrics.GPUClock, l.clock*(1+0.01*rng.NormFloat64()), 1)
		r.Observe(at, "n", "gpu", metrics.GPUTemperature, l.heat+rng.NormFloat64(), 1)
	}
	buckets := r.Flush()
	of := map[metrics.Name]metrics.Summary{}
	for _, name := range slices.Concat(Diagnosed, DiagnosedOfGPUs) {
		s, err := metrics.SeriesOf(name, metrics.Window{From: start, To: start.Add(length), Step: time.Minute}, buckets)
		if err != nil {
			t.Fatal(err)
		}
		of[name] = s.Summary
	}
	return FiguresOf(of)
}

// between is a factor that differs from seed to seed.
func between(rng *rand.Rand, least, most float64) float64 { return least + (most-least)*rng.Float64() }

// firstDay is the one without a past.
const firstDay = "first day"

var scenarios = []struct {
	name string
	want Signature
	harm func(*load, *rand.Rand)
}{
	{"as usual", Healthy, func(*load, *rand.Rand) {}},
	{"restless, nothing wrong", Healthy, func(l *load, rng *rand.Rand) { *l = l.jitter(rng, 0.18) }},
	{firstDay, Healthy, func(*load, *rand.Rand) {}},
	{"half as busy again", Healthy, func(l *load, _ *rand.Rand) {
		l.requests, l.running, l.kv = l.requests*3/2, l.running*1.5, l.kv*1.3
	}},
	{"nearly idle", NotEnough, func(l *load, rng *rand.Rand) { l.requests = rng.IntN(19) }},
	{"slow prefill", Upstream, func(l *load, rng *rand.Rand) { l.prefill *= between(rng, 3, 8) }},
	{"long prompts", Upstream, func(l *load, rng *rand.Rand) {
		by := between(rng, 3, 8)
		l.prompt, l.prefill = l.prompt*by, l.prefill*by
	}},
	{"queue in the gateway", Upstream, func(l *load, rng *rand.Rand) {
		l.gatewayQueue, l.held = between(rng, 400, 2000), between(rng, 4, 20)
	}},
	{"queue in the engine", Upstream, func(l *load, rng *rand.Rand) {
		l.engineQueue, l.waiting = between(rng, 400, 2000), between(rng, 4, 20)
	}},
	{"slow decode", DecodeBound, func(l *load, rng *rand.Rand) { l.itl *= between(rng, 2, 6) }},
	{"hot GPU", DecodeBound, func(l *load, rng *rand.Rand) {
		by := between(rng, 0.45, 0.6)
		l.clock, l.heat, l.itl, l.prefill = l.clock*by, 90, l.itl/by, l.prefill/by
	}},
	{"more than the replicas can do", Capacity, func(l *load, rng *rand.Rand) {
		l.engineQueue, l.waiting, l.itl = between(rng, 500, 3000), between(rng, 6, 30), l.itl*between(rng, 2.5, 5)
		l.kv, l.running, l.requests = between(rng, 0.8, 0.93), l.running*3, l.requests*2
	}},
	{"KV cache full, preempting", KVPressure, func(l *load, rng *rand.Rand) {
		l.kv, l.preemptions, l.engineQueue = between(rng, 0.93, 0.98), between(rng, 0.1, 0.6), between(rng, 50, 800)
		l.itl *= between(rng, 1, 3)
	}},
	{"KV cache full, not felt yet", KVPressure, func(l *load, rng *rand.Rand) { l.kv = between(rng, 0.94, 0.97) }},
	{"engine fails", Errors, func(l *load, rng *rand.Rand) { l.failures = between(rng, 0.08, 0.6) }},
	{"engine is down", Errors, func(l *load, _ *rand.Rand) { l.failures = 1 }},
	{"queue that the engine hides", Instrumentation, func(l *load, rng *rand.Rand) { l.hidden = between(rng, 300, 1500) }},
	{"slow network", Instrumentation, func(l *load, rng *rand.Rand) { l.hidden = between(rng, 120, 200) }},
	{"preempting, the cache never seen full", KVPressure, func(l *load, rng *rand.Rand) {
		l.kv, l.preemptions, l.itl = between(rng, 0.4, 0.6), between(rng, 0.3, 0.9), l.itl*between(rng, 1, 3)
	}},
}

func TestDiagnosisFindsWhatIsWrong(t *testing.T) {
	const seeds = 20
	promises := Promises{TTFT: 500 * time.Millisecond, ITL: 250 * time.Millisecond, Share: 0.95}
	right, found, wanted := map[Signature]int{}, map[Signature]int{}, map[Signature]int{}
	for i, sc := range scenarios {
		var missed []string
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(seed)))
			base := usual(rng)
			past := base.jitter(rng, 0.08)
			past.requests *= 2
			now := base.jitter(rng, 0.08)
			sc.harm(&now, rng)
			was := past.run(t, rng)
			if sc.name == firstDay {
				was = Figures{}
			}
			d := Diagnose(now.run(t, rng), was, promises)
			wanted[sc.want]++
			found[d.Signature]++
			if d.Signature == sc.want {
				right[sc.want]++
			} else {
				missed = append(missed, fmt.Sprintf("seed %d: %s, %s", seed, d.Signature, d.Summary))
			}
			if seed == 0 {
				t.Logf("%s: %s", sc.name, d.Summary)
				for _, e := range d.Evidence {
					t.Logf("    %s", e.Text)
				}
			}
		}
		if len(missed) > 0 {
			t.Logf("%s, wanted %s:\n  %s", sc.name, sc.want, strings.Join(missed, "\n  "))
		}
	}
	t.Logf("%-20s %9s %9s %6s", "signature", "precision", "recall", "cases")
	for _, m := range Signatures {
		s := m.Signature
		precision, recall := ratio(right[s], found[s]), ratio(right[s], wanted[s])
		t.Logf("%-20s %9.3f %9.3f %6d", s, precision, recall, wanted[s])
		if wanted[s] == 0 || precision < 0.95 || recall < 0.95 {
			t.Errorf("%s: precision %.3f and recall %.3f in %d cases, want at least 0.95", s, precision, recall, wanted[s])
		}
	}
}

func ratio(a, b int) float64 { return float64(a) / float64(max(b, 1)) }

// Whatever is missing, there is a diagnosis, it can be sent, and it is the same each time.
func TestDiagnosisBearsWhateverIsMissing(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	full := usual(rng)
	full.kv, full.preemptions, full.failures = 0.95, 0.2, 0.05
	now, was := full.run(t, rng), usual(rng).run(t, rng)
	seen := map[Signature]bool{}
	for range 3000 {
		a, b := without(rng, now), without(rng, was)
		p := Promises{TTFT: time.Duration(rng.IntN(3)) * 200 * time.Millisecond, ITL: time.Duration(rng.IntN(3)) * 20 * time.Millisecond, Share: []float64{0, 0.9, 0.95, 0.999}[rng.IntN(4)]}
		d := Diagnose(a, b, p)
		if _, err := json.Marshal(d); err != nil || d.Summary == "" || d.Title == "" || d.Evidence == nil {
			t.Fatalf("%+v: %v", d, err)
		}
		if again := Diagnose(a, b, p); !reflect.DeepEqual(d, again) {
			t.Fatalf("first %+v, then %+v", d, again)
		}
		seen[d.Signature] = true
	}
	if len(seen) < 5 {
		t.Errorf("only %v were seen: the figures do not vary enough", seen)
	}
}

// without empties figures by chance: pointers and whole latencies.
func without(rng *rand.Rand, f Figures) Figures {
	v := reflect.ValueOf(&f).Elem()
	for i := range v.NumField() {
		if rng.IntN(3) == 0 {
			v.Field(i).SetZero()
		}
	}
	for _, l := range []*Latency{&f.TTFT, &f.ITL} {
		if rng.IntN(4) == 0 {
			l.P95 = nil
		}
		if rng.IntN(4) == 0 {
			l.Mean = nil
		}
	}
	return f
}

func TestManualCoversEverySignature(t *testing.T) {
	names := func(s []Signature) []Signature { slices.SortFunc(s, cmp.Compare[Signature]); return s }
	var have []Signature
	for _, m := range Signatures {
		have = append(have, m.Signature)
		if m.Title == "" || m.Pattern == "" || (m.Signature != Healthy && (len(m.Look) == 0 || len(m.Do) == 0)) {
			t.Errorf("%s has an empty page", m.Signature)
		}
	}
	want := []Signature{Upstream, DecodeBound, Capacity, KVPressure, Errors, Instrumentation, Healthy, NotEnough}
	if !slices.Equal(names(have), names(want)) {
		t.Errorf("pages of %v, want %v", have, want)
	}
}
