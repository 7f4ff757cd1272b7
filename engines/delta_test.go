package engines

import (
	"math/rand/v2"
	"testing"

	"tokenfactory/metrics"
)

func TestEM04CounterResetIsNeverNegative(t *testing.T) {
	total := 0.0
	before := Reading{GenerationTokens: num(100), Histograms: map[metrics.Name]metrics.Histogram{metrics.EngineTTFT: histogram(100)}}
	buckets := 0.0
	for _, v := range []float64{160, 20, 50} {
		after := Reading{GenerationTokens: num(v), Histograms: map[metrics.Name]metrics.Histogram{metrics.EngineTTFT: histogram(v)}}
		d := Delta(before, after)
		if *d.GenerationTokens < 0 {
			t.Errorf("negative increase %v", *d.GenerationTokens)
		}
		total += *d.GenerationTokens
		buckets += d.Histograms[metrics.EngineTTFT].Counts[0]
		before = after
	}
	if total != 110 || buckets != 110 {
		t.Errorf("increase %v and %v in the bucket, want 110", total, buckets)
	}
}

// Two replicas are corrected one by one: their sum, 200, 160, 120, would lose the restarts.
func TestEM04ReplicasAreCorrectedOneByOne(t *testing.T) {
	total := 0.0
	for _, values := range [][]float64{{100, 150, 10}, {100, 10, 110}} {
		before := Reading{GenerationTokens: num(values[0])}
		for _, v := range values[1:] {
			after := Reading{GenerationTokens: num(v)}
			total += *Delta(before, after).GenerationTokens
			before = after
		}
	}
	if total != 50+10+10+100 {
		t.Errorf("increase %v, want 170", total)
	}
}

func TestEveryCounterBecomesAnIncrease(t *testing.T) {
	all := func(n float64) Reading {
		return Reading{PromptTokens: num(n), GenerationTokens: num(n), CachedTokens: num(n), PrefixHits: num(n), PrefixQueries: num(n), Preemptions: num(n), HitRate: num(n)}
	}
	d := Delta(all(7), all(9))
	for i, v := range []*float64{d.PromptTokens, d.GenerationTokens, d.CachedTokens, d.PrefixHits, d.PrefixQueries, d.Preemptions} {
		if v == nil || *v != 2 {
			t.Errorf("counter %d grew by %v", i, show(v))
		}
	}
	if *d.HitRate != 9 {
		t.Errorf("a gauge became %v", *d.HitRate)
	}
}

func histogram(n float64) metrics.Histogram {
	return metrics.Histogram{Bounds: []float64{1}, Counts: []float64{n}, Count: n, Sum: n / 2}
}

func TestRestartThatEndsHigherShowsInTheProcessStart(t *testing.T) {
	before := Reading{ProcessStart: num(1000), PromptTokens: num(50), Finished: map[string]float64{"stop": 5}}
	after := Reading{ProcessStart: num(2000), PromptTokens: num(70), Finished: map[string]float64{"stop": 6}}
	d := Delta(before, after)
	if *d.PromptTokens != 70 || d.Finished["stop"] != 6 {
		t.Errorf("prompt %v, finished %v: want all that the new process did", *d.PromptTokens, d.Finished)
	}
}

func TestCounterThatAppearsCountsFromZero(t *testing.T) {
	d := Delta(Reading{Running: num(0)}, Reading{Running: num(1), PromptTokens: num(33), Failed: map[string]float64{"400": 2}})
	if *d.PromptTokens != 33 || d.Failed["400"] != 2 || *d.Running != 1 {
		t.Errorf("%+v", d)
	}
}

func TestCounterThatIsGoneIsUnknown(t *testing.T) {
	d := Delta(Reading{PromptTokens: num(33)}, Reading{})
	if d.PromptTokens != nil || d.Finished != nil || d.Histograms != nil {
		t.Errorf("%+v", d)
	}
}

func TestGaugesPassThroughADelta(t *testing.T) {
	d := Delta(Reading{KV: num(0.9), Waiting: num(7)}, Reading{KV: num(0.4), KVPeak: num(0.5), Waiting: num(1), Model: "m"})
	if *d.KV != 0.4 || *d.KVPeak != 0.5 || *d.Waiting != 1 || d.Model != "m" {
		t.Errorf("%+v", d)
	}
}

// Whatever a process counted in all its lives is what the increases add up to.
func TestIncreasesAddUpOverRestarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		start, counter, want, got := 1.0, 0.0, 0.0, 0.0
		before := Reading{ProcessStart: num(start), PromptTokens: num(0)}
		for range 50 {
			if rng.IntN(8) == 0 {
				start, counter = start+1, 0
			}
			n := float64(rng.IntN(1000))
			counter, want = counter+n, want+n
			after := Reading{ProcessStart: num(start), PromptTokens: num(counter)}
			got += *Delta(before, after).PromptTokens
			before = after
		}
		if got != want {
			t.Fatalf("increases add up to %v, want %v", got, want)
		}
	}
}
