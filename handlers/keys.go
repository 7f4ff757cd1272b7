package handlers

import (
	"cmp"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	views "tokenfactory/views/tenants"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Keys is a tenant's own page of its keys.
type Keys struct {
	Store     *store.Store
	Apply     *Apply
	PublicURL string
	Now       func() time.Time
}

// List shows the tenant's keys and the form of a new one.
func (h *Keys) List(c echo.Context) error {
	v, err := h.view(c, views.KeyForm{}, nil)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

func (h *Keys) view(c echo.Context, form views.KeyForm, made *views.Made) (respond.View, error) {
	t := session.Tenant(c)
	keys, err := h.Store.Keys(c.Request().Context(), t.TenantID)
	if err != nil {
		return respond.View{}, err
	}
	liveFirst(keys, h.Now())
	to := views.Places{
		Keys:      paths.OwnKeys(t.TenantName),
		RevokeKey: func(key string) string { return paths.OwnRevokeKey(t.TenantName, key) },
	}
	return respond.View{
		Title: "Keys", Active: layout.NavKeys, Wide: true,
		Lede: "Programs call models with a key. Its secret is shown once, when it is made.",
		Body: views.KeysPage(keys, form, to, made),
	}, nil
}

// Create makes a key and shows its secret this once.
func (h *Keys) Create(c echo.Context) error {
	form, made, err := createKey(c, h.Store, h.Apply, session.Tenant(c).TenantName)
	if err != nil {
		return err
	}
	if made != nil {
		if made.Sample, err = h.sample(c, made); err != nil {
			return err
		}
	}
	v, err := h.view(c, form, made)
	if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Created(c, v)
}

// sample is a request that works with a new key as it is: a model of the tenant for
// a key of scope inference, its usage for one of scope management.
func (h *Keys) sample(c echo.Context, made *views.Made) (string, error) {
	if made.Scope == factory.ScopeManagement {
		return "curl " + baseURL(c, h.PublicURL) + paths.API + "/usage \\\n  -H \"Authorization: Bearer " + made.Secret + "\"", nil
	}
	cards, err := sharedCards(c, h.Store, h.PublicURL, h.Now())
	if err != nil || len(cards) == 0 {
		return "", err
	}
	return cards[0].Sample(made.Secret), nil
}

// Revoke ends a key of the tenant.
func (h *Keys) Revoke(c echo.Context) error {
	t := session.Tenant(c)
	if err := h.Store.RevokeKey(c.Request().Context(), t.TenantID, c.Param("key"), h.Now()); err != nil {
		return err
	}
	respond.Flash(c, "Key revoked.")
	return respond.Redirect(c, paths.OwnKeys(t.TenantName))
}

// liveFirst puts keys that work before those that do not, in the order they had.
func liveFirst(keys []factory.Key, now time.Time) {
	dead := func(k factory.Key) int {
		if k.Live(now) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(keys, func(a, b factory.Key) int { return cmp.Compare(dead(a), dead(b)) })
}
