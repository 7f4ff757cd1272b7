//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report is what a run found.
type report struct {
	At        time.Time                      `json:"at"`
	Machine   machine                        `json:"machine"`
	Rounds    int                            `json:"rounds"`
	Targets   []string                       `json:"targets"`
	Scenarios []scenarioReport               `json:"scenarios"`
	Most      map[string][]int               `json:"most_streams"` // each search
	Goals     []goal                         `json:"goals"`
	Samples   map[string]map[string][]sample `json:"samples"`
}

type machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Cores int    `json:"cores"`
}

// scenarioReport has the medians over all rounds.
type scenarioReport struct {
	Name    string            `json:"name"`
	About   string            `json:"about"`
	Medians map[string]sample `json:"medians"` // by target
}

// goal is one of the numbers to reach.
type goal struct {
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Limit  float64 `json:"limit"`
	AtMost bool    `json:"at_most"` // or at least
	Met    bool    `json:"met"`
}

func (b *bench) report(most map[string][]int) *report {
	r := &report{
		At: b.begun.UTC().Truncate(time.Second), Machine: machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU()},
		Rounds: b.settings.rounds, Most: most, Samples: b.results,
	}
	for _, t := range b.targets {
		r.Targets = append(r.Targets, t.name)
	}
	for _, s := range scenarios(b.settings) {
		if b.results[s.name] == nil {
			continue
		}
		sr := scenarioReport{Name: s.name, About: s.about, Medians: map[string]sample{}}
		for name, samples := range b.results[s.name] {
			sr.Medians[name] = medians(samples)
		}
		r.Scenarios = append(r.Scenarios, sr)
	}
	r.judge()
	return r
}

func median[T int | float64](samples []sample, field func(sample) T) T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = field(s)
	}
	return middle(values)
}

