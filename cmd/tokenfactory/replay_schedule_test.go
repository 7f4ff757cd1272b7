package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSyntheticArrivalsKeepTheirRate(t *testing.T) {
	lengths := tokenRange{50, 200}
	for _, c := range []struct {
		pattern      string
		least, most  time.Duration // of the last of 1000 requests
		firstHalfEnd time.Duration // when the 500th is due, give or take a tenth
	}{
		{"poisson:10/s", 85 * time.Second, 115 * time.Second, 50 * time.Second},
		{"constant:10/s", 99900 * time.Millisecond, 99900 * time.Millisecond, 50 * time.Second},
		{"burst:10/s", 99 * time.Second, 99 * time.Second, 50 * time.Second},
		{"ramp:10/s", 199 * time.Second, 200 * time.Second, 141400 * time.Millisecond},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.synthetic(1000, 0, lengths, lengths, 1)
		if err != nil || len(plan) != 1000 {
			t.Fatalf("%s: %d requests, %v", c.pattern, len(plan), err)
		}
		if last := plan[999].At; last < c.least || last > c.most {
			t.Errorf("%s: the last is due at %s", c.pattern, last)
		}
		if half := plan[500].At; (half - c.firstHalfEnd).Abs() > c.firstHalfEnd/10 {
			t.Errorf("%s: half are due at %s, want about %s", c.pattern, half, c.firstHalfEnd)
		}
		seen := map[int]bool{}
		for i, a := range plan {
			if i > 0 && a.At < plan[i-1].At {
				t.Fatalf("%s: request %d is due before the one before", c.pattern, i)
			}
			if a.Input < 50 || a.Input > 200 || a.Output < 50 || a.Output > 200 {
				t.Fatalf("%s: lengths %d and %d", c.pattern, a.Input, a.Output)
			}
			seen[a.Input] = true
		}
		if len(seen) < 100 {
			t.Errorf("%s: only %d lengths occur", c.pattern, len(seen))
		}
		again, _ := p.synthetic(1000, 0, lengths, lengths, 1)
		if !slices.EqualFunc(plan, again, func(a, b arrival) bool { return a.At == b.At && a.Input == b.Input && a.Output == b.Output }) {
			t.Errorf("%s: the same seed made another schedule", c.pattern)
		}
	}
	burst, _ := pattern{"burst", 10}.synthetic(25, 0, lengths, lengths, 1)
	if burst[9].At != 0 || burst[10].At != time.Second || burst[24].At != 2*time.Second {
		t.Errorf("a burst of ten is spread: %v", burst)
	}
}

func TestSyntheticArrivalsEndInTime(t *testing.T) {
	one := tokenRange{1, 1}
	for kind, want := range map[string]int{"constant": 50, "burst": 50, "ramp": 25} {
		plan, err := pattern{kind, 10}.synthetic(0, 5*time.Second, one, one, 1)
		if err != nil || len(plan) != want || plan[len(plan)-1].At >= 5*time.Second {
			t.Errorf("%s: %d requests in 5 s, want %d: %v", kind, len(plan), want, err)
		}
	}
	if plan, err := (pattern{"constant", 10}).synthetic(7, 5*time.Second, one, one, 1); err != nil || len(plan) != 7 {
		t.Errorf("both bounds: %d requests, %v", len(plan), err)
	}
	if _, err := (pattern{"constant", 1e5}).synthetic(0, time.Hour, one, one, 1); err == nil {
		t.Error("360 million requests are planned")
	}
	if _, err := (pattern{"ramp", 1}).synthetic(0, time.Second, one, one, 1); err == nil {
		t.Error("a schedule without a request is taken")
	}
	if _, err := (pattern{"poisson", 1}).synthetic(0, 0, one, one, 1); err == nil {
		t.Error("a schedule without an end is taken")
	}
}

func TestPatternsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, text := range []string{"", "poisson", "poisson:", "poisson:0/s", "poisson:-1/s", "poisson:NaN/s", "poisson:Inf", "waves:10/s"} {
		if _, err := parsePattern(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	for _, text := range []string{"", "0", "-5", "5-", "9-3", "many"} {
		var r tokenRange
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for tokens: %+v", text, r)
		}
	}
}

func TestTracesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		text, unit string
		at         []time.Duration
		input      []int
	}{
		"milliseconds, out of order": {`{"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[46,47]}` + "\r\n\n" + `{"timestamp":27000,"input_length":10,"output_length":0}`, "auto",
			[]time.Duration{0, 482 * time.Millisecond}, []int{10, 6955}},
		"seconds": {`{"timestamp":1.5,"input_length":1,"output_length":2}` + "\n" + `{"timestamp":3,"input_length":3,"output_length":2}` + "\n", "auto",
			[]time.Duration{0, 1500 * time.Millisecond}, []int{1, 3}},
		"seconds by the flag": {`{"timestamp":1,"input_length":1,"output_length":2}` + "\n" + `{"timestamp":3,"input_length":3,"output_length":2}`, "s",
			[]time.Duration{0, 2 * time.Second}, []int{1, 3}},
		"Azure": {`{"TIMESTAMP":"2023-11-16 18:15:46.6805900","ContextTokens":374,"GeneratedTokens":44}` + "\n" + `{"TIMESTAMP":"2023-11-16 18:15:50.9805900","ContextTokens":396,"GeneratedTokens":109}`, "auto",
			[]time.Duration{0, 4300 * time.Millisecond}, []int{374, 396}},
	} {
		plan, err := readTrace(strings.NewReader(c.text), c.unit)
		if err != nil || len(plan) != len(c.at) {
			t.Errorf("%s: %+v, %v", name, plan, err)
			continue
		}
		for i, a := range plan {
			if (a.At-c.at[i]).Abs() > 2*time.Microsecond || a.Input != c.input[i] || a.Output < 1 {
				t.Errorf("%s: request %d is %+v", name, i, a)
			}
		}
	}
	for text, part := range map[string]string{
		"": "no request", "{}": "line 1", `{"timestamp":1,"input_length":1}`: "needs timestamp",
		`{"timestamp":1,"input_length":1,"output_length":1}` + "\n" + `{"timestamp":`:                                                           "line 2",
		`{"timestamp":"soon","input_length":1,"output_length":1}`:                                                                               "no time",
		`{"timestamp":1,"input_length":-1,"output_length":1}`:                                                                                   "negative",
		`{"timestamp":1,"input_length":1,"output_length":1}` + "\n" + `{"timestamp":"2026-01-01T00:00:00Z","input_length":1,"output_length":1}`: "some timestamps",
	} {
		if _, err := readTrace(strings.NewReader(text), "auto"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want something with %q", text, err, part)
		}
	}
}

func TestPromptsHaveTheirLengthAndShareNamedBlocks(t *testing.T) {
	a := replayPrompt(arrival{Input: 1500, Blocks: []int64{4, 9, 12}}, 1, 0)
	b := replayPrompt(arrival{Input: 1500, Blocks: []int64{4, 9, 13}}, 1, 1)
	if want := (1500 - templateTokens) * bytesPerToken; len(a) != want || len(b) != want {
		t.Errorf("%d and %d bytes, want %d", len(a), len(b), want)
	}
	shared := 2 * blockTokens * bytesPerToken
	if a[:shared] != b[:shared] || a[shared:] == b[shared:] {
		t.Error("two equal blocks make another prefix, or others the same text")
	}
	c, d := replayPrompt(arrival{Input: 100}, 1, 0), replayPrompt(arrival{Input: 100}, 1, 1)
	if c == d || c != replayPrompt(arrival{Input: 100}, 1, 0) {
		t.Error("prompts without blocks must differ from each other and not from run to run")
	}
}
