package handlers

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	tab "tokenfactory/views/metrics"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// ownView is what a tenant asks for on its own page of a deployment.
type ownView struct {
	deployment factory.Deployment
	query      tab.Query
	of         traffic
	window     metrics.Window
	now        time.Time
}

// own reads the address of a tenant's own page. Whatever it says, the traffic is that of
// the tenant whose page it is.
func (h *Metrics) own(c echo.Context) (v ownView, err error) {
	if err := c.Bind(&v.query); err != nil {
		return v, err
	}
	ctx, m := c.Request().Context(), session.Tenant(c)
	v.now = h.Now()
	if v.deployment, err = h.Store.TenantDeployment(ctx, m.TenantID, pathText(c, "deployment")); err != nil {
		return v, err
	}
	if v.of, err = ofKey(ctx, h.Store, m.TenantID, v.query.Key); err != nil {
		return v, err
	}
	v.query.Tenant, v.query.Replica = m.TenantID, ""
	v.query.Places = tab.Places{Page: paths.OwnMetrics(m.TenantName, v.deployment.Name), CSV: paths.OwnMetricsCSV(m.TenantName, v.deployment.Name)}
	v.window, v.query.Errors = windowOf(&v.query, v.now, session.Zone(c))
	return v, nil
}

// Own is a tenant's view of a deployment that may serve others too: how its own requests
// went, and what they asked for.
func (h *Metrics) Own(c echo.Context) error {
	v, err := h.own(c)
	if err != nil {
		return err
	}
	ctx, d := c.Request().Context(), v.deployment
	t := tab.Tab{Deployment: d, Query: v.query, Window: v.window, Now: v.now, ZoneName: session.Zone(c).String()}
	if err := h.fillOfTenant(ctx, &t, v.of); err != nil {
		return err
	}
	if !refreshes(c) {
		if err := ownChoices(ctx, h.Store, &t); err != nil {
			return err
		}
	}
	endpoint, err := h.Store.Endpoint(ctx, d.EndpointID)
	if err != nil {
		return err
	}
	t.BaseURL = endpoint.BaseURL(baseURL(c, h.PublicURL))
	return sendTab(c, t, respond.View{
		Title: d.PublicName, Active: layout.NavModels,
		Lede:   "How your requests to this model went, and what they asked for.",
		Crumbs: []ui.Link{{Label: "Models", Href: paths.OwnModels(session.Tenant(c).TenantName)}},
	})
}

// OwnCSV is a tenant's own view as a file.
func (h *Metrics) OwnCSV(c echo.Context) error {
	v, err := h.own(c)
	if err != nil {
		return err
	}
	if len(v.query.Errors) > 0 {
		return unreadableRange()
	}
	return h.csv(c, v.deployment, v.of, v.window, v.now)
}

// ownChoices are those of the tenant's keys that were measured in the window.
func ownChoices(ctx context.Context, s *store.Store, t *tab.Tab) error {
	measured, err := s.TenantKeysMeasured(ctx, t.Query.Tenant, t.Deployment.ID, t.Window.From, t.Window.To)
	if err != nil {
		return err
	}
	keys, err := s.Keys(ctx, t.Query.Tenant)
	if err != nil {
		return err
	}
	names, revoked := map[string]string{}, map[string]bool{}
	for _, k := range keys {
		names[k.ID] = k.Name
		if k.RevokedAt != nil {
			revoked[k.ID] = true
		}
	}
	mark(names, revoked, "revoked")
	t.Keys, t.KeyName = choices("All your keys", measured, t.Query.Key, names)
	return nil
}
