package handlers

import (
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/endpoints"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Endpoints are the pages of the addresses that clients use.
type Endpoints struct {
	Store     *store.Store
	Apply     *Apply
	Poke      func()
	PublicURL string
	Now       func() time.Time
}

var endpointsCrumb = ui.Link{Label: "Endpoints", Href: paths.Endpoints}

func (h *Endpoints) row(c echo.Context, f fleet, e factory.Endpoint) views.Row {
	row := views.Row{Endpoint: e, BaseURL: e.BaseURL(baseURL(c, h.PublicURL))}
	for _, d := range f.deployments {
		if d.EndpointID != e.ID {
			continue
		}
		replicas := f.replicasOf(d.ID)
		b := views.Behind{Deployment: d, Ready: f.ready(replicas)}
		b.State, b.Reason = d.Status(replicas, f.silent)
		row.Behind = append(row.Behind, b)
	}
	return row
}

// List is every endpoint.
func (h *Endpoints) List(c echo.Context) error {
	ctx := c.Request().Context()
	endpoints, err := h.Store.AllEndpoints(ctx)
	if err != nil {
		return err
	}
	clusters, err := h.Store.AllClusters(ctx)
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	var rows []views.Row
	for _, e := range endpoints {
		rows = append(rows, h.row(c, f, e))
	}
	view := respond.View{Title: "Endpoints", Active: layout.NavEndpoints, Lede: "The addresses that clients use, and the clusters they lead to.", Body: views.List(rows, len(clusters))}
	if len(rows) > 0 {
		view.Actions = []ui.Action{{Label: "New endpoint", Icon: "plus", Href: paths.NewEndpoint, Primary: true}}
	}
	return respond.Page(c, view)
}

// Show is one endpoint.
func (h *Endpoints) Show(c echo.Context) error {
	ctx := c.Request().Context()
	e, err := h.Store.Endpoint(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	return respond.Page(c, respond.View{
		Title: e.Name, Active: layout.NavEndpoints, Crumbs: []ui.Link{endpointsCrumb},
		Menu: []ui.Action{
			{Label: "Edit", Icon: "edit", Href: paths.EditEndpoint(e.ID)},
			{
				Label: "Delete", Icon: "trash", Post: paths.RemoveEndpoint(e.ID), Danger: true,
				ConfirmID: "delete", ConfirmTitle: "Delete " + e.Name + "?",
				Confirm: "Clients cannot use its address any more. Deployments behind it must be moved or deleted first.",
			},
		},
		Body: views.ShowView(h.row(c, f, e)),
	})
}

func (h *Endpoints) form(c echo.Context, f views.Form, existing *factory.Endpoint) (respond.View, error) {
	clusters, err := h.Store.AllClusters(c.Request().Context())
	if err != nil {
		return respond.View{}, err
	}
	if f.Cluster == "" && len(clusters) == 1 {
		f.Cluster = clusters[0].Name
	}
	v := respond.View{Title: "New endpoint", Active: layout.NavEndpoints, Crumbs: []ui.Link{endpointsCrumb}, Body: views.FormView(f, "", clusters)}
	if existing != nil {
		v.Title, v.Body = "Edit "+existing.Name, views.FormView(f, existing.ID, clusters)
		v.Crumbs = append(v.Crumbs, ui.Link{Label: existing.Name, Href: paths.Endpoint(existing.ID)})
	}
	return v, nil
}

// New is the form of a new endpoint; ?cluster= preselects where it leads.
func (h *Endpoints) New(c echo.Context) error {
	v, err := h.form(c, views.Form{Cluster: c.QueryParam("cluster")}, nil)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// Create makes an endpoint.
func (h *Endpoints) Create(c echo.Context) error {
	ctx := c.Request().Context()
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		taken := factory.FieldErrors{}
		if err := checkNew(ctx, taken, "endpoint", form.Name, tx.EndpointByName); err != nil {
			return err
		}
		if len(taken) > 0 {
			return taken
		}
		var err error
		result, err = h.Apply.Endpoint(ctx, tx, form.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return h.invalid(c, form, errs, nil)
	}
	respond.Flash(c, "Endpoint created.")
	return respond.Redirect(c, paths.Endpoint(result.ID))
}

func (h *Endpoints) invalid(c echo.Context, form views.Form, errs factory.FieldErrors, existing *factory.Endpoint) error {
	form.Errors = errs
	v, err := h.form(c, form, existing)
	if err != nil {
		return err
	}
	return respond.Invalid(c, v)
}

// Edit is the form of an endpoint.
func (h *Endpoints) Edit(c echo.Context) error {
	e, err := h.Store.Endpoint(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	v, err := h.form(c, views.Form{Name: e.Name, Hostname: e.Hostname, Cluster: e.ClusterName}, &e)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// Update saves an endpoint's form.
func (h *Endpoints) Update(c echo.Context) error {
	ctx := c.Request().Context()
	e, err := h.Store.Endpoint(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		_, err := h.Apply.Endpoint(ctx, tx, e.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return h.invalid(c, form, errs, &e)
	}
	respond.Flash(c, "Endpoint saved.")
	return respond.Redirect(c, paths.Endpoint(e.ID))
}

// Remove deletes an endpoint that nothing stands behind any more.
func (h *Endpoints) Remove(c echo.Context) error {
	if err := h.Store.DeleteEndpoint(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	respond.Flash(c, "Endpoint deleted.")
	return respond.Redirect(c, paths.Endpoints)
}
