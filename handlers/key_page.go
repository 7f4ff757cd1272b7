package handlers

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/views/limits"
	views "tokenfactory/views/tenants"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// readKeyPage gathers what one key's page says. The caller has found the key under the
// tenant that may see it.
func readKeyPage(ctx context.Context, s *store.Store, uses Uses, k factory.Key, operator bool, zone *time.Location, now time.Time) (views.KeyPage, error) {
	p := views.KeyPage{Key: k, Form: views.LimitsForm{Form: limits.FormOf(k.Limits)}}
	t, err := findTenant(ctx, s, k.TenantID)
	if err != nil {
		return p, err
	}
	deployments, err := s.DeploymentsOf(ctx, k.TenantID)
	if err != nil {
		return p, err
	}
	p.Holders, p.More = holdersOf(ctx, uses, k, t, deployments, operator)
	if k.Scope == factory.ScopeInference {
		p.Foreign = foreignPrices(p.Holders, deployments)
	}
	refused, err := refusalsOf(ctx, s, k.TenantID, now)
	if err != nil {
		return p, err
	}
	n, err := readNames(ctx, s)
	if err != nil {
		return p, err
	}
	refused = slices.DeleteFunc(refused, func(r factory.Refusals) bool { return r.KeyID != k.ID })
	p.Refused = limits.RefusedOf(refused, now, func(r factory.Refusals) string {
		if r.Scope != factory.ScopeDeployment {
			return "" // whose it is says which
		}
		return nameRefusal(n)(r)
	})
	b, err := readBook(ctx, s, k.TenantID, monthStart(now, zone), now, zone)
	if err != nil {
		return p, err
	}
	month, err := b.ofKey(k.ID).by(billing.ByKey)
	if err != nil {
		return p, err
	}
	p.Month, p.Cost = month.Total.Tokens, moneyText(month.Total.Costs)
	if costs := month.Total.Costs; len(costs) == 1 {
		p.Cost, p.Currency = billing.Format(costs[0].Cost), costs[0].Currency
	}
	return p, nil
}

// keyView is the frame of a key's page.
func keyView(p views.KeyPage, v respond.View, revoke string) respond.View {
	k := p.Key
	v.Title, v.State, v.Body, v.Wide = k.Name, views.KeyState(k), views.KeyView(p), true
	v.Actions = []ui.Action{
		{Label: "Usage", Icon: "usage", Href: p.To.Usage},
		{Label: "Requests", Icon: "table", Href: p.To.Requests},
	}
	if k.RevokedAt == nil {
		v.Menu = []ui.Action{revokeKey(k, revoke)}
	}
	return v
}

func revokeKey(k factory.Key, action string) ui.Action {
	return ui.Action{
		Label: "Revoke", Icon: "cross", Danger: true, Post: action, ConfirmID: "revoke-" + k.ID, ConfirmTitle: "Revoke " + k.Name + "?",
		Confirm: "Programs that use it are refused within two seconds. A revoked key cannot be brought back; its usage keeps its name.",
	}
}

// saveKeyLimits gives a key the limits of a form; what is wrong with it comes back.
func saveKeyLimits(c echo.Context, s *store.Store, apply *Apply, k factory.Key) (views.LimitsForm, error) {
	var form views.LimitsForm
	if err := c.Bind(&form); err != nil {
		return form, err
	}
	ctx := c.Request().Context()
	outcome := Unchanged
	errs, err := inTx(ctx, s, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		l := form.Limits(errs)
		if err := errs.With(l.Validate()).Err(); err != nil {
			return err
		}
		// Read inside: somebody may have revoked it since.
		k, err := tx.Key(ctx, k.TenantID, k.ID)
		if err != nil {
			return err
		}
		result, err := apply.KeyLimits(ctx, tx, k, l)
		outcome = result.Outcome
		return err
	})
	form.Errors = errs
	if err != nil || len(errs) > 0 {
		return form, err
	}
	if outcome == Unchanged {
		respond.Flash(c, "Nothing was changed.")
	} else {
		respond.Flash(c, "Limits saved.")
	}
	return form, nil
}

