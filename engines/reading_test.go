package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"tokenfactory/metrics"
)

// expectation is a row of testdata/expected.json. A missing key expects nothing; a null
// expects that the page does not say.
type expectation struct {
	Engine  string
	Model   json.RawMessage
	Numbers map[string]json.RawMessage
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readString(t *testing.T, e Engine, body string) Reading {
	t.Helper()
	r, err := e.Read(strings.NewReader(body))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return r
}

func engineNamed(t *testing.T, name string) Engine {
	t.Helper()
	if name == tgi.Name {
		return tgi
	}
	e, ok := Find(name)
	if !ok {
		t.Fatalf("no engine %s", name)
	}
	return e
}

func TestEveryFixtureReadsAsExpected(t *testing.T) {
	var rows map[string]map[string]json.RawMessage
	if err := json.Unmarshal(readFixture(t, "expected.json"), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 14 {
		t.Fatalf("%d expectations, want all 14", len(rows))
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			body := string(readFixture(t, name))
			var engine string
			_ = json.Unmarshal(row["engine"], &engine)
			if engine == "vllm-sim" {
				engine = "vllm" // the simulator speaks vLLM's names
			}
			got := readString(t, engineNamed(t, engine), body)
			any, err := ReadAny(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if got.Engine != engine || any.Engine != engine {
				t.Errorf("recognised as %q and %q, want %q", got.Engine, any.Engine, engine)
			}
			for key, raw := range row {
				compare(t, got, key, raw)
			}
		})
	}
}

func compare(t *testing.T, got Reading, key string, raw json.RawMessage) {
	t.Helper()
	switch key {
	case "engine", "note":
		return
	case "model":
		var want string
		_ = json.Unmarshal(raw, &want)
		if got.Model != want {
			t.Errorf("model %q, want %q", got.Model, want)
		}
		return
	case "live_engines":
		var want []string
		_ = json.Unmarshal(raw, &want)
		if !slices.Equal(got.Ranks, want) {
			t.Errorf("ranks %v, want %v", got.Ranks, want)
		}
		return
	case "finished", "failed":
		counts := got.Finished
		if key == "failed" {
			counts = got.Failed
		}
		want := map[string]float64{}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		for reason, n := range want {
			if v, ok := counts[reason]; !ok || v != n {
				t.Errorf("%s %s: %v (%v), want %v", key, reason, v, ok, n)
			}
		}
		for reason, n := range counts {
			if _, ok := want[reason]; !ok && n != 0 {
				t.Errorf("%s has %v of %s, which is not expected", key, n, reason)
			}
		}
		return
	}
	var value *float64
	switch key {
	case "running":
		value = got.Running
	case "waiting":
		value = got.Waiting
	case "kv":
		value = got.KV
	case "kv_max":
		value = got.KVPeak
	case "prompt_tokens":
		value = got.PromptTokens
	case "generation_tokens":
		value = got.GenerationTokens
	case "cached":
		value = got.CachedTokens
	case "prefix_queries":
		value = got.PrefixQueries
	case "prefix_hits":
		value = got.PrefixHits
	case "hit_rate":
		value = got.HitRate
	case "preemptions":
		value = got.Preemptions
	case "ttft_count", "ttft_sum", "itl_count":
		n := metrics.EngineTTFT
		if key == "itl_count" {
			n = metrics.EngineITL
		}
		if h, ok := got.Histograms[n]; ok {
			value = &h.Count
			if key == "ttft_sum" {
				value = &h.Sum
			}
		}
	default:
		t.Fatalf("expected.json has a key %q that is not compared", key)
	}
	var want *float64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	switch {
	case (value == nil) != (want == nil):
		t.Errorf("%s: %v, want %v", key, show(value), show(want))
	case want != nil && math.Abs(*value-*want) > 1e-9*math.Abs(*want):
		t.Errorf("%s: %v, want %v", key, *value, *want)
	}
}

func show(v *float64) any {
	if v == nil {
		return "nothing"
	}
	return *v
}

func TestEveryPageInTestdataParses(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadAny(strings.NewReader(string(b)))
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for n, h := range r.Histograms {
			if len(h.Bounds) != len(h.Counts) || !slices.IsSorted(h.Bounds) || h.Count < 0 {
				t.Errorf("%s: broken histogram %s: %+v", f, n, h)
			}
		}
	}
}

func TestTensorRTOf2026HasAllSignals(t *testing.T) {
	r := readString(t, trtllm, string(readFixture(t, "trtllm-2026-metrics.reconstructed.txt")))
	for what, got := range map[string]*float64{"running 2": r.Running, "waiting 0": r.Waiting, "kv 0.0415": r.KV,
		"prompt 4812": r.PromptTokens, "generation 2290": r.GenerationTokens, "cached 1024": r.CachedTokens} {
		if got == nil {
			t.Errorf("%s is missing", what)
		}
	}
	if r.Failed["400"] != 1 || r.Finished["stop"] != 11 {
		t.Errorf("finished %v, failed %v", r.Finished, r.Failed)
	}
	if _, ok := r.Histograms[metrics.EngineITL]; ok {
		t.Error("a mean per request was taken for an inter-token latency")
	}
}

