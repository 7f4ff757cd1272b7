package engines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tokenfactory/metrics"
)

// linesWith is a page of 200 lines, each a series of its own, in which line 100 is another.
func linesWith(line100 string) string {
	var b strings.Builder
	for i := 1; i <= 200; i++ {
		if i == 100 && line100 != "" {
			b.WriteString(line100 + "\n")
			continue
		}
		fmt.Fprintf(&b, "vllm:num_requests_running{engine=\"%d\",model_name=\"m\"} 1\n", i)
	}
	return b.String()
}

func TestEM12OneBadLineDoesNotLoseTheScrape(t *testing.T) {
	for what, bad := range map[string]string{
		"as reported":         `broken{name="x" y"} 1`,
		"no value":            `broken{name="x"}`,
		"a word as value":     `broken{name="x"} many`,
		"open quotes":         `broken{name="x} 1`,
		"bytes":               "broken\x00\xff\xfe 1",
		"what panics":         `{}`,
		"a stack trace":       `  File "/usr/lib/python3/site.py", line 7, in render`,
		"a comment gone odd":  `# TYPE broken what`,
		"a timestamp too far": `broken 1 2 3`,
	} {
		r := readString(t, vllm, linesWith(bad))
		if r.Running == nil || *r.Running != 199 || r.ParseErrors != 1 || r.Samples != 199 {
			t.Errorf("%s: running %v, %d series and %d errors", what, show(r.Running), r.Samples, r.ParseErrors)
		}
		if len(r.Problems) != 1 || r.Problems[0].Line != 100 || !strings.Contains(r.Complaint(), "1 line could not be read (line 100: ") {
			t.Errorf("%s: %+v, %q", what, r.Problems, r.Complaint())
		}
	}
	if r := readString(t, vllm, linesWith("")); *r.Running != 200 || r.ParseErrors != 0 || r.Complaint() != "" {
		t.Errorf("a good page: %v, %q", show(r.Running), r.Complaint())
	}
}

func TestManyBadLinesAreCountedAndTheFirstFewShown(t *testing.T) {
	bad := strings.Repeat("broken{"+strings.Repeat("x", 500)+"} 1\n", 50)
	r := readString(t, vllm, bad+linesWith("")+bad)
	if *r.Running != 200 || r.ParseErrors != 100 || len(r.Problems) != maxProblems || r.Problems[4].Line != 5 {
		t.Errorf("running %v, %d errors, %+v", show(r.Running), r.ParseErrors, r.Problems)
	}
	if c := r.Complaint(); !strings.Contains(c, "100 lines") || len(c) > 300 {
		t.Errorf("%q", c)
	}
}

func TestALineThatIsWrongOnlyAmongOthersIsLostAlone(t *testing.T) {
	for what, bad := range map[string]string{
		"a second HELP line": "# HELP vllm:x a\n# TYPE vllm:x gauge\nvllm:x 1\n# HELP vllm:x b\n",
		"a second TYPE line": "# TYPE vllm:x gauge\nvllm:x 1\n# TYPE vllm:x counter\n",
		"a bound of words":   "# TYPE vllm:x histogram\nvllm:x_bucket{le=\"high\"} 1\n",
	} {
		r := readString(t, vllm, bad+"vllm:num_requests_running 4\n")
		if r.Running == nil || *r.Running != 4 || r.ParseErrors != 1 {
			t.Errorf("%s: running %v, %d errors: %v", what, show(r.Running), r.ParseErrors, r.Problems)
		}
	}
}

// A sum that lacks a part, or the older name of the same thing, is not what was asked for.
func TestAFamilyWithALostLineIsUnknownAndNotReplaced(t *testing.T) {
	r := readString(t, vllm, `vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1" x"} 5
vllm:kv_cache_usage_perc{engine="0} 0.9
vllm:gpu_cache_usage_perc{engine="0"} 0.2
vllm:num_requests_waiting 2
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="1"} 3
vllm:time_to_first_token_seconds_bucket{le="+Inf" 4
vllm:time_to_first_token_seconds_count 4
vllm:time_to_first_token_seconds_sum 2
`)
	if _, ok := r.Histograms[metrics.EngineTTFT]; r.Running != nil || r.KV != nil || ok || r.ParseErrors != 3 {
		t.Errorf("running %v, kv %v, %d errors: %+v", show(r.Running), show(r.KV), r.ParseErrors, r.Histograms)
	}
	if r.Waiting == nil || *r.Waiting != 2 {
		t.Errorf("waiting %v", show(r.Waiting))
	}
}