func middle[T int | float64](values []T) T {
	values = slices.Clone(values)
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

func medians(s []sample) sample {
	errors := 0
	for _, one := range s {
		errors += one.Errors
	}
	return sample{
		Requests:  median(s, func(s sample) int { return s.Requests }),
		Errors:    errors, // of all rounds: a median would hide them
		PerSecond: median(s, func(s sample) float64 { return s.PerSecond }),
		P50MS:     median(s, func(s sample) float64 { return s.P50MS }),
		P99MS:     median(s, func(s sample) float64 { return s.P99MS }),
		DelayP50:  median(s, func(s sample) float64 { return s.DelayP50 }),
		DelayP99:  median(s, func(s sample) float64 { return s.DelayP99 }),
		CPU:       median(s, func(s sample) float64 { return s.CPU }),
		LoadCPU:   median(s, func(s sample) float64 { return s.LoadCPU }),
		EngineCPU: median(s, func(s sample) float64 { return s.EngineCPU }),
		RSS:       median(s, func(s sample) float64 { return s.RSS }),
		PSS:       median(s, func(s sample) float64 { return s.PSS }),
		LedgerMS:  median(s, func(s sample) float64 { return s.LedgerMS }),
	}
}

// judge compares with the numbers to reach. What was not measured is left out.
func (r *report) judge() {
	atMost := func(what string, value float64, unit string, limit float64) {
		r.Goals = append(r.Goals, goal{what, value, unit, limit, true, value <= limit})
	}
	atLeast := func(what string, value float64, unit string, limit float64) {
		r.Goals = append(r.Goals, goal{what, value, unit, limit, false, value >= limit})
	}
	for _, s := range r.Scenarios {
		base, hasBase := s.Medians[direct]
		proxy, hasProxy := s.Medians[bare]
		own, hasOwn := s.Medians[gateway]
		if !hasBase || !hasProxy || !hasOwn {
			continue
		}
		switch s.Name {
		case "single":
			atMost("added p50 of one request, times the Go proxy's", (own.P50MS-base.P50MS)/(proxy.P50MS-base.P50MS), "", 1.5)
			atMost("added p50 of one request", own.P50MS-base.P50MS, "ms", 0.3)
		case "plain":
			atLeast("throughput, times the Go proxy's", own.PerSecond/proxy.PerSecond, "", 0.8)
			atMost("CPU for 1,000 requests", own.CPU, "s", 0.10)
		case "open":
			atMost("errors with many open streams", float64(own.Errors), "", 0)
			atMost("added p99 delay of events, times the Go proxy's", (own.DelayP99-base.DelayP99)/(proxy.DelayP99-base.DelayP99), "", 1.2)
			atMost("memory per stream (PSS)", own.PSS, "KiB", 60)
		}
	}
	if own := r.Most[gateway]; len(own) > 0 {
		for _, other := range []string{bare, nginx} {
			if theirs := r.Most[other]; len(theirs) > 0 {
				atLeast("most streams with p99 delay < 20 ms, against "+other, float64(middle(own)), "", float64(middle(theirs)))
			}
		}
	}
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s/%s, %d cores shared by load, engine and target; medians of %d rounds.\n", r.Machine.OS, r.Machine.Arch, r.Machine.Cores, r.Rounds)
	for _, s := range r.Scenarios {
		fmt.Fprintf(w, "\n%s\n", s.About)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		s.table(tw, r.Targets)
		tw.Flush()
	}
	if len(r.Most) > 0 {
		fmt.Fprintf(w, "\nmost streams at one event per 20 ms with p99 delay under 20 ms\n")
		for _, name := range r.Targets {
			fmt.Fprintf(w, "  %-10s %5d   (%v)\n", name, middle(r.Most[name]), r.Most[name])
		}
	}
	if len(r.Goals) == 0 {
		return
	}
	fmt.Fprintln(w, "\ngoals")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range r.Goals {
		sign, word := "≥", "missed"
		if g.AtMost {
			sign = "≤"
		}
		if g.Met {
			word = "met"
		}
		fmt.Fprintf(tw, "  %s\t%.3g %s\t%s %.4g\t%s\n", g.What, g.Value, g.Unit, sign, g.Limit, word)
	}
	tw.Flush()
}

// table prints what says something in this scenario.
func (s scenarioReport) table(w io.Writer, targets []string) {
	events := s.Name == "open" || s.Name == "paced"
	fmt.Fprint(w, "  target\terrors\t")
	switch {
	case events:
		fmt.Fprint(w, "answers\tdelay p50 ms\tdelay p99 ms\tadded p99\t")
	default:
		fmt.Fprint(w, "answers/s\tof direct\tp50 ms\tp99 ms\tadded p50\tadded p99\t")
	}
	if s.Name == "open" {
		fmt.Fprint(w, "KiB/stream RSS\tPSS\t")
	}
	fmt.Fprintln(w, "CPU s/1000\tload CPU\tengine CPU\tledger ms\t")
	base := s.Medians[direct]
	for _, name := range targets {
		m, ok := s.Medians[name]
		if !ok {
			continue
		}
		fmt.Fprintf(w, "  %s\t%d\t", name, m.Errors)
		if events {
			fmt.Fprintf(w, "%d\t%.2f\t%.2f\t%.2f\t", m.Requests, m.DelayP50, m.DelayP99, m.DelayP99-base.DelayP99)
		} else {
			ratio := 0.0
			if base.PerSecond > 0 {
				ratio = m.PerSecond / base.PerSecond
			}
			fmt.Fprintf(w, "%.0f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t", m.PerSecond, ratio, m.P50MS, m.P99MS, m.P50MS-base.P50MS, m.P99MS-base.P99MS)
		}
		if s.Name == "open" {
			fmt.Fprintf(w, "%.0f\t%.0f\t", m.RSS, m.PSS)
		}
		fmt.Fprintf(w, "%.3f\t%.2f\t%.2f\t%.0f\t\n", m.CPU, m.LoadCPU, m.EngineCPU, m.LedgerMS)
	}
}

func (r *report) save(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
