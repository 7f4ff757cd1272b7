package handlers

import (
	"context"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	views "tokenfactory/views/models"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Providers are the catalogue's pages about whose models there are.
type Providers struct {
	Store *store.Store
	Apply *Apply
	Now   func() time.Time
}

// catalogueTabs are the two sides of the catalogue.
func catalogueTabs(current string) []ui.Link {
	return []ui.Link{
		{Label: "Models", Href: paths.Models, Current: current == paths.Models},
		{Label: "Providers", Href: paths.Providers, Current: current == paths.Providers},
	}
}

var providersCrumb = ui.Link{Label: "Providers", Href: paths.Providers}

// List is every provider.
func (h *Providers) List(c echo.Context) error {
	ctx := c.Request().Context()
	providers, err := h.Store.AllProviders(ctx)
	if err != nil {
		return err
	}
	models, err := h.Store.AllLLMs(ctx)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, m := range models {
		count[m.ProviderID]++
	}
	var rows []views.ProviderRow
	for _, p := range providers {
		rows = append(rows, views.ProviderRow{Provider: p, Models: count[p.ID]})
	}
	view := respond.View{Title: "Catalogue", Active: layout.NavCatalogue, Tabs: catalogueTabs(paths.Providers), Body: views.ProviderList(rows)}
	if len(rows) > 0 {
		view.Actions = []ui.Action{{Label: "New provider", Icon: "plus", Href: paths.NewProvider, Primary: true}}
	}
	return respond.Page(c, view)
}

// Show is one provider with its models.
func (h *Providers) Show(c echo.Context) error {
	ctx := c.Request().Context()
	p, err := h.Store.Provider(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	rows, err := modelRows(ctx, h.Store, func(m factory.LLM) bool { return m.ProviderID == p.ID })
	if err != nil {
		return err
	}
	return respond.Page(c, respond.View{
		Title: p.Name, Active: layout.NavCatalogue, Crumbs: []ui.Link{providersCrumb},
		Menu: []ui.Action{
			{Label: "Edit", Icon: "edit", Href: paths.EditProvider(p.ID)},
			{
				Label: "Delete", Icon: "trash", Post: paths.RemoveProvider(p.ID), Danger: true,
				ConfirmID: "delete", ConfirmTitle: "Delete " + p.Name + "?", Confirm: "Its models must be deleted first.",
			},
		},
		Body: views.ProviderView(p, rows),
	})
}

// modelRows lists the models that are wanted with how often each is deployed.
func modelRows(ctx context.Context, s *store.Store, want func(factory.LLM) bool) ([]views.Row, error) {
	models, err := s.AllLLMs(ctx)
	if err != nil {
		return nil, err
	}
	deployments, err := s.AllDeployments(ctx)
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, d := range deployments {
		count[d.ModelID]++
	}
	var rows []views.Row
	for _, m := range models {
		if want(m) {
			rows = append(rows, views.Row{LLM: m, Deployments: count[m.ID]})
		}
	}
	return rows, nil
}

func (h *Providers) form(f views.ProviderForm, existing *factory.Provider) respond.View {
	v := respond.View{Title: "New provider", Active: layout.NavCatalogue, Crumbs: []ui.Link{providersCrumb}, Body: views.ProviderFormView(f, "")}
	if existing != nil {
		v.Title, v.Body = "Edit "+existing.Name, views.ProviderFormView(f, existing.ID)
		v.Crumbs = append(v.Crumbs, ui.Link{Label: existing.Name, Href: paths.Provider(existing.ID)})
	}
	return v
}

// New is the form of a new provider.
func (h *Providers) New(c echo.Context) error {
	return respond.Page(c, h.form(views.ProviderForm{}, nil))
}

// Create adds a provider.
func (h *Providers) Create(c echo.Context) error {
	ctx := c.Request().Context()
	var form views.ProviderForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		taken := factory.FieldErrors{}
		if err := checkNew(ctx, taken, "provider", form.Name, tx.ProviderByName); err != nil {
			return err
		}
		if len(taken) > 0 {
			return taken
		}
		var err error
		result, err = h.Apply.Provider(ctx, tx, form.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		return respond.Invalid(c, h.form(form, nil))
	}
	respond.Flash(c, "Provider added.")
	return respond.Redirect(c, paths.Provider(result.ID))
}

// Edit is the form of a provider.
func (h *Providers) Edit(c echo.Context) error {
	p, err := h.Store.Provider(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return respond.Page(c, h.form(views.ProviderForm{Name: p.Name, Description: p.Description, Website: p.Website}, &p))
}

// Update saves a provider's form.
func (h *Providers) Update(c echo.Context) error {
	ctx := c.Request().Context()
	p, err := h.Store.Provider(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	var form views.ProviderForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		_, err := h.Apply.Provider(ctx, tx, p.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		return respond.Invalid(c, h.form(form, &p))
	}
	respond.Flash(c, "Provider saved.")
	return respond.Redirect(c, paths.Provider(p.ID))
}

// Remove deletes a provider without models.
func (h *Providers) Remove(c echo.Context) error {
	if err := h.Store.DeleteProvider(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	respond.Flash(c, "Provider deleted.")
	return respond.Redirect(c, paths.Providers)
}
