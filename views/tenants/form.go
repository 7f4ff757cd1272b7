// Package tenants is how tenants look, with the people and the keys that belong to
// them: to operators, and to their own members.
package tenants

import (
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/views/limits"
	"tokenfactory/views/ui"
)

// Form is a tenant as typed.
type Form struct {
	Name  string `form:"name"`
	Title string `form:"title"`
	limits.Form

	Errors factory.FieldErrors `form:"-"`
}

// FormOf fills the form from a tenant.
func FormOf(t factory.Tenant) Form {
	return Form{Name: t.Name, Title: t.Title, Form: limits.FormOf(t.Limits)}
}

// Spec reads what was typed; text that is no number is reported at its field.
func (f Form) Spec(errs factory.FieldErrors) factory.TenantSpec {
	return factory.TenantSpec{Title: strings.TrimSpace(f.Title), Limits: f.Limits(errs)}
}

// MemberForm is a person to add to a tenant, as typed.
type MemberForm struct {
	Email string `form:"email"`
	Name  string `form:"name"`
	Role  string `form:"role"`

	Errors factory.FieldErrors `form:"-"`
}

// Spec reads what was typed.
func (f MemberForm) Spec(tenant string) factory.MemberSpec {
	return factory.MemberSpec{Tenant: tenant, Name: strings.TrimSpace(f.Name), Role: factory.Role(f.Role)}
}

func (f MemberForm) role() string {
	if f.Role == "" {
		return string(factory.Member)
	}
	return f.Role
}

var roles = []ui.Option{
	{Value: string(factory.Member), Label: "Member", Hint: "models, keys and usage"},
	{Value: string(factory.Admin), Label: "Admin", Hint: "also manages people"},
}

func roleWord(r factory.Role) string {
	if r == factory.Admin {
		return "Admin"
	}
	return "Member"
}

func otherRole(r factory.Role) factory.Role {
	if r == factory.Admin {
		return factory.Member
	}
	return factory.Admin
}

// KeyForm is a key to make, as typed.
type KeyForm struct {
	Name      string `form:"name"`
	Scope     string `form:"scope"`
	ExpiresAt string `form:"expires_at"`
	limits.Form

	Errors factory.FieldErrors `form:"-"`
}

// Spec reads what was typed; text that is no number is reported at its field.
func (f KeyForm) Spec(tenant string, errs factory.FieldErrors) factory.KeySpec {
	return factory.KeySpec{
		Tenant: tenant, Scope: f.Scope,
		Limits:    f.Limits(errs),
		ExpiresAt: strings.TrimSpace(f.ExpiresAt),
	}
}

func (f KeyForm) scope() string {
	if f.Scope == "" {
		return factory.ScopeInference
	}
	return f.Scope
}

var scopes = []ui.Option{
	{Value: factory.ScopeInference, Label: "Inference", Hint: "calls models"},
	{Value: factory.ScopeManagement, Label: "Management", Hint: "reads this tenant's usage and metrics"},
}

// Made is a secret that was just made and is shown this once.
type Made struct {
	Title  string
	Secret string
	Advice string
	// Scope of a key, and a request to copy that uses it.
	Scope  string
	Sample string
}

// keyState says whether a key may be used now, in a word with its tone.
func keyState(k factory.Key, now time.Time) (ui.Tone, string) {
	switch {
	case k.RevokedAt != nil:
		return ui.Plain, "Revoked"
	case !k.Live(now):
		return ui.Warn, "Expired"
	}
	return ui.Good, "Active"
}
