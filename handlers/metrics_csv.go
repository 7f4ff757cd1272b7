package handlers

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	tab "tokenfactory/views/metrics"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// CSV is the tab as a file.
func (h *Metrics) CSV(c echo.Context) error {
	var query tab.Query
	if err := c.Bind(&query); err != nil {
		return err
	}
	ctx, now := c.Request().Context(), h.Now()
	of, err := narrowedTo(ctx, h.Store, &query)
	if err != nil {
		return err
	}
	w, errs := windowOf(&query, now, session.Zone(c))
	if len(errs) > 0 {
		return unreadableRange()
	}
	d, err := h.Store.Deployment(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	return h.csv(c, d, of, w, now)
}

func unreadableRange() error {
	return factory.Errorf(factory.Invalid, "Write from and to as a day and a time, the end after the beginning and within the last 400 days.")
}

// APICSV is the same file for programs, with the query of the JSON.
func (h *Metrics) APICSV(c echo.Context) error {
	d, of, err := h.apiAsked(c)
	if err != nil {
		return err
	}
	now := h.Now()
	w, err := apiWindow(c, now, of.leastStep())
	if err != nil {
		return err
	}
	return h.csv(c, d, of, w, now)
}

// csv writes a row for each metric and step that was measured.
func (h *Metrics) csv(c echo.Context, d factory.Deployment, of traffic, w metrics.Window, now time.Time) error {
	layers := visibleLayers(of)
	series, err := h.read(c, d.ID, of, layers, w, now)
	if err != nil {
		return err
	}
	header := append([]string{"deployment", "metric", "unit", "from", "step_s", "samples", "average", "peak", "sum"}, percentileKeys...)
	var rows [][]string
	for _, name := range namesOf(layers...) {
		m, _ := metrics.Find(name)
		s := series[name]
		for i, at := range s.Times {
			if s.N[i] == 0 {
				continue
			}
			row := []string{d.Name, string(name), m.Unit, at.Format(time.RFC3339), strconv.Itoa(int(w.Step / time.Second)), strconv.FormatFloat(s.N[i], 'f', -1, 64),
				cellAt(s.Average, i), cellAt(s.Peak, i), cellAt(s.Sum, i)}
			for p := range percentileKeys {
				row = append(row, percentileCell(s, p, i))
			}
			rows = append(rows, row)
		}
	}
	slug, err := h.slug(c, d, of)
	if err != nil {
		return err
	}
	return respond.CSV(c, "metrics-"+slug+"-"+w.From.Format("2006-01-02T1504")+".csv", header, rows)
}

// slug says in a file's name whose measurements are in it.
func (h *Metrics) slug(c echo.Context, d factory.Deployment, of traffic) (string, error) {
	if of.TenantID == "" {
		return d.Name, nil
	}
	ctx := c.Request().Context()
	tenants, err := h.Store.TenantNames(ctx)
	if err != nil {
		return "", err
	}
	slug := d.Name + "-" + nameOf(tenants, of.TenantID)
	if of.KeyID != "" {
		k, err := h.Store.Key(ctx, of.TenantID, of.KeyID)
		if err != nil {
			return "", err
		}
		slug += "-" + k.Name
	}
	return slug, nil
}

func cellAt(values []*float64, i int) string {
	if i >= len(values) {
		return ""
	}
	return numberCell(values[i])
}

func numberCell(v *float64) string {
	if v = rounded(v, 6); v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// percentileCell is a percentile, or the bound that an engine's histogram knows of it.
func percentileCell(s metrics.Series, p, i int) string {
	if p < len(s.Q) {
		return numberCell(s.Q[p][i])
	}
	if p >= len(s.Estimates) {
		return ""
	}
	switch e := s.Estimates[p][i]; {
	case e.AtMost != nil:
		return "<= " + numberCell(e.AtMost)
	case e.Value == nil && e.Above != nil:
		return "> " + numberCell(e.Above)
	default:
		return numberCell(e.Value)
	}
}