func TestAPageThatWasCutOffIsReadUpToThere(t *testing.T) {
	whole := string(readFixture(t, "vllm-0.13-metrics.txt"))
	full := readString(t, vllm, whole)
	for _, at := range []int{len(whole) / 4, len(whole) / 2, len(whole) - 1} {
		r, err := vllm.Read(strings.NewReader(whole[:at]))
		if err != nil || r.ParseErrors != 1 || r.Running == nil {
			t.Errorf("cut at %d: %v, %+v", at, err, r)
		}
	}
	// Wherever it is cut, no counter is seen to be another than it is.
	for at := range len(whole) {
		// Between lines it does not show; a server that breaks off there is an error of
		// the connection. Elsewhere some will do.
		if at%23 != 0 || at == 0 || whole[at] == '\n' || whole[at-1] == '\n' {
			continue
		}
		r, err := vllm.Read(strings.NewReader(whole[:at]))
		if err != nil {
			continue
		}
		for what, v := range map[string][2]*float64{"prompt": {r.PromptTokens, full.PromptTokens}, "generation": {r.GenerationTokens, full.GenerationTokens}, "running": {r.Running, full.Running}} {
			if v[0] != nil && *v[0] != *v[1] {
				t.Fatalf("cut at %d, %s is %v, want %v", at, what, *v[0], *v[1])
			}
		}
		for n, h := range r.Histograms {
			if h.Count != full.Histograms[n].Count || !slices.Equal(h.Counts, full.Histograms[n].Counts) {
				t.Fatalf("cut at %d, %s is %+v", at, n, h)
			}
		}
	}
}

// Whichever line is lost, and in whatever way, the increases add up to what was counted.
func TestEM12CountersGoOnOverALostLine(t *testing.T) {
	pageAt := func(n int) []string {
		return []string{
			"# TYPE vllm:generation_tokens_total counter",
			fmt.Sprintf(`vllm:generation_tokens_total{engine="0"} %d`, 1000+n),
			fmt.Sprintf(`vllm:generation_tokens_total{engine="1"} %d`, 500+2*n),
			"# TYPE vllm:request_success_total counter",
			fmt.Sprintf(`vllm:request_success_total{engine="0",finished_reason="stop"} %d`, 10+n),
			fmt.Sprintf(`vllm:request_success_total{engine="0",finished_reason="length"} %d`, 20+n),
			"# TYPE vllm:time_to_first_token_seconds histogram",
			fmt.Sprintf(`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} %d`, 7+n),
			fmt.Sprintf(`vllm:time_to_first_token_seconds_bucket{engine="0",le="1"} %d`, 8+n),
			fmt.Sprintf(`vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} %d`, 9+n),
			fmt.Sprintf(`vllm:time_to_first_token_seconds_sum{engine="0"} %d`, n),
			fmt.Sprintf(`vllm:time_to_first_token_seconds_count{engine="0"} %d`, 9+n),
		}
	}
	ways := map[string]func(line string) string{
		"unreadable": func(line string) string {
			if strings.HasPrefix(line, "#") {
				return line + "s"
			}
			return strings.Replace(line, "} ", `"} `, 1)
		},
		"nameless": func(line string) string { return "!!" + line },
		"gone":     func(string) string { return "%" },
	}
	for way, spoil := range ways {
		for lost := range pageAt(0) {
			for base := range 2 { // the lost line is on the first page, or on one in the middle
				var pages []Reading
				for n := range 4 {
					lines := pageAt(n)
					if n == base {
						lines[lost] = spoil(lines[lost])
					}
					pages = append(pages, readString(t, vllm, strings.Join(lines, "\n")+"\n"))
				}
				sum := increasesOf(pages)
				most := map[string]float64{"tokens": 9, "stop": 3, "length": 3, "ttft": 3}
				for what, want := range most {
					// A first page that lacks it moves the beginning to the next.
					if got := sum[what]; got > want || got < want*2/3 || (base > 0 && got != want) {
						t.Errorf("%s, line %d (%q) of page %d: %s grew by %v, want %v", way, lost, pageAt(0)[lost], base, what, got, want)
					}
				}
			}
		}
	}
}

