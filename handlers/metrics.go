package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
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
	// Events are the marks on charts; nil where none are kept.
	Events EventReader
}

// EventReader finds what happened to a deployment in a range of time.
type EventReader interface {
	Events(ctx context.Context, deploymentID string, from, to time.Time) ([]factory.Event, error)
}

// Show is the Metrics tab. The page's script asks for its live part only.
func (h *Metrics) Show(c echo.Context) error {
	var query tab.Query
	if err := c.Bind(&query); err != nil {
		return err
	}
	ctx, now := c.Request().Context(), h.Now()
	replica := query.Replica
	of, err := narrowedTo(ctx, h.Store, &query)
	if err != nil {
		return err
	}
	window, errs := windowOf(&query, now, session.Zone(c))
	query.Errors = errs
	d, err := readDeployment(ctx, h.Store, c.Param("id"), now)
	if err != nil {
		return err
	}
	t := tab.Tab{Deployment: d.Deployment, Query: query, Window: window, Now: now, ZoneName: session.Zone(c).String(), ReplicaDropped: replica != query.Replica}
	if err := h.fillFor(ctx, &t, d, of); err != nil {
		return err
	}
	if !refreshes(c) { // the controls stay as they are
		if err := tenantChoices(ctx, h.Store, &t); err != nil {
			return err
		}
	}
	endpoint, err := h.Store.Endpoint(ctx, d.EndpointID)
	if err != nil {
		return err
	}
	t.BaseURL = endpoint.BaseURL(baseURL(c, h.PublicURL))
	return sendTab(c, t, d.page(tabMetrics))
}

// fillFor reads what the tab shows of somebody's requests.
func (h *Metrics) fillFor(ctx context.Context, t *tab.Tab, d deploymentNow, of traffic) error {
	if of.TenantID != "" {
		return h.fillOfTenant(ctx, t, of)
	}
	if err := h.fill(ctx, t, d); err != nil {
		return err
	}
	var err error
	t.LastRequest, err = lastAt(ctx, h.Store, d.ID, metrics.E2E)
	return err
}

// refreshes reports whether the page's script asks for the live part alone.
func refreshes(c echo.Context) bool {
	return respond.IsHTMX(c) && c.Request().Header.Get("HX-Target") != "div#metrics"
}

// sendTab sends the page, or the part of it that a script asks for.
func sendTab(c echo.Context, t tab.Tab, v respond.View) error {
	switch {
	case refreshes(c):
		return respond.Fragment(c, http.StatusOK, tab.Live(t))
	case respond.IsHTMX(c):
		return respond.Fragment(c, http.StatusOK, tab.Show(t))
	}
	v.Charts, v.Wide, v.Body = true, true, tab.Show(t)
	if len(t.Query.Errors) > 0 {
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
	if q.Compare != "previous" {
		q.Compare = ""
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
		w, err := metrics.NewWindow(from, to, now, q.LeastStep())
		if err == nil {
			q.Whole = w.To.Sub(w.From)
			return pieceOf(q, w, now), nil
		}
		errs.Add("from", "Measurements are kept for 400 days. Choose a later beginning.")
	}
	q.Zoom = ""
	w, err := metrics.NewWindow(now.Add(-chosen.Span), now, now, q.LeastStep())
	if err != nil {
		panic(err) // every choice of the picker has a window
	}
	return w, errs
}

func customRange(q *tab.Query, now time.Time, zone *time.Location, errs factory.FieldErrors) (from, to time.Time) {
	from = readMoment(&q.From, zone, "from", errs)
	to = readMoment(&q.To, zone, "to", errs)
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

// readMoment reads a time as the form writes it, in the viewer's zone, or as links of
// alerts do. The field then shows it as the form would.
func readMoment(text *string, zone *time.Location, field string, errs factory.FieldErrors) time.Time {
	const typed = "2006-01-02T15:04"
	if t, err := time.Parse(time.RFC3339, *text); err == nil {
		*text = t.In(zone).Format(typed)
		return t
	}
	t, err := time.ParseInLocation(typed, *text, zone)
	if err != nil {
		errs.Add(field, "Choose a day and a time.")
	}
	return t
}
