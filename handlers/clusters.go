package handlers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/clusters"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Clusters are the pages of the fleet.
type Clusters struct {
	Store     *store.Store
	Apply     *Apply
	Poke      func() // tells the controller that there is something to do
	PublicURL string // where agents and clients reach us; empty: as the request did
	Now       func() time.Time

	secrets reveal
}

var fleetCrumb = ui.Link{Label: "Fleet", Href: paths.Clusters}

func clusterCrumbs(c factory.Cluster) []ui.Link {
	return []ui.Link{fleetCrumb, {Label: c.Name, Href: paths.Cluster(c.ID)}}
}

// List is the fleet, clusters with silent machines first.
func (h *Clusters) List(c echo.Context) error {
	ctx := c.Request().Context()
	clusters, err := h.Store.AllClusters(ctx)
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	var rows []views.Row
	for _, x := range clusters {
		rows = append(rows, f.row(x))
	}
	slices.SortStableFunc(rows, func(a, b views.Row) int { return cmp.Compare(b.Offline(), a.Offline()) })
	view := respond.View{Title: "Fleet", Active: layout.NavFleet, Lede: "Your machines, grouped into clusters.", Wide: true, Body: views.List(rows)}
	if len(rows) > 0 {
		view.Actions = []ui.Action{{Label: "New cluster", Icon: "plus", Href: paths.NewCluster, Primary: true}}
	}
	return respond.Page(c, view)
}

// Show is one cluster.
func (h *Clusters) Show(c echo.Context) error {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	show := views.Show{Cluster: cluster, Machines: f.machines(cluster.ID), Served: f.served(cluster.ID), Now: f.now}
	if show.Tokens, err = h.Store.JoinTokens(ctx, cluster.ID); err != nil {
		return err
	}
	endpoints, err := h.Store.AllEndpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if e.ClusterID == cluster.ID {
			show.Endpoints = append(show.Endpoints, e)
		}
	}
	v := respond.View{
		Title: cluster.Name, Active: layout.NavFleet, Crumbs: []ui.Link{fleetCrumb}, Lede: cluster.Description, Wide: true,
		Menu: []ui.Action{
			{Label: "Edit", Icon: "edit", Href: paths.EditCluster(cluster.ID)},
			{
				Label: "Delete", Icon: "trash", Post: paths.RemoveCluster(cluster.ID), Danger: true,
				ConfirmID: "delete", ConfirmTitle: "Delete " + cluster.Name + "?",
				Confirm: "Its join tokens end with it. Machines, endpoints and deployments must be removed first.",
			},
		},
		Body: views.ShowView(show),
	}
	if len(show.Machines) > 0 {
		v.Actions = []ui.Action{{Label: "Register a machine", Icon: "plus", Post: paths.ClusterTokens(cluster.ID), Primary: true}}
	}
	return respond.Page(c, v)
}

// New is the form of a new cluster.
func (h *Clusters) New(c echo.Context) error { return respond.Page(c, h.form(views.Form{}, nil)) }

func (h *Clusters) form(f views.Form, existing *factory.Cluster) respond.View {
	v := respond.View{Title: "New cluster", Active: layout.NavFleet, Crumbs: []ui.Link{fleetCrumb}, Body: views.FormView(f, "")}
	if existing != nil {
		v.Title, v.Crumbs, v.Body = "Edit "+existing.Name, clusterCrumbs(*existing), views.FormView(f, existing.ID)
	}
	return v
}

// Create makes a cluster and leads to registering its first machine.
func (h *Clusters) Create(c echo.Context) error {
	ctx := c.Request().Context()
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		if err := checkNew(ctx, errs, "cluster", form.Name, tx.ClusterByName); err != nil {
			return err
		}
		if len(errs) > 0 {
			return errs
		}
		var err error
		result, err = h.Apply.Cluster(ctx, tx, form.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		return respond.Invalid(c, h.form(form, nil))
	}
	tokens, err := h.Store.JoinTokens(ctx, result.ID)
	if err != nil {
		return err
	}
	if len(tokens) == 0 { // revoked by somebody else just now
		return respond.Redirect(c, paths.Cluster(result.ID))
	}
	return h.reveal(c, result.ID, tokens[0].ID, result.Secrets[SecretJoinToken])
}

// Edit is the form of a cluster.
func (h *Clusters) Edit(c echo.Context) error {
	cluster, err := h.Store.Cluster(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return respond.Page(c, h.form(views.Form{Name: cluster.Name, Description: cluster.Description}, &cluster))
}

// Update saves a cluster's form.
func (h *Clusters) Update(c echo.Context) error {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		_, err := h.Apply.Cluster(ctx, tx, cluster.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		return respond.Invalid(c, h.form(form, &cluster))
	}
	respond.Flash(c, "Cluster saved.")
	return respond.Redirect(c, paths.Cluster(cluster.ID))
}

// Remove deletes a cluster that nothing uses any more.
func (h *Clusters) Remove(c echo.Context) error {
	if err := h.Store.DeleteCluster(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	respond.Flash(c, "Cluster deleted.")
	return respond.Redirect(c, paths.Clusters)
}
