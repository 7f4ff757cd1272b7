package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/store"
	tab "tokenfactory/views/metrics"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Metrics shows what was measured of a deployment, as a tab and as JSON.
type Metrics struct {
	Store     *store.Store
	Now       func() time.Time
	PublicURL string
}

// Show is the Metrics tab. The page's script asks for its live part only.
func (h *Metrics) Show(c echo.Context) error {
	var query tab.Query
	if err := c.Bind(&query); err != nil {
		return err
	}
	ctx, now := c.Request().Context(), h.Now()
	window, errs := windowOf(&query, now, session.Zone(c))
	query.Errors = errs
	d, err := readDeployment(ctx, h.Store, c.Param("id"), now)
	if err != nil {
		return err
	}
	t := tab.Tab{Deployment: d.Deployment, Query: query, Window: window, Now: now, ZoneName: session.Zone(c).String()}
	if t.Panels, err = h.panels(ctx, d.Deployment, window, now); err != nil {
		return err
	}
	if t.LastRequest, err = lastAt(ctx, h.Store, d.ID, metrics.E2E); err != nil {
		return err
	}
	endpoint, err := h.Store.Endpoint(ctx, d.EndpointID)
	if err != nil {
		return err
	}
	t.BaseURL = endpoint.BaseURL(baseURL(c, h.PublicURL))
	if respond.IsHTMX(c) {
		return respond.Fragment(c, http.StatusOK, tab.Live(t))
	}
	v := d.page(tabMetrics)
	v.Charts, v.Wide, v.Body = true, true, tab.Show(t)
	if len(errs) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Page(c, v)
}

// windowOf reads the range that is asked for. What cannot be read becomes the
// default range, with messages at the fields.
func windowOf(q *tab.Query, now time.Time, zone *time.Location) (metrics.Window, factory.FieldErrors) {
	if q.View != "table" {
		q.View = ""
	}
	chosen, ok := tab.FindRange(q.Range)
	if !ok {
		q.Range = tab.DefaultRange
		chosen, _ = tab.FindRange(q.Range)
	}
	from, to, errs := now.Add(-chosen.Span), now, factory.FieldErrors{}
	if q.Custom() {
		from, to = customRange(q, now, zone, errs)
	}
	if len(errs) == 0 {
		w, err := metrics.NewWindow(from, to, now, 0)
		if err == nil {
			return w, nil
		}
		errs.Add("from", "Measurements are kept for 400 days. Choose a later beginning.")
	}
	w, err := metrics.NewWindow(now.Add(-chosen.Span), now, now, 0)
	if err != nil {
		panic(err) // every choice of the picker has a window
	}
	return w, errs
}

func customRange(q *tab.Query, now time.Time, zone *time.Location, errs factory.FieldErrors) (from, to time.Time) {
	const typed = "2006-01-02T15:04"
	from, err := time.ParseInLocation(typed, q.From, zone)
	if err != nil {
		errs.Add("from", "Choose a day and a time.")
	}
	to, err = time.ParseInLocation(typed, q.To, zone)
	if err != nil {
		errs.Add("to", "Choose a day and a time.")
	}
	if len(errs) > 0 {
		return from, to
	}
	switch {
	case !from.Before(to):
		errs.Add("to", "The end must come after the beginning.")
	case from.After(now):
		errs.Add("from", "This lies in the future. Choose an earlier beginning.")
	}
	return from, to
}

func (h *Metrics) panels(ctx context.Context, d factory.Deployment, w metrics.Window, now time.Time) ([]tab.Panel, error) {
	series, err := readSeries(ctx, h.Store, d.ID, w, now)
	if err != nil {
		return nil, err
	}
	previous, err := readSummaries(ctx, h.Store, d.ID, w.Previous())
	if err != nil {
		return nil, err
	}
	var out []tab.Panel
	for _, name := range chartNames {
		m, _ := metrics.Find(name)
		p := tab.Panel{
			Metric: m, Series: series[m.Name], Previous: previous[m.Name],
			Objective: slo.ObjectiveOf(d.DeploymentSpec, m.Name),
		}
		if m.Shape == metrics.Gauge && p.Series.Summary.N == 0 {
			if p.Absent, err = h.absent(ctx, d, m, series[metrics.E2E].Summary.N > 0); err != nil {
				return nil, err
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// absent says why a gauge of the engine has no samples.
func (h *Metrics) absent(ctx context.Context, d factory.Deployment, m metrics.Metric, traffic bool) (string, error) {
	last, err := lastAt(ctx, h.Store, d.ID, m.Name)
	if err != nil || last != nil {
		return "", err
	}
	if !traffic {
		return "Not reported yet: the agent reads it from the engine once that runs.", nil
	}
	return "Not reported by this engine. The gateway's figures do not depend on it.", nil
}
