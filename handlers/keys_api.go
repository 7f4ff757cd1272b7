package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/limits"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// KeysAPI is keys for programs: their limits, how those stand, and what they refused.
type KeysAPI struct {
	Store *store.Store
	Apply *Apply
	Uses  Uses
	Poke  func()
	Now   func() time.Time
}

// keyJSON is a key in the API; its secret is nowhere.
type keyJSON struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Tenant     string     `json:"tenant"`
	TenantID   string     `json:"tenant_id"`
	Prefix     string     `json:"prefix"`
	Scope      string     `json:"scope"`
	State      string     `json:"state"` // active, expired or revoked
	CreatedBy  string     `json:"created_by,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	limitsJSON
}

// limitsJSON is limits with how they stand. Use is null where nobody can tell; it is
// never a zero that stands for that.
type limitsJSON struct {
	Limits factory.Limits     `json:"limits"`
	Use    []factory.LimitUse `json:"use"`
}

// keyInFullJSON adds what holds for the key beside its own limits.
type keyInFullJSON struct {
	keyJSON
	TenantLimits limitsJSON          `json:"tenant_limits"`
	Deployments  []deploymentUseJSON `json:"deployments"` // those with limits of their own
	Refusals     []refusalsJSON      `json:"refusals"`
}

// deploymentUseJSON is limits of a model that the key may call. Budgets that others
// spend as well are left out for tenants.
type deploymentUseJSON struct {
	Model string `json:"model"`
	limitsJSON
}

type refusalsJSON struct {
	Scope factory.Scope     `json:"scope"`
	Limit factory.LimitKind `json:"limit"`
	Name  string            `json:"name,omitempty"` // of the key or model whose limit it was
	Day   int64             `json:"last_24_hours"`
	Week  int64             `json:"last_7_days"`
	Month int64             `json:"last_30_days"`
	Last  time.Time         `json:"last_quarter"` // its beginning
}

func (h *KeysAPI) json(ctx context.Context, k factory.Key) keyJSON {
	state := "active"
	switch {
	case k.RevokedAt != nil:
		state = "revoked"
	case !k.Live(h.Now()):
		state = "expired"
	}
	return keyJSON{
		ID: k.ID, Name: k.Name, Tenant: k.TenantName, TenantID: k.TenantID, Prefix: k.Prefix, Scope: k.Scope, State: state, CreatedBy: k.CreatedBy,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
		limitsJSON: useJSON(holder(ctx, h.Uses, factory.ScopeKey, k.ID, k.Name, k.Limits)),
	}
}

// useJSON leaves out what the reader is not to see.
func useJSON(h limits.Holder) limitsJSON {
	out := limitsJSON{Limits: h.Limits, Use: h.Use}
	if h.Limits.None() {
		out.Use = []factory.LimitUse{}
	}
	if h.Shared {
		out.Limits.Budget, out.Limits.BudgetCurrency, out.Limits.BudgetPeriod = "", "", ""
		out.Use = nil
		for _, u := range h.Use {
			if u.Kind != factory.LimitBudget {
				out.Use = append(out.Use, u)
			}
		}
	}
	return out
}

// List is the keys of the tenant that asks, or all of them for operators.
func (h *KeysAPI) List(c echo.Context) error {
	tenantID, err := session.Scope(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	var keys []factory.Key
	if tenantID == "" {
		keys, err = h.Store.AllKeys(ctx)
	} else {
		var t factory.Tenant
		if t, err = findTenant(ctx, h.Store, tenantID); err == nil {
			keys, err = h.Store.Keys(ctx, t.ID)
		}
	}
	if err != nil {
		return err
	}
	brief, cancel := patiently(ctx)
	defer cancel()
	out := make([]keyJSON, len(keys))
	for i, k := range keys {
		out[i] = h.json(brief, k)
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"keys": out})
}

// find is the key in the address. One of another tenant than the one that asks does
// not exist.
func (h *KeysAPI) find(c echo.Context) (factory.Key, bool, error) {
	tenantID, err := session.Scope(c)
	if err != nil {
		return factory.Key{}, false, err
	}
	ctx, id := c.Request().Context(), c.Param("key")
	if tenantID != "" {
		t, err := findTenant(ctx, h.Store, tenantID)
		if err != nil {
			return factory.Key{}, false, err
		}
		k, err := h.Store.Key(ctx, t.ID, id)
		return k, session.Person(c).Operator(), err
	}
	k, err := anyKey(ctx, h.Store, id)
	return k, true, err
}

// Show is one key with all limits that hold for it.
func (h *KeysAPI) Show(c echo.Context) error {
	k, operator, err := h.find(c)
	if err != nil {
		return err
	}
	p, err := readKeyPage(c.Request().Context(), h.Store, h.Uses, k, operator, session.Zone(c), h.Now())
	if err != nil {
		return err
	}
	out := keyInFullJSON{keyJSON: h.json(c.Request().Context(), k), Deployments: []deploymentUseJSON{}, Refusals: refusedJSON(p.Refused)}
	for _, x := range p.Holders {
		switch x.Scope {
		case factory.ScopeTenant:
			out.TenantLimits = useJSON(x)
		case factory.ScopeDeployment:
			out.Deployments = append(out.Deployments, deploymentUseJSON{x.Name, useJSON(x)})
		}
	}
	return respond.JSON(c, http.StatusOK, out)
}

// Tenant is the limits of the tenant that asks, and what they and those of its keys and
// models refused. Operators name the tenant.
func (h *KeysAPI) Tenant(c echo.Context) error {
	tenantID, err := session.Scope(c)
	if err != nil {
		return err
	}
	if tenantID == "" {
		return factory.Errorf(factory.Invalid, "Say whose limits are meant with ?tenant=NAME.")
	}
	ctx := c.Request().Context()
	t, err := findTenant(ctx, h.Store, tenantID)
	if err != nil {
		return err
	}
	refused, err := refusedOf(ctx, h.Store, t.ID, h.Now())
	if err != nil {
		return err
	}
	now := holder(ctx, h.Uses, factory.ScopeTenant, t.ID, t.Title, t.Limits)
	return respond.JSON(c, http.StatusOK, struct {
		Tenant   string `json:"tenant"`
		TenantID string `json:"tenant_id"`
		limitsJSON
		Refusals []refusalsJSON `json:"refusals"`
	}{t.Name, t.ID, useJSON(now), refusedJSON(refused)})
}

func refusedJSON(list []limits.Refused) []refusalsJSON {
	out := make([]refusalsJSON, len(list))
	for i, r := range list {
		out[i] = refusalsJSON{r.Scope, r.Kind, r.Name, r.Day, r.Week, r.Month, r.Last}
	}
	return out
}

// maxLimits bounds the body of limits; they are a few hundred bytes.
const maxLimits = 64 << 10

// SaveLimits gives a key the limits in the body: all of them, so that one which is left
// out is none.
func (h *KeysAPI) SaveLimits(c echo.Context) error {
	k, _, err := h.find(c)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(c.Request().Body, maxLimits))
	if err != nil {
		return factory.Errorf(factory.Invalid, "The body ended early. Send it again.")
	}
	var l factory.Limits
	if raw = quoteMoney(raw); !json.Valid(raw) {
		return factory.Errorf(factory.Invalid, "This is not JSON that can be read. Check quotes, commas and brackets.")
	}
	if text := bytes.TrimLeft(raw, " \t\r\n"); text[0] != '{' {
		return factory.Errorf(factory.Invalid, "Send a JSON object with limits; one that is empty takes all of them away.")
	}
	if err := decodeStrictly(raw, &l, "limits have "+fieldNames(l)); err != nil {
		return err
	}
	ctx := c.Request().Context()
	err = h.Store.InTx(ctx, func(tx *store.Store) error {
		if k, err = tx.Key(ctx, k.TenantID, k.ID); err != nil {
			return err
		}
		_, err := h.Apply.KeyLimits(ctx, tx, k, l)
		return err
	})
	if err != nil {
		return err
	}
	h.Poke()
	if k, err = h.Store.Key(ctx, k.TenantID, k.ID); err != nil {
		return err
	}
	return respond.JSON(c, http.StatusOK, h.json(ctx, k))
}
