package handlers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/deployments"
	"tokenfactory/views/layout"
	"tokenfactory/views/limits"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Deployments are the pages of models that are served.
type Deployments struct {
	Store     *store.Store
	Apply     *Apply
	Uses      Uses
	Poke      func() // tells the controller that there is something to do
	PublicURL string
	Now       func() time.Time
}

// rowsOfPage is how many deployments a page of the list has.
const rowsOfPage = 100

// List is the deployments, what is wrong first.
func (h *Deployments) List(c echo.Context) error {
	ctx := c.Request().Context()
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	list := views.List{
		Total: len(f.deployments), Counts: map[string]int{},
		Filter: views.Filter{Text: strings.TrimSpace(c.QueryParam("q")), State: c.QueryParam("state"), After: c.QueryParam("after")},
	}
	for _, row := range f.rows() {
		if !matches(row.Deployment, list.Filter.Text) {
			continue
		}
		for _, state := range []string{"", "trouble", "ready", "stopped"} {
			if inState(row.State, state) {
				list.Counts[state]++
			}
		}
		if inState(row.State, list.Filter.State) {
			list.Rows = append(list.Rows, row)
		}
	}
	list.Rows, list.Next = pageAfter(list.Rows, list.Filter.After)
	view := respond.View{Title: "Deployments", Active: layout.NavDeployments, Wide: true}
	if list.Total > 0 {
		view.Actions = []ui.Action{{Label: "Deploy a model", Icon: "plus", Href: paths.NewDeployment, Primary: true}}
	} else if err := h.missing(c, &list); err != nil {
		return err
	}
	view.Body = views.ListView(list)
	return respond.Page(c, view)
}

// rows is every deployment with how it stands, what is wrong first.
func (f fleet) rows() []views.Row {
	var rows []views.Row
	for _, d := range f.deployments {
		replicas := f.replicasOf(d.ID)
		row := views.Row{Deployment: d, Ready: f.ready(replicas)}
		row.State, row.Reason = d.Status(replicas, f.silent)
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b views.Row) int {
		return cmp.Or(cmp.Compare(stateRank[a.State], stateRank[b.State]), strings.Compare(a.Name, b.Name))
	})
	return rows
}

