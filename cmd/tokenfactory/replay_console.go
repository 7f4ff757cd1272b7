package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tokenfactory/metrics"
)

// replayConsole reads what the factory says of the requests that were sent.
type replayConsole struct {
	HTTP  *http.Client
	Base  string
	Token string
}

// replayRow is a row of the ledger, as far as it is compared.
type replayRow struct {
	ID         string    `json:"id"`
	Time       time.Time `json:"time"`
	KeyID      string    `json:"key_id"`
	Deployment string    `json:"deployment"`
	Status     int       `json:"status"`
	Flags      string    `json:"flags"`
	Prompt     int64     `json:"prompt_tokens"`
	Output     int64     `json:"completion_tokens"`
	QueueMS    *float64  `json:"queue_ms"`
	TTFTMS     *float64  `json:"ttft_ms"`
	E2EMS      *float64  `json:"e2e_ms"`
}

// shownLatency is a metric's percentiles as the dashboard has them.
type shownLatency struct {
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
	P95 *float64 `json:"p95"`
	P99 *float64 `json:"p99"`
	N   int64    `json:"n"`
}

// at are the percentiles in the order of metrics.Percentiles.
func (l shownLatency) at(i int) *float64 { return []*float64{l.P50, l.P90, l.P95, l.P99}[i] }

// shownMetrics is the dashboard over one window.
type shownMetrics struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	StepS   int64     `json:"step_s"`
	KeyID   string    `json:"key_id"` // set where the figures are of this key alone
	Summary struct {
		TTFT shownLatency `json:"ttft_ms"`
		ITL  shownLatency `json:"itl_ms"`
		E2E  shownLatency `json:"e2e_ms"`
	} `json:"summary"`
	Engine *shownEngine `json:"engine"` // what the engines say; for operators alone
}

// shownEngine is what the engines said of everybody's requests, as the console has it.
type shownEngine struct {
	TTFT   shownTime `json:"ttft_ms"`
	ITL    shownTime `json:"itl_ms"`
	E2E    shownTime `json:"e2e_ms"`
	Prompt *float64  `json:"prompt_tokens"`
	Output *float64  `json:"completion_tokens"`
}

type shownTime struct {
	N       float64          `json:"n"`
	Average *float64         `json:"avg"`
	P50     metrics.Estimate `json:"p50"`
	P90     metrics.Estimate `json:"p90"`
	P95     metrics.Estimate `json:"p95"`
	P99     metrics.Estimate `json:"p99"`
}

func (s shownTime) time() engineTime {
	return engineTime{N: s.N, Mean: s.Average, Q: []metrics.Estimate{s.P50, s.P90, s.P95, s.P99}}
}

func (s shownEngine) said() *engineSaid {
	return &engineSaid{Prompt: s.Prompt, Output: s.Output, Times: map[metrics.Name]engineTime{
		metrics.EngineTTFT: s.TTFT.time(), metrics.EngineITL: s.ITL.time(), metrics.EngineE2E: s.E2E.time(),
	}}
}

// end is where the last step of the window ends: the figures of a step are of all of it.
func (m shownMetrics) end(asked time.Time) time.Time {
	step := time.Duration(m.StepS) * time.Second
	if step <= 0 || !m.From.Before(asked) {
		return asked
	}
	return m.From.Add((asked.Sub(m.From) + step - 1) / step * step)
}

func (m shownMetrics) latency(n metrics.Name) shownLatency {
	switch n {
	case metrics.TTFT:
		return m.Summary.TTFT
	case metrics.ITL:
		return m.Summary.ITL
	}
	return m.Summary.E2E
}

func (c *replayConsole) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.Base, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("reach the console: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("read the console's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", path, refusal(resp.Status, answer))
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("understand the console's answer: %w", err)
	}
	return nil
}

// rows reads the ledger from one moment to another.
func (c *replayConsole) rows(ctx context.Context, from, to time.Time) ([]replayRow, error) {
	query := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}, "to": {to.UTC().Format(time.RFC3339Nano)}, "limit": {"1000"}}
	var out []replayRow
	for {
		var page struct {
			Rows []replayRow `json:"rows"`
			Next string      `json:"next"`
		}
		if err := c.get(ctx, "/api/v1/requests", query, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Rows...)
		if page.Next == "" {
			return out, nil
		}
		query.Set("cursor", page.Next)
	}
}

// metrics reads the dashboard. The key is a wish: an answer without its name is of
// everybody's requests.
func (c *replayConsole) metrics(ctx context.Context, deployment, keyID string, from, to time.Time) (shownMetrics, error) {
	query := url.Values{"from": {from.UTC().Format(time.RFC3339)}, "to": {to.UTC().Format(time.RFC3339)}}
	if keyID != "" {
		query.Set("key", keyID)
	}
	var out shownMetrics
	err := c.get(ctx, "/api/v1/deployments/"+url.PathEscape(deployment)+"/metrics", query, &out)
	return out, err
}

// ledgerSlack is how far the clocks of this machine and of the factory may be apart.
const ledgerSlack = 5 * time.Minute

// settled waits until the ledger has a row for each of the ids, or for patience. What it
// has then is the answer either way: a row that never comes is a finding.
func (c *replayConsole) settled(ctx context.Context, ids map[string]bool, from, to time.Time, patience time.Duration) ([]replayRow, error) {
	deadline := time.Now().Add(patience)
	for {
		rows, err := c.rows(ctx, from.Add(-ledgerSlack), to.Add(ledgerSlack))
		if err != nil {
			return nil, err
		}
		have := 0
		for _, r := range rows {
			if ids[r.ID] {
				have++
			}
		}
		if have >= len(ids) || time.Now().After(deadline) {
			slices.SortFunc(rows, func(a, b replayRow) int { return a.Time.Compare(b.Time) })
			return rows, nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// shown waits until the dashboard counts at least n requests, or for patience.
func (c *replayConsole) shown(ctx context.Context, deployment, keyID string, from, to time.Time, n int64, patience time.Duration) (shownMetrics, error) {
	deadline := time.Now().Add(patience)
	for {
		m, err := c.metrics(ctx, deployment, keyID, from, to)
		if err != nil || m.Summary.E2E.N >= n || time.Now().After(deadline) {
			return m, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return m, err
		}
	}
}

// engine waits until the engines' own figures, which agents read every few seconds, are of
// at least n first tokens, or for patience. They are nil for who may not see them.
func (c *replayConsole) engine(ctx context.Context, deployment string, from, to time.Time, n int64, patience time.Duration) (*engineSaid, error) {
	deadline := time.Now().Add(patience)
	for {
		m, err := c.metrics(ctx, deployment, "", from, to)
		if err != nil || m.Engine == nil {
			return nil, err
		}
		if m.Engine.TTFT.N >= float64(n) || time.Now().After(deadline) {
			said := m.Engine.said()
			said.From, said.To = m.From, m.end(to)
			return said, nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
