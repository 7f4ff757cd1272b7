package slo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tokenfactory/metrics"
)

func TestTokensOfGatewayAndEngineAreReconciled(t *testing.T) {
	of := func(requests, in, out, prompt, generated, running float64) map[metrics.Name]metrics.Summary {
		counter := func(v float64) metrics.Summary { return metrics.Summary{N: 1, Sum: v} }
		return map[metrics.Name]metrics.Summary{
			metrics.Requests: counter(requests), metrics.InputTokens: counter(in), metrics.OutputTokens: counter(out),
			metrics.PromptTokens: counter(prompt), metrics.GenerationTokens: counter(generated), metrics.Running: {N: 1, Peak: &running},
		}
	}
	for _, c := range []struct {
		name  string
		of    map[metrics.Name]metrics.Summary
		ratio float64
		want  Finding
	}{
		{"to the token", of(1000, 800_000, 200_000, 800_000, 200_000, 4), 0, Right},
		{"exactly the limit", of(1000, 800_000, 200_000, 804_000, 201_000, 0), 0.005, Right},
		{"over the limit", of(1000, 800_000, 200_000, 804_000, 201_001, 0), 0.005001, Wrong},
		{"billed more than made", of(1000, 800_000, 200_000, 790_000, 200_000, 0), -0.01, Wrong},
		{"requests under way", of(1000, 800_000, 200_000, 808_000, 200_000, 4), 0.008, Right},
		{"more than they explain", of(1000, 800_000, 200_000, 820_000, 200_000, 4), 0.02, Wrong},
		{"a few tokens of little traffic", of(50, 40_000, 10_000, 40_900, 10_000, 0), 0.018, Right},
		{"too little traffic", of(5, 4000, 1000, 8000, 1000, 0), 0, Unknown},
	} {
		d := Reconcile(c.of)
		if d.Finding() != c.want || math.Abs(d.Ratio-c.ratio) > 1e-6 {
			t.Errorf("%s: %+v is %v, want %v with ratio %v", c.name, d, d.Finding(), c.want, c.ratio)
		}
	}
	silent := of(1000, 800_000, 200_000, 0, 0, 4)
	delete(silent, metrics.PromptTokens)
	if got := Reconcile(silent); got.OK || got.Finding() != Unknown {
		t.Errorf("an engine that reports nothing: %+v", got)
	}
}

func TestSplitAddsUpToTheWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := func(s Split) (out []PartName) {
		for _, p := range s.Parts {
			out = append(out, p.Name)
		}
		return out
	}
	seen := map[bool]int{}
	for range 2000 {
		of := map[metrics.Name]metrics.Summary{}
		for _, name := range SplitNames {
			if name == metrics.TTFT || name == metrics.Decode || rng.IntN(3) > 0 {
				v := rng.ExpFloat64() * 200
				of[name] = metrics.Summary{N: 10, Average: &v}
			}
		}
		s, ok := SplitOf(of)
		sum := 0.0
		for _, p := range s.Parts {
			if p.Mean < 0 || math.IsNaN(p.Mean) {
				t.Fatalf("%+v has a negative part", s)
			}
			sum += p.Mean
		}
		want := *of[metrics.TTFT].Average + *of[metrics.Decode].Average
		if !ok || math.Abs(sum-want) > 1e-6 || math.Abs(s.Total-want) > 1e-6 {
			t.Fatalf("%+v adds up to %v, want %v", s, sum, want)
		}
		seen[s.Clipped]++
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("clipped and not: %v", seen)
	}
	ms := func(v float64) metrics.Summary { return metrics.Summary{N: 1, Average: &v} }
	of := map[metrics.Name]metrics.Summary{
		metrics.TTFT: ms(400), metrics.Decode: ms(1600), metrics.Queue: ms(100),
		metrics.EngineTTFT: ms(250), metrics.EngineQueue: ms(50), metrics.EnginePrefill: ms(200),
	}
	s, _ := SplitOf(of)
	want := []Part{
		{PartQueue, "Queue in the gateway", 100}, {PartEngineQueue, "Queue in the engine", 50}, {PartPrefill, "Prefill", 200},
		{PartNetwork, "Network and other", 50}, {PartDecode, "Decode", 1600},
	}
	if !slices.Equal(s.Parts, want) || s.Unknown != nil || s.Clipped {
		t.Errorf("%+v, want %+v", s, want)
	}
	delete(of, metrics.EngineTTFT)
	delete(of, metrics.EnginePrefill)
	if s, _ = SplitOf(of); !slices.Equal(names(s), []PartName{PartQueue, PartBeforeToken, PartDecode}) || !slices.Contains(s.Unknown, PartNetwork) {
		t.Errorf("an engine that says little: %+v", s)
	}
	if _, ok := SplitOf(nil); ok {
		t.Error("nothing was streamed, and there is a split")
	}
}
