package handlers

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	views "tokenfactory/views/tenants"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Tenants are the operators' pages of tenants, with their people and keys.
type Tenants struct {
	Store *store.Store
	Apply *Apply
	Uses  Uses
	Poke  func() // has the gateway read limits at once
	Now   func() time.Time
}

// List is every tenant with what it used this month.
func (h *Tenants) List(c echo.Context) error {
	ctx := c.Request().Context()
	all, err := h.Store.AllTenants(ctx)
	if err != nil {
		return err
	}
	keys, err := h.Store.AllKeys(ctx)
	if err != nil {
		return err
	}
	deployments, err := h.Store.AllDeployments(ctx)
	if err != nil {
		return err
	}
	now := h.Now()
	month, err := monthOf(ctx, h.Store, "", now, session.Zone(c), billing.ByTenant)
	if err != nil {
		return err
	}
	brief, cancel := patiently(ctx)
	defer cancel()
	rows := make([]views.Row, len(all))
	for i, t := range all {
		members, err := h.Store.Members(ctx, t.ID)
		if err != nil {
			return err
		}
		rows[i] = views.Row{Tenant: t, Members: len(members), Limited: holder(brief, h.Uses, factory.ScopeTenant, t.ID, t.Title, t.Limits)}
		for _, k := range keys {
			if k.TenantID == t.ID && k.Live(now) {
				rows[i].Keys++
			}
		}
		for _, d := range deployments {
			if d.SharedWith(t.ID) {
				rows[i].Deployments++
			}
		}
		var costs []billing.Amount
		for _, l := range month.Lines {
			if l.TenantID == t.ID {
				rows[i].Requests += l.Requests
				costs = append(costs, l.Amount)
			}
		}
		rows[i].Cost = moneyText(billing.Sum(costs...))
	}
	return respond.Page(c, respond.View{
		Title: "Tenants", Active: layout.NavTenants, Wide: true,
		Lede:    "Customers and teams: their people, keys and models, and what they use.",
		Actions: []ui.Action{{Label: "New tenant", Icon: "plus", Href: paths.NewTenant, Primary: true}},
		Body:    views.List(rows),
	})
}

// New is the empty form.
func (h *Tenants) New(c echo.Context) error {
	return respond.Page(c, h.form(views.Form{}, factory.Tenant{}))
}

// Create makes a tenant.
func (h *Tenants) Create(c echo.Context) error {
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	ctx := c.Request().Context()
	var made Result
	var err error
	form.Errors, err = inTx(ctx, h.Store, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		spec := form.Spec(errs)
		if err := checkNew(ctx, errs, "tenant", form.Name, tx.TenantByName); err != nil {
			return err
		}
		if err := errs.With(spec.Validate()).Err(); err != nil {
			return err
		}
		made, err = h.Apply.Tenant(ctx, tx, form.Name, spec)
		return err
	})
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, h.form(form, factory.Tenant{}))
	}
	respond.Flash(c, "Tenant created. Add its people, then share a deployment with it.")
	return respond.Redirect(c, paths.Tenant(made.ID))
}

// Edit is the form of a tenant that exists.
func (h *Tenants) Edit(c echo.Context) error {
	t, err := h.Store.Tenant(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return respond.Page(c, h.form(views.FormOf(t), t))
}

// Update saves a tenant's title and limits. Its name stays: it is part of addresses.
func (h *Tenants) Update(c echo.Context) error {
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := h.Store.Tenant(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	form.Errors, err = inTx(ctx, h.Store, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		spec := form.Spec(errs)
		if err := errs.With(spec.Validate()).Err(); err != nil {
			return err
		}
		_, err := h.Apply.Tenant(ctx, tx, t.Name, spec)
		return err
	})
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, h.form(form, t))
	}
	h.Poke()
	respond.Flash(c, "Tenant saved.")
	return respond.Redirect(c, paths.Tenant(t.ID))
}

// Remove takes a tenant away; its usage stays.
func (h *Tenants) Remove(c echo.Context) error {
	ctx := c.Request().Context()
	t, err := h.Store.Tenant(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	if err := h.Store.DeleteTenant(ctx, t.ID); err != nil {
		return err
	}
	respond.Flash(c, "Tenant "+t.Name+" deleted.")
	return respond.Redirect(c, paths.Tenants)
}

func (h *Tenants) form(form views.Form, t factory.Tenant) respond.View {
	v := respond.View{
		Title: "New tenant", Active: layout.NavTenants,
		Crumbs: []ui.Link{{Label: "Tenants", Href: paths.Tenants}},
		Body:   views.FormView(form, t.ID),
	}
	if t.ID != "" {
		v.Title = "Change " + t.Title
		v.Crumbs = append(v.Crumbs, ui.Link{Label: t.Title, Href: paths.Tenant(t.ID)})
	}
	return v
}

// monthOf is what was used since the month began in the viewer's zone.
func monthOf(ctx context.Context, s *store.Store, tenantID string, now time.Time, zone *time.Location, by ...billing.Dimension) (billing.Statement, error) {
	b, err := readBook(ctx, s, tenantID, monthStart(now, zone), now, zone)
	if err != nil {
		return billing.Statement{}, err
	}
	return b.by(by...)
}

// monthStart is when the month began in a zone.
func monthStart(now time.Time, zone *time.Location) time.Time {
	local := now.In(zone)
	return billing.DayStart(local.Year(), local.Month(), 1, zone)
}

// moneyText writes amounts for people; currencies stand beside each other.
func moneyText(amounts []billing.Amount) string {
	text := ""
	for _, a := range amounts {
		if a.Currency == "" {
			continue
		}
		if text != "" {
			text += " + "
		}
		text += billing.Format(a.Cost) + " " + a.Currency
	}
	if text == "" {
		return billing.Format(billing.Amount{}.Cost)
	}
	return text
}
