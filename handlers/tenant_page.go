package handlers

import (
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

// Show is one tenant with its people, keys and models.
func (h *Tenants) Show(c echo.Context) error {
	t, err := h.Store.Tenant(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	v, err := h.page(c, views.Page{Tenant: t})
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// ShowAgain leads back from the address of a form that was sent, for a page that
// is loaded again.
func (h *Tenants) ShowAgain(c echo.Context) error {
	return respond.Redirect(c, paths.Tenant(c.Param("id")))
}

// page reads what stands around the forms that p brings.
func (h *Tenants) page(c echo.Context, p views.Page) (respond.View, error) {
	ctx, id := c.Request().Context(), p.Tenant.ID
	var err error
	if p.Members, err = h.Store.Members(ctx, id); err != nil {
		return respond.View{}, err
	}
	if p.Keys, p.Limited, p.Refused, err = keysOf(ctx, h.Store, h.Uses, p.Tenant, h.Now()); err != nil {
		return respond.View{}, err
	}
	if p.Deployments, err = h.Store.DeploymentsOf(ctx, id); err != nil {
		return respond.View{}, err
	}
	month, err := monthOf(ctx, h.Store, id, h.Now(), session.Zone(c))
	if err != nil {
		return respond.View{}, err
	}
	p.Month, p.Cost = month.Total.Tokens, moneyText(month.Total.Costs)
	if costs := month.Total.Costs; len(costs) == 1 {
		p.Cost, p.Currency = billing.Format(costs[0].Cost), costs[0].Currency
	}
	return respond.View{
		Title: p.Tenant.Title, Active: layout.NavTenants, Wide: true,
		Crumbs:  []ui.Link{{Label: "Tenants", Href: paths.Tenants}},
		Actions: []ui.Action{{Label: "Usage", Icon: "usage", Href: paths.Usage + "?tenant=" + p.Tenant.Name}},
		Menu: []ui.Action{
			{Label: "Change title and limits", Icon: "edit", Href: paths.EditTenant(id)},
			{
				Label: "Delete", Icon: "trash", Post: paths.RemoveTenant(id), Danger: true,
				ConfirmID: "delete", ConfirmTitle: "Delete " + p.Tenant.Title + "?",
				Confirm: "Its keys stop working at once and its people lose sight of it. Its usage stays in the books under its name.",
			},
		},
		Body: views.Show(p),
	}, nil
}

// AddMember gives a person a role; one who is new here gets a password.
func (h *Tenants) AddMember(c echo.Context) error {
	t, err := h.Store.Tenant(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	form, made, err := addMember(c, h.Store, h.Apply, t.Name, nil)
	if err != nil {
		return err
	}
	if made == nil && len(form.Errors) == 0 {
		return respond.Redirect(c, paths.Tenant(t.ID))
	}
	v, err := h.page(c, views.Page{Tenant: t, MemberForm: form, Made: made})
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Created(c, v)
}

// SaveMember gives a member another role.
func (h *Tenants) SaveMember(c echo.Context) error {
	ctx := c.Request().Context()
	m, err := h.Store.Membership(ctx, c.Param("id"), c.Param("user"))
	if err != nil {
		return err
	}
	if err := saveRole(c, h.Store, h.Apply, m, false); err != nil {
		return err
	}
	return respond.Redirect(c, paths.Tenant(m.TenantID))
}

// RemoveMember takes a person out of the tenant.
func (h *Tenants) RemoveMember(c echo.Context) error {
	id := c.Param("id")
	if err := h.Store.DeleteMembership(c.Request().Context(), id, c.Param("user")); err != nil {
		return err
	}
	respond.Flash(c, "Member removed.")
	return respond.Redirect(c, paths.Tenant(id))
}

// CreateKey makes a key and shows its secret this once.
func (h *Tenants) CreateKey(c echo.Context) error {
	t, err := h.Store.Tenant(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	form, made, err := createKey(c, h.Store, h.Apply, t.Name)
	if err != nil {
		return err
	}
	v, err := h.page(c, views.Page{Tenant: t, KeyForm: form, Made: made})
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Created(c, v)
}

// RevokeKey ends a key.
func (h *Tenants) RevokeKey(c echo.Context) error {
	id := c.Param("id")
	if err := h.Store.RevokeKey(c.Request().Context(), id, c.Param("key"), h.Now()); err != nil {
		return err
	}
	respond.Flash(c, "Key revoked.")
	return respond.Redirect(c, paths.Tenant(id))
}

// createKey makes a key of a tenant from a form. What is wrong with the form comes
// back in it; otherwise the secret comes back and the form is empty again.
func createKey(c echo.Context, s *store.Store, apply *Apply, tenant string) (views.KeyForm, *views.Made, error) {
	var form views.KeyForm
	if err := c.Bind(&form); err != nil {
		return form, nil, err
	}
	ctx := c.Request().Context()
	var result Result
	errs, err := inTx(ctx, s, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		spec := form.Spec(tenant, errs)
		t, err := tx.TenantByName(ctx, tenant)
		if err != nil {
			return err
		}
		if form.Name != "" {
			// A key that exists is unchanged for a document, but its secret is gone
			// for a person who waits for one.
			_, err := tx.KeyByName(ctx, t.ID, form.Name)
			taken, err := found(err)
			if err != nil {
				return err
			}
			if taken {
				errs.Add("name", "A key named “"+form.Name+"” exists already, or existed. Choose another name.")
			}
		}
		errs.With(spec.Validate())
		factory.CheckName(errs, "name", form.Name)
		if err := errs.Err(); err != nil {
			return err
		}
		result, err = apply.Key(ctx, tx, form.Name, session.Person(c).User.Email, spec)
		return err
	})
	if err != nil || len(errs) > 0 {
		form.Errors = errs
		return form, nil, err
	}
	return views.KeyForm{}, &views.Made{
		Title: "The key " + form.Name, Secret: result.Secrets[SecretKey], Scope: form.Scope,
		Advice: "Copy it now: only its hash is kept, and it is not shown again.",
	}, nil
}
