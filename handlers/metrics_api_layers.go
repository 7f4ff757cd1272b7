package handlers

import (
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/metrics"
)

// apiMeasured is one metric of a layer. Which figures it has follows from its shape; a
// metric that was not measured in the range has null for its series.
type (
	apiMeasured struct {
		Unit    string     `json:"unit"`
		Summary apiFigures `json:"summary"`
		Series  *apiSteps  `json:"series"`
	}
	apiFigures struct {
		N       float64             `json:"n"`
		Average *float64            `json:"avg,omitempty"`
		Peak    *float64            `json:"peak,omitempty"`
		Sum     *float64            `json:"sum,omitempty"`
		Values  map[string]*float64 `json:"percentiles,omitempty"`
		// Estimates are percentiles of an engine's histogram, with the bound where the
		// histogram is too coarse to tell the value.
		Estimates map[string]metrics.Estimate `json:"estimates,omitempty"`
	}
	apiSteps struct {
		N         []float64                     `json:"n"`
		Average   []*float64                    `json:"avg,omitempty"`
		Peak      []*float64                    `json:"peak,omitempty"`
		Sum       []*float64                    `json:"sum,omitempty"`
		Values    map[string][]*float64         `json:"percentiles,omitempty"`
		Estimates map[string][]metrics.Estimate `json:"estimates,omitempty"`
	}
)

var percentileKeys = []string{"p50", "p90", "p95", "p99"}

// visibleLayers are the layers that there are of somebody's traffic. Engines do not tell
// tenants apart, and what they do is the operators' own.
func visibleLayers(of traffic) []metrics.Layer {
	if of.TenantID != "" {
		return []metrics.Layer{metrics.UserLayer, metrics.WorkloadLayer}
	}
	return []metrics.Layer{metrics.UserLayer, metrics.WorkloadLayer, metrics.InfrastructureLayer}
}

// read reads the metrics of some layers.
func (h *Metrics) read(c echo.Context, deploymentID string, of traffic, layers []metrics.Layer, w metrics.Window, now time.Time) (map[metrics.Name]metrics.Series, error) {
	names := namesOf(layers...)
	buckets, err := of.fills(c.Request().Context(), h.Store, deploymentID, names, w, now)
	if err != nil {
		return nil, err
	}
	return seriesOf(names, w, buckets)
}

func layersOf(layers []metrics.Layer, series map[metrics.Name]metrics.Series) map[metrics.Layer]map[metrics.Name]apiMeasured {
	out := map[metrics.Layer]map[metrics.Name]apiMeasured{}
	for _, layer := range layers {
		out[layer] = map[metrics.Name]apiMeasured{}
		for _, name := range namesOf(layer) {
			m, _ := metrics.Find(name)
			out[layer][name] = measuredOf(m, series[name])
		}
	}
	return out
}

func measuredOf(m metrics.Metric, s metrics.Series) apiMeasured {
	out := apiMeasured{Unit: m.Unit, Summary: apiFigures{N: s.Summary.N, Average: rounded(s.Summary.Average, 6), Peak: rounded(s.Summary.Peak, 6)}}
	steps := &apiSteps{N: s.N}
	if s.Average != nil {
		steps.Average = allRounded(s.Average, 6)
	}
	switch m.Shape {
	case metrics.Distribution:
		out.Summary.Values, steps.Values = map[string]*float64{}, map[string][]*float64{}
		for p, key := range percentileKeys {
			out.Summary.Values[key], steps.Values[key] = rounded(s.Summary.Q[p], 3), allRounded(s.Q[p], 3)
		}
	case metrics.Bucketed:
		out.Summary.Estimates, steps.Estimates = map[string]metrics.Estimate{}, map[string][]metrics.Estimate{}
		for p, key := range percentileKeys {
			out.Summary.Estimates[key], steps.Estimates[key] = s.Summary.Estimates[p], s.Estimates[p]
		}
	case metrics.Gauge:
		steps.Peak = allRounded(s.Peak, 6)
	case metrics.Counter:
		if s.Summary.N > 0 {
			out.Summary.Sum = rounded(&s.Summary.Sum, 6)
		}
		steps.Sum = allRounded(s.Sum, 6)
	}
	if s.Summary.N > 0 {
		out.Series = steps
	}
	return out
}
