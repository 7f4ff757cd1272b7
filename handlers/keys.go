package handlers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/views/limits"
	views "tokenfactory/views/tenants"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Keys are a tenant's own pages of its keys.
type Keys struct {
	Store     *store.Store
	Apply     *Apply
	Uses      Uses
	Poke      func() // has the gateway read limits at once
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
	ctx, m := c.Request().Context(), session.Tenant(c)
	p := views.KeysPage{Form: form, Made: made, To: views.Places{
		Keys:      paths.OwnKeys(m.TenantName),
		Key:       func(key string) string { return paths.OwnKey(m.TenantName, key) },
		RevokeKey: func(key string) string { return paths.OwnRevokeKey(m.TenantName, key) },
	}}
	t, err := h.Store.Tenant(ctx, m.TenantID)
	if err != nil {
		return respond.View{}, err
	}
	if p.Keys, p.Tenant, p.Refused, err = keysOf(ctx, h.Store, h.Uses, t, h.Now()); err != nil {
		return respond.View{}, err
	}
	return respond.View{
		Title: "Keys", Active: layout.NavKeys, Wide: true,
		Lede: "Programs call models with a key. Its secret is shown once, when it is made.",
		Body: views.KeysView(p),
	}, nil
}

// keysOf reads a tenant's keys with how their limits and the tenant's stand.
func keysOf(ctx context.Context, s *store.Store, uses Uses, t factory.Tenant, now time.Time) ([]views.KeyRow, limits.Holder, []limits.Refused, error) {
	brief, cancel := patiently(ctx)
	defer cancel()
	tenant := holder(brief, uses, factory.ScopeTenant, t.ID, t.Title, t.Limits)
	keys, err := s.Keys(ctx, t.ID)
	if err != nil {
		return nil, tenant, nil, err
	}
	liveFirst(keys, now)
	rows := make([]views.KeyRow, len(keys))
	for i, k := range keys {
		rows[i].Key = k
		if k.Live(now) {
			rows[i].Limited = holder(brief, uses, factory.ScopeKey, k.ID, k.Name, k.Limits)
		}
	}
	refused, err := refusedOf(ctx, s, t.ID, now)
	return rows, tenant, refused, err
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
