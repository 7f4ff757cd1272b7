package handlers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/aliases"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Aliases are the operators' pages of other names for models.
type Aliases struct {
	Store *store.Store
	Apply *Apply
	Poke  func() // has the gateway read routes at once
	Now   func() time.Time
}

// aliasesNow gives aliases the state of what is behind them.
func aliasesNow(list []factory.Alias, f fleet) []views.Alias {
	states := map[string]views.Target{}
	for _, d := range f.deployments {
		state, _ := d.Status(f.replicasOf(d.ID), f.silent)
		states[d.ID] = views.Target{PublicName: d.PublicName, State: state}
	}
	targets := func(in []factory.AliasTarget) []views.Target {
		out := make([]views.Target, len(in))
		for i, t := range in {
			out[i] = states[t.DeploymentID]
			out[i].AliasTarget = t
		}
		return out
	}
	out := make([]views.Alias, len(list))
	for i, a := range list {
		out[i] = views.Alias{ID: a.ID, Name: a.Name, Targets: targets(a.Targets), Fallbacks: targets(a.Fallbacks), CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt}
	}
	return out
}

// List is every alias.
func (h *Aliases) List(c echo.Context) error {
	ctx := c.Request().Context()
	list, err := h.Store.AllAliases(ctx)
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	v := respond.View{
		Title: "Aliases", Active: layout.NavAliases, Wide: true,
		Lede: "Other model names for clients, which lead to deployments by weight.",
		Body: views.List(aliasesNow(list, f), len(f.deployments)),
	}
	if len(list) > 0 {
		v.Actions = []ui.Action{{Label: "New alias", Icon: "plus", Href: paths.NewAlias, Primary: true}}
	}
	return respond.Page(c, v)
}

// Show is one alias.
func (h *Aliases) Show(c echo.Context) error {
	ctx := c.Request().Context()
	a, err := h.Store.Alias(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	now := aliasesNow([]factory.Alias{a}, f)[0]
	return respond.Page(c, respond.View{
		Title: a.Name, Active: layout.NavAliases, State: views.State(now),
		Crumbs:  []ui.Link{{Label: "Aliases", Href: paths.Aliases}},
		Actions: []ui.Action{{Label: "Change", Icon: "edit", Href: paths.EditAlias(a.ID)}},
		Menu: []ui.Action{{
			Label: "Delete", Icon: "trash", Post: paths.RemoveAlias(a.ID), Danger: true,
			ConfirmID: "delete", ConfirmTitle: "Delete " + a.Name + "?",
			Confirm: "Clients that send this name get “model not found” from then on. The deployments behind it stay, and answer to their own names.",
		}},
		Body: views.Show(now),
	})
}

// New is the empty form.
func (h *Aliases) New(c echo.Context) error { return h.page(c, views.Form{}, factory.Alias{}) }

// Edit is the form of an alias that exists.
func (h *Aliases) Edit(c echo.Context) error {
	a, err := h.Store.Alias(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return h.page(c, views.FormOf(a), a)
}

// page is the form; 422 when something is wrong with it.
func (h *Aliases) page(c echo.Context, form views.Form, a factory.Alias) error {
	deployments, err := h.Store.AllDeployments(c.Request().Context())
	if err != nil {
		return err
	}
	v := respond.View{
		Title: "New alias", Active: layout.NavAliases, Crumbs: []ui.Link{{Label: "Aliases", Href: paths.Aliases}},
		Body: views.FormView(views.FormPage{Form: form, ID: a.ID, Deployments: deployments}),
	}
	if a.ID != "" {
		v.Title = "Change " + a.Name
		v.Crumbs = append(v.Crumbs, ui.Link{Label: a.Name, Href: paths.Alias(a.ID)})
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Page(c, v)
}

// Create makes an alias.
func (h *Aliases) Create(c echo.Context) error { return h.save(c, factory.Alias{}) }

// Update saves where an alias leads to. Its name stays: clients send it.
func (h *Aliases) Update(c echo.Context) error {
	a, err := h.Store.Alias(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return h.save(c, a)
}

func (h *Aliases) save(c echo.Context, a factory.Alias) error {
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	if a.ID != "" {
		form.Name = a.Name
	}
	if form.MoreRows != "" {
		return h.page(c, form, a)
	}
	ctx := c.Request().Context()
	var result Result
	var err error
	form.Errors, err = inTx(ctx, h.Store, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		spec := form.Spec(errs)
		if a.ID == "" {
			if err := checkNew(ctx, errs, "alias", form.Name, tx.AliasByName); err != nil {
				return err
			}
		}
		checkAliasName(errs, form.Name)
		if err := errs.With(spec.Validate()).Err(); err != nil {
			return err
		}
		result, err = h.Apply.Alias(ctx, tx, form.Name, spec)
		return err
	})
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return h.page(c, form, a)
	}
	h.Poke()
	respond.Flash(c, aliasOutcomes[result.Outcome])
	return respond.Redirect(c, paths.Alias(result.ID))
}

var aliasOutcomes = map[string]string{
	Created: "Alias created. Clients may send its name from now on.", Changed: "Alias saved.", Unchanged: "Nothing was changed.",
}

// Remove deletes an alias.
func (h *Aliases) Remove(c echo.Context) error {
	if err := h.Store.DeleteAlias(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	h.Poke()
	respond.Flash(c, "Alias deleted.")
	return respond.Redirect(c, paths.Aliases)
}

// aliasJSON is an alias in the API. Tenants see those that lead them somewhere, with
// the names that they may send themselves.
type aliasJSON struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"` // what clients send as the model
	Targets   []aliasTargetJSON `json:"targets"`
	Fallbacks []aliasTargetJSON `json:"fallbacks"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

type aliasTargetJSON struct {
	Deployment string `json:"deployment"`
	Model      string `json:"model"`
	Weight     *int   `json:"weight,omitempty"` // of targets
}

// ListJSON lists aliases: all for operators, for a tenant those that it can use.
func (h *Aliases) ListJSON(c echo.Context) error {
	ctx := c.Request().Context()
	tenantID, err := session.Scope(c)
	if err != nil {
		return err
	}
	list, err := h.aliases(ctx, tenantID)
	if err != nil {
		return err
	}
	models, err := h.Store.PublicNames(ctx)
	if err != nil {
		return err
	}
	out := make([]aliasJSON, len(list))
	for i, a := range list {
		out[i] = aliasJSON{ID: a.ID, Name: a.Name, Targets: []aliasTargetJSON{}, Fallbacks: []aliasTargetJSON{}, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt}
		for _, t := range a.Targets {
			out[i].Targets = append(out[i].Targets, aliasTargetJSON{t.Deployment, models[t.DeploymentID], &t.Weight})
		}
		for _, t := range a.Fallbacks {
			out[i].Fallbacks = append(out[i].Fallbacks, aliasTargetJSON{t.Deployment, models[t.DeploymentID], nil})
		}
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"aliases": out})
}

func (h *Aliases) aliases(ctx context.Context, tenantID string) ([]factory.Alias, error) {
	if tenantID == "" {
		return h.Store.AllAliases(ctx)
	}
	t, err := findTenant(ctx, h.Store, tenantID) // operators may name it
	if err != nil {
		return nil, err
	}
	return h.Store.Aliases(ctx, t.ID)
}
