package handlers

import (
	"context"
	"slices"
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

// Models are the catalogue's pages about which models there are.
type Models struct {
	Store *store.Store
	Apply *Apply
	Poke  func() // tells the controller that there is something to do
	Now   func() time.Time
}

var modelsCrumb = ui.Link{Label: "Models", Href: paths.Models}

// notTaken are the built-in models whose name is not in the catalogue yet.
func notTaken(rows []views.Row) []factory.LLM {
	var out []factory.LLM
	for _, m := range factory.BuiltInModels {
		if !slices.ContainsFunc(rows, func(r views.Row) bool { return r.Name == m.Name }) {
			out = append(out, m)
		}
	}
	return out
}

func everyModel(factory.LLM) bool { return true }

// List is every model.
func (h *Models) List(c echo.Context) error {
	rows, err := modelRows(c.Request().Context(), h.Store, everyModel)
	if err != nil {
		return err
	}
	view := respond.View{Title: "Catalogue", Active: layout.NavCatalogue, Tabs: catalogueTabs(paths.Models), Wide: true, Body: views.List(rows, notTaken(rows))}
	if len(rows) > 0 {
		view.Actions = []ui.Action{{Label: "New model", Icon: "plus", Href: paths.NewModel, Primary: true}}
	}
	return respond.Page(c, view)
}

// Show is one model.
func (h *Models) Show(c echo.Context) error {
	ctx := c.Request().Context()
	m, err := h.Store.LLM(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	var served []views.Served
	for _, d := range f.deployments {
		if d.ModelID == m.ID {
			state, _ := d.Status(f.replicasOf(d.ID), f.silent)
			served = append(served, views.Served{Deployment: d, State: state})
		}
	}
	return respond.Page(c, respond.View{
		Title: m.Name, Active: layout.NavCatalogue, Crumbs: []ui.Link{modelsCrumb}, Lede: m.Description,
		Menu: []ui.Action{
			{Label: "Edit", Icon: "edit", Href: paths.EditModel(m.ID)},
			{
				Label: "Delete", Icon: "trash", Post: paths.RemoveModel(m.ID), Danger: true,
				ConfirmID: "delete", ConfirmTitle: "Delete " + m.Name + "?",
				Confirm: "It leaves the catalogue; the weights on the machines stay. Its deployments must be deleted first.",
			},
		},
		Body: views.ShowView(m, served),
	})
}

// added is the built-in provider that a form names and the catalogue lacks.
func added(name string, providers []factory.Provider) (factory.Provider, bool) {
	if slices.ContainsFunc(providers, func(p factory.Provider) bool { return p.Name == name }) {
		return factory.Provider{}, false
	}
	return factory.BuiltInProvider(name)
}

func (h *Models) form(ctx context.Context, f views.Form, existing *factory.LLM) (respond.View, error) {
	providers, err := h.Store.AllProviders(ctx)
	if err != nil {
		return respond.View{}, err
	}
	extra, _ := added(f.Provider, providers)
	rows, err := modelRows(ctx, h.Store, everyModel)
	if err != nil {
		return respond.View{}, err
	}
	if existing == nil {
		return respond.View{
			Title: "New model", Active: layout.NavCatalogue, Crumbs: []ui.Link{modelsCrumb},
			Body: views.FormView(f, "", providers, extra.Name, notTaken(rows), 0),
		}, nil
	}
	served := 0
	for _, r := range rows {
		if r.ID == existing.ID {
			served = r.Deployments
		}
	}
	return respond.View{
		Title: "Edit " + existing.Name, Active: layout.NavCatalogue,
		Crumbs: []ui.Link{modelsCrumb, {Label: existing.Name, Href: paths.Model(existing.ID)}},
		Body:   views.FormView(f, existing.ID, providers, extra.Name, nil, served),
	}, nil
}

// New is the form of a new model; ?from= fills it from the built-in list.
func (h *Models) New(c echo.Context) error {
	form := views.Form{Provider: c.QueryParam("provider"), Source: factory.SourceHuggingFace, WeightBits: "16"}
	if from := c.QueryParam("from"); from != "" {
		m, ok := factory.BuiltInModel(from)
		if !ok {
			return factory.Errorf(factory.NotFound, "The built-in list has no model named “%s”.", from)
		}
		form = views.FormOf(m.Name, m.ModelSpec)
	}
	v, err := h.form(c.Request().Context(), form, nil)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// save checks everything that was typed and, when all of it is right, saves it.
// A provider of the built-in list is added together with its first model.
func (h *Models) save(ctx context.Context, form views.Form, name string, isNew bool) (Result, factory.FieldErrors, error) {
	spec, typed := form.Spec()
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		if isNew {
			if err := checkNew(ctx, typed, "model", name, tx.LLMByName); err != nil {
				return err
			}
			factory.CheckName(typed, "name", name)
		}
		if len(typed) > 0 {
			for field, message := range spec.Validate() {
				typed.Add(field, message)
			}
			return typed
		}
		providers, err := tx.AllProviders(ctx)
		if err != nil {
			return err
		}
		if p, ok := added(spec.Provider, providers); ok {
			if _, err := h.Apply.Provider(ctx, tx, p.Name, factory.ProviderSpec{Description: p.Description, Website: p.Website}); err != nil {
				return err
			}
		}
		result, err = h.Apply.Model(ctx, tx, name, spec)
		return err
	})
	return result, errs, err
}

func (h *Models) invalid(c echo.Context, form views.Form, errs factory.FieldErrors, existing *factory.LLM) error {
	form.Errors = errs
	v, err := h.form(c.Request().Context(), form, existing)
	if err != nil {
		return err
	}
	return respond.Invalid(c, v)
}

// Create adds a model.
func (h *Models) Create(c echo.Context) error {
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	result, errs, err := h.save(c.Request().Context(), form, form.Name, true)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return h.invalid(c, form, errs, nil)
	}
	respond.Flash(c, "Model added to the catalogue.")
	return respond.Redirect(c, paths.Model(result.ID))
}

// Edit is the form of a model.
func (h *Models) Edit(c echo.Context) error {
	ctx := c.Request().Context()
	m, err := h.Store.LLM(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	spec := m.ModelSpec
	spec.Provider = m.ProviderName
	v, err := h.form(ctx, views.FormOf(m.Name, spec), &m)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// Update saves a model's form.
func (h *Models) Update(c echo.Context) error {
	ctx := c.Request().Context()
	m, err := h.Store.LLM(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	_, errs, err := h.save(ctx, form, m.Name, false)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return h.invalid(c, form, errs, &m)
	}
	if h.Poke != nil {
		h.Poke()
	}
	respond.Flash(c, "Model saved.")
	return respond.Redirect(c, paths.Model(m.ID))
}

// Remove deletes a model that is not deployed.
func (h *Models) Remove(c echo.Context) error {
	if err := h.Store.DeleteLLM(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	respond.Flash(c, "Model deleted.")
	return respond.Redirect(c, paths.Models)
}
