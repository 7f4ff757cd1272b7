package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"time"
)

// traceLine has the names under which public traces of inference keep what they saw:
// those of Mooncake first, those of Azure second.
type traceLine struct {
	Timestamp json.RawMessage `json:"timestamp"`
	Input     *int            `json:"input_length"`
	Output    *int            `json:"output_length"`
	Blocks    []int64         `json:"hash_ids"`

	AzureInput  *int `json:"ContextTokens"`
	AzureOutput *int `json:"GeneratedTokens"`
}

// readTrace reads JSON lines. Times are moments, seconds or milliseconds: auto takes
// whole numbers as milliseconds and fractions as seconds, as such traces have them. The
// earliest request is due at once.
func readTrace(r io.Reader, unit string) ([]arrival, error) {
	lines := bufio.NewReader(r)
	var out []arrival
	var times []float64 // seconds, or whatever the numbers are
	numbers, fractions := 0, 0
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			a, at, isNumber, err := readTraceLine(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			if isNumber {
				numbers++
				if at != math.Trunc(at) {
					fractions++
				}
			}
			out, times = append(out, a), append(times, at)
		}
		if err == io.EOF {
			break
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no request in it")
	}
	if numbers != 0 && numbers != len(out) {
		return nil, fmt.Errorf("some timestamps are numbers and some are not")
	}
	scale := float64(time.Second)
	if numbers > 0 && (unit == "ms" || unit == "auto" && fractions == 0) {
		scale = float64(time.Millisecond)
	}
	first := times[0]
	for _, t := range times {
		first = min(first, t)
	}
	for i := range out {
		after := (times[i] - first) * scale
		if after > float64(400*24*time.Hour) {
			return nil, fmt.Errorf("the trace is longer than 400 days; are its times of another unit?")
		}
		out[i].At = time.Duration(after)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].At < out[j].At })
	return out, nil
}

func readTraceLine(line []byte) (a arrival, at float64, isNumber bool, err error) {
	var l traceLine
	if err := json.Unmarshal(line, &l); err != nil {
		return a, 0, false, fmt.Errorf("no JSON object of a trace: %w", err)
	}
	if l.Input == nil {
		l.Input = l.AzureInput
	}
	if l.Output == nil {
		l.Output = l.AzureOutput
	}
	if l.Input == nil || l.Output == nil || len(l.Timestamp) == 0 {
		return a, 0, false, fmt.Errorf("it needs timestamp, input_length and output_length, or TIMESTAMP, ContextTokens and GeneratedTokens")
	}
	if *l.Input < 0 || *l.Output < 0 {
		return a, 0, false, fmt.Errorf("lengths must not be negative")
	}
	// Traces have requests that were given up before a token; they are sent for one.
	a = arrival{Input: max(1, *l.Input), Output: max(1, *l.Output), Blocks: l.Blocks}
	if json.Unmarshal(l.Timestamp, &at) == nil {
		return a, at, true, nil
	}
	var text string
	if err := json.Unmarshal(l.Timestamp, &text); err != nil {
		return a, 0, false, fmt.Errorf("timestamp is neither a number nor a time")
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return a, float64(t.UnixMicro()) / 1e6, false, nil
		}
	}
	return a, 0, false, fmt.Errorf("timestamp %q is no time", text)
}
