package handlers

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	views "tokenfactory/views/objectives"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Objectives are what deployments promise, and how each stands.
type Objectives struct {
	Store *store.Store
	Now   func() time.Time
	past  pastCounts
}

// List is every objective, the least budget left first.
func (h *Objectives) List(c echo.Context) error {
	ctx, now := c.Request().Context(), h.Now()
	all, err := h.all(ctx, now)
	if err != nil {
		return err
	}
	list := views.ListOf(all, views.Filter{Text: strings.TrimSpace(c.QueryParam("q")), Show: c.QueryParam("show"), After: c.QueryParam("after")})
	var ids []string
	for _, o := range list.Rows {
		ids = append(ids, o.ID)
	}
	if err := h.burn(ctx, list.Rows, now, ids...); err != nil {
		return err
	}
	v := respond.View{
		Title: "Objectives", Active: layout.NavObjectives, Wide: true,
		Lede: "What each deployment promises, and how much of its error budget is left.",
		Body: views.ListView(list),
	}
	if list.Total > 0 {
		v.Actions = []ui.Action{{Label: "Download CSV", Icon: "download", Href: paths.ObjectivesCSV, Download: true}}
	}
	return respond.Page(c, v)
}

// all is every deployment with its budget and its alerts, in order; the rules are left
// for burn to read.
func (h *Objectives) all(ctx context.Context, now time.Time) ([]views.Objective, error) {
	deployments, err := h.Store.AllDeployments(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := h.monthCounts(ctx, now)
	if err != nil {
		return nil, err
	}
	open, err := h.Store.OpenAlerts(ctx)
	if err != nil {
		return nil, err
	}
	alerts := map[string]factory.AlertState{}
	for _, a := range open {
		if a.Rule == factory.RuleBurn && alerts[a.DeploymentID] != factory.AlertFiring {
			alerts[a.DeploymentID] = a.State
		}
	}
	out := make([]views.Objective, len(deployments))
	for i, d := range deployments {
		o := views.Objective{Deployment: d, Counts: counts[d.ID], Alert: alerts[d.ID]}
		if left, judged := slo.BudgetLeft(o.Counts, d.ObjectiveShare()); judged {
			o.Left = &left
		}
		out[i] = o
	}
	slices.SortFunc(out, views.Objective.Compare)
	return out, nil
}

// burn reads the rules of objectives, of which ids are the deployments; no ids are all
// deployments.
func (h *Objectives) burn(ctx context.Context, list []views.Objective, now time.Time, ids ...string) error {
	if len(list) == 0 {
		return nil
	}
	counts, err := burnCounts(ctx, h.Store, now, ids...)
	if err != nil {
		return err
	}
	for i, o := range list {
		list[i].Burn = slo.Evaluate(o.ObjectiveShare(), func(window time.Duration) slo.Counts { return counts[window][o.ID] })
	}
	return nil
}
