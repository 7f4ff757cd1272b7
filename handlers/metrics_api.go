package handlers

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// The API's answer. Percentiles are milliseconds and null without a sample; the KV
// cache is a fraction, and null when the engine does not report it.
type (
	apiMetrics struct {
		Deployment string     `json:"deployment"`
		From       time.Time  `json:"from"`
		To         time.Time  `json:"to"`
		StepS      int64      `json:"step_s"`
		Summary    apiSummary `json:"summary"`
		Series     apiSeries  `json:"series"`
		// Layers are all metrics of the catalogue, on the times in T.
		T      []time.Time                                    `json:"t"`
		Layers map[metrics.Layer]map[metrics.Name]apiMeasured `json:"layers"`
	}
	apiSummary struct {
		TTFT apiLatency `json:"ttft_ms"`
		ITL  apiLatency `json:"itl_ms"`
		E2E  apiLatency `json:"e2e_ms"`
		KV   apiGauge   `json:"kv_cache"`
	}
	apiLatency struct {
		P50 *float64 `json:"p50"`
		P90 *float64 `json:"p90"`
		P95 *float64 `json:"p95"`
		P99 *float64 `json:"p99"`
		N   int64    `json:"n"`
	}
	apiGauge struct {
		Average *float64 `json:"avg"`
		Peak    *float64 `json:"peak"`
	}
	apiSeries struct {
		TTFT apiLatencies `json:"ttft_ms"`
		ITL  apiLatencies `json:"itl_ms"`
		E2E  apiLatencies `json:"e2e_ms"`
		KV   apiGauges    `json:"kv_cache"`
	}
	apiLatencies struct {
		T   []time.Time `json:"t"`
		P50 []*float64  `json:"p50"`
		P90 []*float64  `json:"p90"`
		P95 []*float64  `json:"p95"`
		P99 []*float64  `json:"p99"`
		N   []int64     `json:"n"`
	}
	apiGauges struct {
		T       []time.Time `json:"t"`
		Average []*float64  `json:"avg"`
		Peak    []*float64  `json:"peak"`
	}
)

// JSON answers the API with the same numbers as the tab.
func (h *Metrics) JSON(c echo.Context) error {
	now := h.Now()
	d, err := h.visible(c)
	if err != nil {
		return err
	}
	w, err := apiWindow(c, now)
	if err != nil {
		return err
	}
	layers := visibleLayers(c)
	series, err := h.read(c, d.ID, layers, w, now)
	if err != nil {
		return err
	}
	kv, seen := series[metrics.KVCache]
	if !seen {
		if kv, err = metrics.SeriesOf(metrics.KVCache, w, nil); err != nil {
			return err
		}
	}
	return respond.JSON(c, http.StatusOK, apiMetrics{
		Deployment: d.Name, From: w.From, To: w.To, StepS: int64(w.Step / time.Second),
		Summary: apiSummary{
			TTFT: latencyOf(series[metrics.TTFT].Summary), ITL: latencyOf(series[metrics.ITL].Summary), E2E: latencyOf(series[metrics.E2E].Summary),
			KV: apiGauge{Average: rounded(kv.Summary.Average, 6), Peak: rounded(kv.Summary.Peak, 6)},
		},
		Series: apiSeries{
			TTFT: latenciesOf(series[metrics.TTFT]), ITL: latenciesOf(series[metrics.ITL]), E2E: latenciesOf(series[metrics.E2E]),
			KV: apiGauges{T: kv.Times, Average: allRounded(kv.Average, 6), Peak: allRounded(kv.Peak, 6)},
		},
		T: kv.Times, Layers: layersOf(layers, series),
	})
}

// visible finds the deployment that is asked for. A tenant sees the measurements of
// one that serves it alone: others are made of everybody's requests.
func (h *Metrics) visible(c echo.Context) (factory.Deployment, error) {
	scope, err := session.Scope(c)
	if err != nil {
		return factory.Deployment{}, err
	}
	d, err := h.Store.FindDeployment(c.Request().Context(), pathText(c, "name"))
	if err != nil || scope == "" || session.Person(c).Operator() {
		return d, err
	}
	if !d.SharedWith(scope) {
		return factory.Deployment{}, factory.Errorf(factory.NotFound, "There is no deployment of this name.")
	}
	if d.SharedWithAll || !slices.Equal(d.TenantIDs, []string{scope}) {
		return factory.Deployment{}, factory.Errorf(factory.Forbidden, "This deployment serves other tenants too, so its measurements are for operators. Your own requests are at /api/v1/requests.")
	}
	return d, nil
}

// apiWindow reads from, to and step; without them, the last hour.
func apiWindow(c echo.Context, now time.Time) (metrics.Window, error) {
	to, err := apiTime(c, "to", now)
	if err != nil {
		return metrics.Window{}, err
	}
	from, err := apiTime(c, "from", to.Add(-time.Hour))
	if err != nil {
		return metrics.Window{}, err
	}
	var step time.Duration
	if s := c.QueryParam("step"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 400*24*3600 {
			return metrics.Window{}, factory.Errorf(factory.Invalid, "step is a whole number of seconds, at least 1.")
		}
		step = time.Duration(n) * time.Second
	}
	if !from.Before(to) {
		return metrics.Window{}, factory.Errorf(factory.Invalid, "from must be before to.")
	}
	w, err := metrics.NewWindow(from, to, now, step)
	if err != nil {
		return metrics.Window{}, factory.Errorf(factory.Invalid, "No such steps can be shown: measurements are kept for 400 days, and a step is at most 4 days.")
	}
	return w, nil
}

func apiTime(c echo.Context, name string, otherwise time.Time) (time.Time, error) {
	s := c.QueryParam(name)
	if s == "" {
		return otherwise, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, factory.Errorf(factory.Invalid, "%s is a time such as 2026-11-30T12:00:00Z.", name)
	}
	return t.UTC(), nil
}

func latencyOf(s metrics.Summary) apiLatency {
	out := apiLatency{N: int64(math.Round(s.N))}
	for i, to := range []**float64{&out.P50, &out.P90, &out.P95, &out.P99} {
		if i < len(s.Q) {
			*to = rounded(s.Q[i], 3)
		}
	}
	return out
}

func latenciesOf(s metrics.Series) apiLatencies {
	out := apiLatencies{T: s.Times, N: make([]int64, len(s.N))}
	for i, n := range s.N {
		out.N[i] = int64(math.Round(n))
	}
	for i, to := range []*[]*float64{&out.P50, &out.P90, &out.P95, &out.P99} {
		*to = allRounded(s.Q[i], 3)
	}
	return out
}

func rounded(v *float64, digits int) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	f := math.Pow10(digits)
	r := math.Round(*v*f) / f
	return &r
}

func allRounded(vs []*float64, digits int) []*float64 {
	out := make([]*float64, len(vs))
	for i, v := range vs {
		out[i] = rounded(v, digits)
	}
	return out
}