func TestIdleServerHasNoCountersRatherThanZeros(t *testing.T) {
	r := readString(t, vllm, string(readFixture(t, "inference-sim-metrics-idle.txt")))
	if r.Running == nil || *r.Running != 0 || r.KV == nil {
		t.Errorf("gauges are missing: %+v", r)
	}
	if r.PromptTokens != nil || r.GenerationTokens != nil || r.Finished != nil || r.Histograms != nil {
		t.Errorf("absent series were read as something: %+v", r)
	}
}

func TestNIM2IsReadByWhatIsOnThePage(t *testing.T) {
	r := readString(t, nim, string(readFixture(t, "vllm-0.13-metrics.txt")))
	if r.Engine != "vllm" || r.GenerationTokens == nil || *r.GenerationTokens != 600 {
		t.Errorf("read as %q: %v", r.Engine, show(r.GenerationTokens))
	}
}

func TestDynamoWorkerPageIsReadAsItsBackend(t *testing.T) {
	r := readString(t, dynamo, string(readFixture(t, "dynamo-worker-vllm-metrics.txt")))
	if r.Engine != "vllm" || *r.PromptTokens != 66 {
		t.Errorf("read as %q: %v", r.Engine, show(r.PromptTokens))
	}
}

func TestNothingIsKeptOfWhatIsNoPage(t *testing.T) {
	whole := string(readFixture(t, "vllm-0.13-metrics.txt"))
	for what, r := range map[string]io.Reader{
		"an HTML page":       strings.NewReader("<!doctype html><html></html>\n"),
		"a JSON array":       strings.NewReader(`[{"iter":1}]` + "\n"),
		"a line that panics": strings.NewReader("# TYPE vllm:x counter\n{}"),
		"8 MiB of braces":    strings.NewReader(strings.Repeat("{\n", maxPage/2)),
		"only a bad line":    strings.NewReader("broken{name=\"x\" y\"} 1\n"),
		"a failing reader":   io.MultiReader(strings.NewReader(whole), iotest.ErrReader(errors.New("connection reset"))),
		"8 MiB of nothing":   strings.NewReader(strings.Repeat("\n", maxPage+2)),
		"more than 8 MiB":    strings.NewReader(strings.Repeat("vllm:num_requests_running 1\n", maxPage/28+2)),
	} {
		got, err := vllm.Read(r)
		if err == nil {
			t.Errorf("%s: no error", what)
		}
		if got.Engine != "" || got.Running != nil || got.Histograms != nil {
			t.Errorf("%s: half a page was kept: %+v", what, got)
		}
	}
}

func TestUnknownPageIsEmptyNotAnError(t *testing.T) {
	for _, body := range []string{"", "# TYPE python_gc_objects_collected_total counter\npython_gc_objects_collected_total 3\n"} {
		r := readString(t, vllm, body)
		if r.Engine != "" || r.Running != nil || r.PromptTokens != nil {
			t.Errorf("%q read as %+v", body, r)
		}
	}
}

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.partial.txt")
	for _, name := range append(files, "testdata/inference-sim-metrics-busy.txt", "testdata/sglang-0.4-metrics.txt") {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadAny(bytes.NewReader(b))
		if err != nil && (r.Engine != "" || r.Running != nil || r.Histograms != nil) {
			t.Fatalf("%v with %+v", err, r)
		}
		for _, v := range []*float64{r.Running, r.Waiting, r.KV, r.KVPeak, r.PromptTokens, r.GenerationTokens} {
			if v != nil && math.IsNaN(*v) {
				t.Fatalf("a NaN in %+v", r)
			}
		}
		for _, h := range r.Histograms {
			if e := h.Quantile(0.99); e.Value != nil && math.IsNaN(*e.Value) {
				t.Fatalf("p99 of %+v is NaN", h)
			}
		}
		_ = Delta(r, r)
	})
}

func num(v float64) *float64 { return &v }

func TestPromptsAndPrefixCacheMeanTheSameOfEveryEngine(t *testing.T) {
	sglang, llamacpp := engineNamed(t, "sglang"), engineNamed(t, "llamacpp")
	for _, c := range []struct {
		name          string
		engine        Engine
		page          string
		prompts       *float64
		hits, lookups *float64
	}{
		{"prompts with the cached ones", sglang, "sglang:prompt_tokens_total 100\nsglang:cached_tokens_total 60\n", num(100), num(60), num(100)},
		{"the computed ones alone", llamacpp, "llamacpp:prompt_tokens_total 40\nllamacpp:prompt_tokens_cached_total 60\n", num(100), num(60), num(100)},
		{"the computed ones alone, and no word of the others", llamacpp, "llamacpp:prompt_tokens_total 40\n", nil, nil, nil},
		{"no word of the cache", sglang, "sglang:prompt_tokens_total 100\n", num(100), nil, nil},
		{"counters of its own", engineNamed(t, "vllm"), "vllm:prompt_tokens_total 100\nvllm:prompt_tokens_cached_total 60\nvllm:prefix_cache_hits_total 70\nvllm:prefix_cache_queries_total 90\n", num(100), num(70), num(90)},
	} {
		r := readString(t, c.engine, c.page)
		hits, lookups := r.PrefixUse()
		for what, pair := range map[string][2]*float64{"prompts": {r.Prompts(), c.prompts}, "hits": {hits, c.hits}, "lookups": {lookups, c.lookups}} {
			if show(pair[0]) != show(pair[1]) {
				t.Errorf("%s: %s %s, want %s", c.name, what, show(pair[0]), show(pair[1]))
			}
		}
	}
}