// increasesOf follows an engine that was found running.
func increasesOf(pages []Reading) map[string]float64 {
	sum := map[string]float64{}
	before := Base(pages[0])
	for _, r := range pages[1:] {
		var did Reading
		did, before = Follow(before, r)
		if did.GenerationTokens != nil {
			sum["tokens"] += *did.GenerationTokens
		}
		for reason, n := range did.Finished {
			sum[reason] += n
		}
		sum["ttft"] += did.Histograms[metrics.EngineTTFT].Count
	}
	return sum
}

func TestARestartIsSeenThroughADamagedPage(t *testing.T) {
	before := Reading{ProcessStart: num(1), GenerationTokens: num(100), ParseErrors: 1}
	did, next := Follow(before, Reading{ProcessStart: num(2), GenerationTokens: num(30), ParseErrors: 1, partial: true})
	if *did.GenerationTokens != 30 || *next.GenerationTokens != 30 {
		t.Errorf("did %v, next %v", *did.GenerationTokens, *next.GenerationTokens)
	}
	// Without a process start it shows on the next page that is whole.
	did, next = Follow(Reading{GenerationTokens: num(100)}, Reading{GenerationTokens: num(30), ParseErrors: 1, partial: true})
	if did.GenerationTokens != nil || *next.GenerationTokens != 100 {
		t.Errorf("did %v, next %v", show(did.GenerationTokens), *next.GenerationTokens)
	}
	if did, _ = Follow(next, Reading{GenerationTokens: num(35)}); *did.GenerationTokens != 35 {
		t.Errorf("did %v", *did.GenerationTokens)
	}
}

func TestASeriesThatBeginsAfterADamagedPageCountsFromZeroWhereTheBeginningWasSeen(t *testing.T) {
	_, next := Follow(Reading{}, Reading{Running: num(0), ParseErrors: 1})
	if did, _ := Follow(next, Reading{PromptTokens: num(33)}); did.PromptTokens == nil || *did.PromptTokens != 33 {
		t.Errorf("an engine that was started here: %v", show(did.PromptTokens))
	}
	next = Base(Reading{Running: num(0), ParseErrors: 1})
	if did, _ := Follow(next, Reading{PromptTokens: num(33)}); did.PromptTokens != nil {
		t.Errorf("an engine that was found: %v", show(did.PromptTokens))
	}
}

// Something prints into the page every time: what is counted is counted all the same.
func TestALineThatIsAlwaysBadHoldsNothingUp(t *testing.T) {
	var pages []Reading
	for n := range 4 {
		pages = append(pages, readString(t, vllm, fmt.Sprintf(`  File "x.py", line 7
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total %d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="1"} %d
vllm:time_to_first_token_seconds_count %d
vllm:time_to_first_token_seconds_sum 1
`, 1000+n, 50+n, 50+n)))
	}
	if got := increasesOf(pages); got["tokens"] != 3 || got["ttft"] != 3 {
		t.Errorf("%v", got)
	}
}

func TestFollowingAWholePageIsDelta(t *testing.T) {
	before := Reading{PromptTokens: num(5), Finished: map[string]float64{"stop": 1}}
	after := Reading{PromptTokens: num(9), Preemptions: num(2), PrefixHits: num(4), Finished: map[string]float64{"stop": 3}}
	did, next := Follow(before, after)
	if *did.PromptTokens != 4 || *did.Preemptions != 2 || *did.PrefixHits != 4 || !maps.Equal(did.Finished, map[string]float64{"stop": 2}) || *next.PromptTokens != 9 {
		t.Errorf("%+v", did)
	}
}
