package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/metrics"
)

// engineSaid is what the engines say of themselves: counted between two readings of their
// pages or, as the console has it, in its window. Either is of everybody's requests.
type engineSaid struct {
	From, To       time.Time
	Times          map[metrics.Name]engineTime
	Prompt, Output *float64
}

// engineTime is one of the engines' histograms, in milliseconds.
type engineTime struct {
	N    float64
	Mean *float64
	Q    []metrics.Estimate // in the order of metrics.Percentiles
}

func engineTimeOf(h metrics.Histogram) engineTime {
	out := engineTime{N: h.Count, Mean: h.Mean()}
	for _, q := range metrics.Percentiles {
		out.Q = append(out.Q, h.Quantile(q))
	}
	return out
}

// readPages reads the metrics pages of engines.
func readPages(ctx context.Context, c *http.Client, urls []string) ([]engines.Reading, error) {
	out := make([]engines.Reading, len(urls))
	for i, u := range urls {
		if !strings.HasSuffix(u, "metrics") {
			u = strings.TrimRight(u, "/") + "/metrics"
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", engines.AcceptMetrics)
		resp, err := c.Do(req)
		if err != nil {
			return nil, fmt.Errorf("read the engine's metrics: %w", err)
		}
		out[i], err = engines.ReadAny(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %s", u, resp.Status)
		}
		if err != nil {
			return nil, fmt.Errorf("read the metrics page at %s: %w", u, err)
		}
	}
	return out, nil
}

// between adds up what each engine did between its two readings.
func between(before, after []engines.Reading) engineSaid {
	said := engineSaid{Times: map[metrics.Name]engineTime{}}
	sums := map[metrics.Name]metrics.Histogram{}
	for i := range after {
		d := engines.Delta(before[i], after[i])
		for name, h := range d.Histograms {
			h = h.Scale(1000)
			if have, ok := sums[name]; ok {
				h = have.Add(h)
			}
			sums[name] = h
		}
		said.Prompt = plus(said.Prompt, d.PromptTokens)
		said.Output = plus(said.Output, d.GenerationTokens)
	}
	for name, h := range sums {
		said.Times[name] = engineTimeOf(h)
	}
	return said
}

func plus(sum, more *float64) *float64 {
	if sum == nil || more == nil {
		if sum == nil {
			return more
		}
		return sum
	}
	total := *sum + *more
	return &total
}

// estimateText writes a percentile of a histogram with what its bounds can tell.
func estimateText(e metrics.Estimate) string {
	switch {
	case e.Above != nil:
		return "> " + milliText(*e.Above)
	case e.AtMost != nil:
		return "≤ " + milliText(*e.AtMost)
	case e.Value != nil:
		return "≈ " + milliText(*e.Value)
	}
	return "–"
}

// milliText writes milliseconds as people read them.
func milliText(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
