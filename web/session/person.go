// Package session knows who is asking: signed-in people by a cookie whose row is
// in the database, programs by a management token or a key. It declares what it
// needs of the store.
package session

import (
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
)

// Principal is who a request comes from. The zero value is nobody.
type Principal struct {
	User    factory.User
	Tenants []factory.Membership
	// Management is set for a request with the operators' management token.
	Management bool
	// TenantScope is the tenant that a key of scope management is limited to.
	TenantScope string
	// idHash names the session's row; empty for tokens and keys.
	idHash string
}

// SignedIn reports whether a person has signed in.
func (p Principal) SignedIn() bool { return p.User.ID != "" }

// Operator reports whether everything may be seen and changed: operators, and
// programs with the management token.
func (p Principal) Operator() bool { return p.User.Operator || p.Management }

// Known reports whether it is anybody at all.
func (p Principal) Known() bool { return p.SignedIn() || p.Management || p.TenantScope != "" }

// SessionHash names the row of the person's session, to keep it when the others end.
func (p Principal) SessionHash() string { return p.idHash }

// Membership finds the person's membership of a tenant by its name.
func (p Principal) Membership(tenantName string) (factory.Membership, bool) {
	for _, m := range p.Tenants {
		if m.TenantName == tenantName {
			return m, true
		}
	}
	return factory.Membership{}, false
}

const (
	personKey = "session.person"
	tenantKey = "session.tenant"
)

// Person is who the request comes from.
func Person(c echo.Context) Principal {
	p, _ := c.Get(personKey).(Principal)
	return p
}

// SetPerson is for the middleware that has found out.
func SetPerson(c echo.Context, p Principal) { c.Set(personKey, p) }

// Tenant is the membership under which a tenant's page is asked for; its zero
// value on every other page.
func Tenant(c echo.Context) factory.Membership {
	m, _ := c.Get(tenantKey).(factory.Membership)
	return m
}

// TenantID is the tenant whose page is asked for.
func TenantID(c echo.Context) string { return Tenant(c).TenantID }

// SetTenant is for the middleware that has checked the membership.
func SetTenant(c echo.Context, m factory.Membership) { c.Set(tenantKey, m) }

// RequireAdmin refuses members that may look but not change people.
func RequireAdmin(c echo.Context) error {
	if Tenant(c).Role != factory.Admin {
		return factory.Errorf(factory.Forbidden, "Only an admin of this tenant may do that. Ask one of them.")
	}
	return nil
}

// Scope is the one tenant that an API request is limited to; empty means all of
// them, and only operators get that. A person of several tenants names the
// one meant with ?tenant=.
func Scope(c echo.Context) (tenantID string, err error) {
	p := Person(c)
	asked := c.QueryParam("tenant")
	switch {
	case p.TenantScope != "":
		return p.TenantScope, nil
	case p.Operator() && asked == "":
		return "", nil
	case p.Operator():
		return asked, nil
	case asked != "":
		for _, m := range p.Tenants {
			if m.TenantID == asked || m.TenantName == asked {
				return m.TenantID, nil
			}
		}
		return "", factory.Errorf(factory.NotFound, "There is no such tenant.")
	case len(p.Tenants) == 1:
		return p.Tenants[0].TenantID, nil
	case len(p.Tenants) == 0:
		return "", factory.Errorf(factory.Forbidden, "You belong to no tenant yet. Ask an operator to add you.")
	default:
		return "", factory.Errorf(factory.Invalid, "You belong to several tenants. Say which one with ?tenant=NAME.")
	}
}

// zoneCookie is written by the page's script from what the browser knows.
const zoneCookie = "tz"

// Zone is the viewer's time zone; UTC until the browser has said.
func Zone(c echo.Context) *time.Location {
	cookie, err := c.Cookie(zoneCookie)
	if err != nil {
		return time.UTC
	}
	name, err := url.QueryUnescape(cookie.Value)
	if err != nil || name == "" || name == "Local" || len(name) > 64 {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// ThemeCookie keeps the chosen theme, so that the first paint already has it.
const ThemeCookie = "theme"

// Theme is light, dark, or empty for what the system says.
func Theme(c echo.Context) string {
	cookie, err := c.Cookie(ThemeCookie)
	if err != nil || (cookie.Value != "light" && cookie.Value != "dark") {
		return ""
	}
	return cookie.Value
}
