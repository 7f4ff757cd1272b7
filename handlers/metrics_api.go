package handlers

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// The API's answer. Percentiles are milliseconds and null without a sample; the KV
// cache is a fraction, and null when the engine does not report it.
type (
	apiMetrics struct {
		Deployment string     `json:"deployment"`
		TenantID   string     `json:"tenant_id,omitempty"` // whose requests alone the figures are of
		KeyID      string     `json:"key_id,omitempty"`
		From       time.Time  `json:"from"`
		To         time.Time  `json:"to"`
		StepS      int64      `json:"step_s"`
		Summary    apiSummary `json:"summary"`
		Series     apiSeries  `json:"series"`
		// Layers are all metrics of the catalogue, on the times in T.
		T      []time.Time                                    `json:"t"`
		Layers map[metrics.Layer]map[metrics.Name]apiMeasured `json:"layers"`
		// Engine is what the engines say of everybody's requests; for operators.
		Engine *apiEngine `json:"engine,omitempty"`
		// Diagnosis and Budget are of the deployment as a whole; for operators.
		Diagnosis *slo.Diagnosis `json:"diagnosis,omitempty"`
		Budget    *apiBudget     `json:"budget,omitempty"`
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
	d, of, err := h.apiAsked(c)
	if err != nil {
		return err
	}
	w, err := apiWindow(c, now, of.leastStep())
	if err != nil {
		return err
	}
	layers := visibleLayers(of)
	series, err := h.read(c, d.ID, of, layers, w, now)
	if err != nil {
		return err
	}
	var engine *apiEngine
	if session.Person(c).Operator() {
		if engine, err = h.engine(c, d.ID, of, w, now); err != nil {
			return err
		}
	}
	kv, seen := series[metrics.KVCache]
	if !seen {
		if kv, err = metrics.SeriesOf(metrics.KVCache, w, nil); err != nil {
			return err
		}
	}
	out := apiMetrics{
		Deployment: d.Name, TenantID: of.TenantID, KeyID: of.KeyID, From: w.From, To: w.To, StepS: int64(w.Step / time.Second),
		Summary: apiSummary{
			TTFT: latencyOf(series[metrics.TTFT].Summary), ITL: latencyOf(series[metrics.ITL].Summary), E2E: latencyOf(series[metrics.E2E].Summary),
			KV: apiGauge{Average: rounded(kv.Summary.Average, 6), Peak: rounded(kv.Summary.Peak, 6)},
		},
		Series: apiSeries{
			TTFT: latenciesOf(series[metrics.TTFT]), ITL: latenciesOf(series[metrics.ITL]), E2E: latenciesOf(series[metrics.E2E]),
			KV: apiGauges{T: kv.Times, Average: allRounded(kv.Average, 6), Peak: allRounded(kv.Peak, 6)},
		},
		T: kv.Times, Layers: layersOf(layers, series), Engine: engine,
	}
	if err := h.judged(c, &out, d, of, w, series, now); err != nil {
		return err
	}
	return respond.JSON(c, http.StatusOK, out)
}

// apiAsked is the deployment and the traffic that a program asks for. A tenant reads its
// own requests and no others, of what is shared with it or has served it.
func (h *Metrics) apiAsked(c echo.Context) (d factory.Deployment, of traffic, err error) {
	ctx, ref, keyID := c.Request().Context(), pathText(c, "name"), c.QueryParam("key")
	scope, err := session.Scope(c)
	if err != nil {
		return d, of, err
	}
	if session.Person(c).Operator() {
		if d, err = h.Store.FindDeployment(ctx, ref); err == nil {
			of, err = narrow(ctx, h.Store, scope, keyID)
		}
	} else if d, err = h.Store.TenantDeployment(ctx, scope, ref); err == nil {
		of, err = ofKey(ctx, h.Store, scope, keyID)
	}
	if err != nil {
		return d, of, err
	}
	if of.ReplicaID = c.QueryParam("replica"); of.ReplicaID != "" && of.TenantID != "" {
		return d, of, factory.Errorf(factory.Invalid, "What a tenant or a key did is not kept by replica. Leave replica out.")
	}
	return d, of, nil
}

// apiWindow reads from, to and step; without them, the last hour. Steps are not finer than
// the least.
func apiWindow(c echo.Context, now time.Time, least time.Duration) (metrics.Window, error) {
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
	w, err := metrics.NewWindow(from, to, now, max(step, least))
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