// Show is one key of the tenant in the address.
func (h *Keys) Show(c echo.Context) error {
	k, err := h.Store.Key(c.Request().Context(), session.TenantID(c), c.Param("key"))
	if err != nil {
		return err
	}
	v, err := h.keyView(c, k, nil)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

func (h *Keys) keyView(c echo.Context, k factory.Key, form *views.LimitsForm) (respond.View, error) {
	p, err := readKeyPage(c.Request().Context(), h.Store, h.Uses, k, false, session.Zone(c), h.Now())
	if err != nil {
		return respond.View{}, err
	}
	if form != nil {
		p.Form = *form
	}
	tenant := session.Tenant(c).TenantName
	of := url.Values{"key": {k.ID}, "range": {"30d"}}
	p.To = views.KeyPlaces{Key: paths.OwnKey(tenant, k.ID), Usage: paths.With(paths.OwnUsage(tenant), of), Requests: paths.With(paths.OwnRequests(tenant), of)}
	return keyView(p, respond.View{
		Active: layout.NavKeys, Crumbs: []ui.Link{{Label: "Keys", Href: paths.OwnKeys(tenant)}},
	}, paths.OwnRevokeKey(tenant, k.ID)), nil
}

// SaveLimits changes the limits of a key of the tenant in the address.
func (h *Keys) SaveLimits(c echo.Context) error {
	k, err := h.Store.Key(c.Request().Context(), session.TenantID(c), c.Param("key"))
	if err != nil {
		return err
	}
	form, err := saveKeyLimits(c, h.Store, h.Apply, k)
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		v, err := h.keyView(c, k, &form)
		if err != nil {
			return err
		}
		return respond.Invalid(c, v)
	}
	h.Poke()
	return respond.Redirect(c, paths.OwnKey(session.Tenant(c).TenantName, k.ID))
}

// ShowKey is one key of a tenant, for operators.
func (h *Tenants) ShowKey(c echo.Context) error {
	k, err := h.Store.Key(c.Request().Context(), c.Param("id"), c.Param("key"))
	if err != nil {
		return err
	}
	v, err := h.keyView(c, k, nil)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

func (h *Tenants) keyView(c echo.Context, k factory.Key, form *views.LimitsForm) (respond.View, error) {
	p, err := readKeyPage(c.Request().Context(), h.Store, h.Uses, k, true, session.Zone(c), h.Now())
	if err != nil {
		return respond.View{}, err
	}
	if form != nil {
		p.Form = *form
	}
	for i, x := range p.Holders {
		if x.Scope == factory.ScopeTenant {
			p.Holders[i].Href = paths.Tenant(k.TenantID)
		}
	}
	of := url.Values{"tenant": {k.TenantName}, "key": {k.ID}, "range": {"30d"}}
	p.To = views.KeyPlaces{Key: paths.Key(k.TenantID, k.ID), Usage: paths.With(paths.Usage, of), Requests: paths.With(paths.Requests, of)}
	return keyView(p, respond.View{
		Active: layout.NavTenants, Crumbs: []ui.Link{{Label: "Tenants", Href: paths.Tenants}, {Label: p.Holders[1].Name, Href: paths.Tenant(k.TenantID)}},
	}, paths.RevokeKey(k.TenantID, k.ID)), nil
}

// SaveKeyLimits changes the limits of a key, for operators.
func (h *Tenants) SaveKeyLimits(c echo.Context) error {
	k, err := h.Store.Key(c.Request().Context(), c.Param("id"), c.Param("key"))
	if err != nil {
		return err
	}
	form, err := saveKeyLimits(c, h.Store, h.Apply, k)
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		v, err := h.keyView(c, k, &form)
		if err != nil {
			return err
		}
		return respond.Invalid(c, v)
	}
	h.Poke()
	return respond.Redirect(c, paths.Key(k.TenantID, k.ID))
}
