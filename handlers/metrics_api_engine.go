package handlers

import (
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/metrics"
)

// What the engines say of themselves over the whole window, from their own histograms:
// a percentile that those are too coarse for is a bound.
type (
	apiEngine struct {
		TTFT    apiEstimates `json:"ttft_ms"`
		ITL     apiEstimates `json:"itl_ms"`
		E2E     apiEstimates `json:"e2e_ms"`
		Queue   apiEstimates `json:"queue_ms"`
		Prefill apiEstimates `json:"prefill_ms"`
		// Tokens are null where the engine does not count them.
		Prompt *float64 `json:"prompt_tokens"`
		Output *float64 `json:"completion_tokens"`
	}
	apiEstimates struct {
		N       float64          `json:"n"`
		Average *float64         `json:"avg"`
		P50     metrics.Estimate `json:"p50"`
		P90     metrics.Estimate `json:"p90"`
		P95     metrics.Estimate `json:"p95"`
		P99     metrics.Estimate `json:"p99"`
	}
)

var saidByEngines = []metrics.Name{
	metrics.EngineTTFT, metrics.EngineITL, metrics.EngineE2E, metrics.EngineQueue, metrics.EnginePrefill, metrics.PromptTokens, metrics.GenerationTokens,
}

// engine reads what the engines say. They do not tell tenants apart, so it is of
// everybody's requests, whoever else is asked about.
func (h *Metrics) engine(c echo.Context, deploymentID string, of traffic, w metrics.Window, now time.Time) (*apiEngine, error) {
	buckets, err := traffic{ReplicaID: of.ReplicaID}.fills(c.Request().Context(), h.Store, deploymentID, saidByEngines, w, now)
	if err != nil {
		return nil, err
	}
	series, err := seriesOf(saidByEngines, w, buckets)
	if err != nil {
		return nil, err
	}
	estimates := func(name metrics.Name) apiEstimates {
		s := series[name].Summary
		out := apiEstimates{N: s.N, Average: rounded(s.Average, 6)}
		for i, to := range []*metrics.Estimate{&out.P50, &out.P90, &out.P95, &out.P99} {
			*to = s.Estimates[i]
		}
		return out
	}
	counted := func(name metrics.Name) *float64 {
		if s := series[name].Summary; s.N > 0 {
			return &s.Sum
		}
		return nil
	}
	return &apiEngine{
		TTFT: estimates(metrics.EngineTTFT), ITL: estimates(metrics.EngineITL), E2E: estimates(metrics.EngineE2E),
		Queue: estimates(metrics.EngineQueue), Prefill: estimates(metrics.EnginePrefill),
		Prompt: counted(metrics.PromptTokens), Output: counted(metrics.GenerationTokens),
	}, nil
}