func matches(d factory.Deployment, text string) bool {
	text = strings.ToLower(text)
	for _, s := range []string{d.Name, d.PublicName, d.Model, d.Cluster, d.Endpoint, d.Engine} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

func inState(s factory.State, filter string) bool {
	switch filter {
	case "ready":
		return s == factory.Ready
	case "stopped":
		return s == factory.Stopped || s == factory.Stopping || s == factory.Asleep
	case "trouble":
		return s == factory.Failed || s == factory.Degraded || s == factory.Pending
	}
	return true
}

// pageAfter cuts one page out of the rows. The key holds the last row's place, not
// its number, so that a row which comes or goes moves nothing else.
func pageAfter(rows []views.Row, after string) (page []views.Row, next string) {
	if state, name, ok := strings.Cut(after, "."); ok {
		rank := stateRank[factory.State(state)]
		rows = rows[len(rows)-countAfter(rows, rank, name):]
	}
	if len(rows) <= rowsOfPage {
		return rows, ""
	}
	last := rows[rowsOfPage-1]
	return rows[:rowsOfPage], string(last.State) + "." + last.Name
}

func countAfter(rows []views.Row, rank int, name string) int {
	n := 0
	for _, r := range rows {
		if stateRank[r.State] > rank || stateRank[r.State] == rank && r.Name > name {
			n++
		}
	}
	return n
}

// missing finds out which step comes before a first deployment.
func (h *Deployments) missing(c echo.Context, list *views.List) error {
	ctx := c.Request().Context()
	clusters, err := h.Store.AllClusters(ctx)
	if err != nil {
		return err
	}
	endpoints, err := h.Store.AllEndpoints(ctx)
	if err != nil {
		return err
	}
	models, err := h.Store.AllLLMs(ctx)
	list.NoCluster, list.NoEndpoint, list.NoModel = len(clusters) == 0, len(endpoints) == 0, len(models) == 0
	return err
}

// show gathers what the tabs of one deployment say.
func (h *Deployments) show(c echo.Context) (deploymentNow, views.Show, error) {
	ctx := c.Request().Context()
	now := h.Now()
	d, err := readDeployment(ctx, h.Store, c.Param("id"), now)
	if err != nil {
		return d, views.Show{}, err
	}
	s := views.Show{Deployment: d.Deployment, State: d.State, Reason: d.Reason, Now: now}
	brief, cancel := patiently(ctx)
	defer cancel()
	s.Limited = holder(brief, h.Uses, factory.ScopeDeployment, d.ID, d.PublicName, d.Limits)
	if s.Endpoint, err = h.Store.Endpoint(ctx, d.EndpointID); err != nil {
		return d, s, err
	}
	s.BaseURL = s.Endpoint.BaseURL(baseURL(c, h.PublicURL))
	for _, r := range d.Replicas {
		s.Replicas = append(s.Replicas, d.replica(r, now))
	}
	if len(d.TenantIDs) == 0 {
		return d, s, nil
	}
	tenants, err := h.Store.AllTenants(ctx)
	for _, t := range tenants {
		if slices.Contains(d.TenantIDs, t.ID) {
			s.Tenants = append(s.Tenants, t.Title)
		}
	}
	return d, s, err
}

func (d deploymentNow) replica(r factory.Replica, now time.Time) views.Replica {
	out := views.Replica{Replica: r}
	node, ok := d.Nodes[r.NodeID]
	if !ok {
		return out
	}
	out.ClusterID = node.ClusterID
	if !node.Online(now) {
		out.Silent = &node.LastSeenAt
	}
	for _, g := range node.Hardware.GPUs {
		if slices.Contains(r.GPUUUIDs, g.UUID) {
			name := g.Name
			if g.MIGProfile != "" {
				name += " " + g.MIGProfile
			}
			out.GPUs = append(out.GPUs, name)
		}
	}
	return out
}

// Show is the Overview tab.
func (h *Deployments) Show(c echo.Context) error {
	d, s, err := h.show(c)
	if err != nil {
		return err
	}
	now := h.Now()
	from, to := lately(now)
	refused, err := h.Store.DeploymentRefusals(c.Request().Context(), s.ID, from, to)
	if err != nil {
		return err
	}
	s.Refused = limits.RefusedOf(refused, now, nil)
	v := d.page(tabOverview)
	v.Body = views.Overview(s)
	return respond.Page(c, v)
}

// Replicas is the Replicas tab.
func (h *Deployments) Replicas(c echo.Context) error {
	d, s, err := h.show(c)
	if err != nil {
		return err
	}
	v := d.page(tabReplicas)
	v.Body = views.ReplicasView(s)
	return respond.Page(c, v)
}

// Stop ends a deployment's replicas until it is started again.
func (h *Deployments) Stop(c echo.Context) error { return h.setStopped(c, true) }

// Start has a stopped deployment served again.
func (h *Deployments) Start(c echo.Context) error { return h.setStopped(c, false) }

func (h *Deployments) setStopped(c echo.Context, stopped bool) error {
	if err := h.Store.SetDeploymentStopped(c.Request().Context(), c.Param("id"), stopped); err != nil {
		return err
	}
	h.Poke()
	return respond.Redirect(c, paths.Deployment(c.Param("id")))
}

// Sleep lets go of the deployment's machines until the next request.
func (h *Deployments) Sleep(c echo.Context) error {
	if err := h.Store.SleepDeployment(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	h.Poke()
	return respond.Redirect(c, paths.Deployment(c.Param("id")))
}

// Wake starts its replicas before a request asks for them.
func (h *Deployments) Wake(c echo.Context) error {
	if err := h.Store.WakeDeployment(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	h.Poke()
	return respond.Redirect(c, paths.Deployment(c.Param("id")))
}

// Restart starts every replica anew, by asking for a new revision.
func (h *Deployments) Restart(c echo.Context) error {
	ctx := c.Request().Context()
	err := h.Store.InTx(ctx, func(tx *store.Store) error {
		d, err := tx.Deployment(ctx, c.Param("id"))
		if err != nil {
			return err
		}
		d.Revision++
		d.UpdatedAt = h.Now()
		return tx.SaveDeployment(ctx, d)
	})
	if err != nil {
		return err
	}
	h.Poke()
	return respond.Redirect(c, paths.DeploymentReplicas(c.Param("id")))
}

// Remove deletes a deployment; its replicas stop, its history stays.
func (h *Deployments) Remove(c echo.Context) error {
	if err := h.Store.DeleteDeployment(c.Request().Context(), c.Param("id"), h.Now()); err != nil {
		return err
	}
	h.Poke()
	respond.Flash(c, "Deployment deleted.")
	return respond.Redirect(c, paths.Deployments)
}
