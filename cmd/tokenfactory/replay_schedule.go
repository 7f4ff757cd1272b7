package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// arrival is one request of a replay: when it is due after the start, and how long its
// prompt and its answer are.
type arrival struct {
	At     time.Duration
	Input  int // tokens
	Output int
	// Blocks name parts of the prompt that are the same wherever the name is: conversations
	// that share a prefix share its blocks.
	Blocks []int64
}

// mostArrivals bounds a synthetic schedule, whose length is a product of two flags.
const mostArrivals = 5_000_000

// tokenRange is a number of tokens, or two between which all are as likely.
type tokenRange struct{ From, To int }

// UnmarshalText reads 200 or 50-200.
func (r *tokenRange) UnmarshalText(text []byte) error {
	first, last, isRange := strings.Cut(string(text), "-")
	if !isRange {
		last = first
	}
	var err1, err2 error
	r.From, err1 = strconv.Atoi(first)
	r.To, err2 = strconv.Atoi(last)
	if err1 != nil || err2 != nil || r.From < 1 || r.To < r.From || r.To > 10_000_000 {
		return fmt.Errorf("%q is no number of tokens; write 200, or a range such as 50-200", text)
	}
	return nil
}

func (r tokenRange) draw(rnd *rand.Rand) int { return r.From + rnd.IntN(r.To-r.From+1) }

// pattern is how synthetic requests arrive.
type pattern struct {
	Kind string // poisson, constant, burst or ramp
	Rate float64
}

// parsePattern reads KIND:RATE/s.
func parsePattern(text string) (pattern, error) {
	kind, rate, _ := strings.Cut(text, ":")
	perSecond, err := strconv.ParseFloat(strings.TrimSuffix(rate, "/s"), 64)
	if err != nil || !(perSecond > 0 && perSecond <= 1e5) {
		return pattern{}, fmt.Errorf("%q has no rate; write one such as poisson:10/s", text)
	}
	switch kind {
	case "poisson", "constant", "burst", "ramp":
		return pattern{kind, perSecond}, nil
	}
	return pattern{}, fmt.Errorf("there is no arrival pattern %q; there are poisson, constant, burst and ramp", kind)
}

// synthetic makes a schedule of n requests, or of those that fall into a time. The same
// seed makes the same schedule.
func (p pattern) synthetic(n int, within time.Duration, input, output tokenRange, seed uint64) ([]arrival, error) {
	none := fmt.Errorf("no request falls into %s at %g per second", within, p.Rate)
	if n == 0 && within <= 0 {
		return nil, none // it would have no end
	}
	if p.Kind == "ramp" && n == 0 {
		if n = int(p.Rate * within.Seconds() / 2); n == 0 {
			return nil, none
		}
	}
	if n > mostArrivals || within.Seconds()*p.Rate > mostArrivals {
		return nil, fmt.Errorf("that is more than %d requests", mostArrivals)
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	var out []arrival
	at := 0.0 // seconds
	for i := 0; n == 0 || i < n; i++ {
		switch p.Kind {
		case "poisson":
			at += rnd.ExpFloat64() / p.Rate
		case "constant":
			at = float64(i) / p.Rate
		case "burst": // all of a second's requests at its start
			at = float64(i / max(1, int(math.Round(p.Rate))))
		case "ramp": // from nothing to the rate, evenly
			at = 2 * float64(n) / p.Rate * math.Sqrt(float64(i)/float64(n))
		}
		due := time.Duration(at * float64(time.Second))
		if within > 0 && due >= within {
			break
		}
		out = append(out, arrival{At: due, Input: input.draw(rnd), Output: output.draw(rnd)})
	}
	if len(out) == 0 {
		return nil, none
	}
	return out, nil
}
