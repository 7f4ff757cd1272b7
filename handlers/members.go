package handlers

import (
	"slices"
	"strings"
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

// Members is a tenant's own page of its people.
type Members struct {
	Store *store.Store
	Apply *Apply
	Now   func() time.Time
}

// List shows who belongs to the tenant; admins can change it there.
func (h *Members) List(c echo.Context) error {
	v, err := h.view(c, views.MemberForm{}, nil)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

func (h *Members) view(c echo.Context, form views.MemberForm, made *views.Made) (respond.View, error) {
	t := session.Tenant(c)
	people, err := h.Store.Members(c.Request().Context(), t.TenantID)
	if err != nil {
		return respond.View{}, err
	}
	to := views.Places{
		Members:      paths.OwnMembers(t.TenantName),
		SaveMember:   func(user string) string { return paths.OwnSaveMember(t.TenantName, user) },
		RemoveMember: func(user string) string { return paths.OwnRemoveMember(t.TenantName, user) },
	}
	return respond.View{
		Title: "Members", Active: layout.NavMembers,
		Lede: "Everybody here sees the models, keys and usage of " + t.TenantTitle + ".",
		Body: views.MembersPage(people, form, to, session.RequireAdmin(c) == nil, session.Person(c).User.ID, made),
	}, nil
}

// Add gives a person a role in the tenant.
func (h *Members) Add(c echo.Context) error {
	if err := session.RequireAdmin(c); err != nil {
		return err
	}
	t := session.Tenant(c)
	form, made, err := addMember(c, h.Store, h.Apply, t.TenantName, h.stranger)
	if err != nil {
		return err
	}
	if made == nil && len(form.Errors) == 0 {
		return respond.Redirect(c, paths.OwnMembers(t.TenantName))
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

// stranger refuses an address that has an account and is no member here. Whoever
// made that account, perhaps the admin of another tenant, may know its password;
// whether to trust it is for operators, who see where it comes from.
func (h *Members) stranger(c echo.Context, tx *store.Store, email string) error {
	ctx := c.Request().Context()
	u, err := tx.UserByEmail(ctx, strings.ToLower(strings.TrimSpace(email)))
	known, err := found(err)
	if err != nil || !known {
		return err
	}
	_, err = tx.Membership(ctx, session.TenantID(c), u.ID)
	if member, err := found(err); member || err != nil {
		return err
	}
	return factory.FieldErrors{"email": "This person has an account already. Ask an operator to add them here."}
}

// Save gives a member another role.
func (h *Members) Save(c echo.Context) error {
	if err := session.RequireAdmin(c); err != nil {
		return err
	}
	t := session.Tenant(c)
	m, err := h.Store.Membership(c.Request().Context(), t.TenantID, c.Param("user"))
	if err != nil {
		return err
	}
	if err := saveRole(c, h.Store, h.Apply, m, true); err != nil {
		return err
	}
	return respond.Redirect(c, paths.OwnMembers(t.TenantName))
}

// Remove takes a person out of the tenant.
func (h *Members) Remove(c echo.Context) error {
	if err := session.RequireAdmin(c); err != nil {
		return err
	}
	ctx, t := c.Request().Context(), session.Tenant(c)
	err := h.Store.InTx(ctx, func(tx *store.Store) error {
		people, err := tx.Members(ctx, t.TenantID)
		if err != nil {
			return err
		}
		if lastAdmin(people, c.Param("user")) {
			return errLastAdmin
		}
		return tx.DeleteMembership(ctx, t.TenantID, c.Param("user"))
	})
	if err != nil {
		return err
	}
	respond.Flash(c, "Member removed.")
	return respond.Redirect(c, paths.OwnMembers(t.TenantName))
}

// A tenant that locked itself out would have to ask an operator.
var errLastAdmin = factory.Errorf(factory.Conflict, "This is the tenant's only admin. Make somebody else an admin first.")

func lastAdmin(people []factory.Membership, userID string) bool {
	isAdmin := func(m factory.Membership) bool { return m.Role == factory.Admin && m.UserID == userID }
	others := func(m factory.Membership) bool { return m.Role == factory.Admin && m.UserID != userID }
	return slices.ContainsFunc(people, isAdmin) && !slices.ContainsFunc(people, others)
}

// addMember adds the person of a form. What is wrong with it comes back in it; the
// password of a new person comes back to be shown, and nil for one who has one.
// check, if any, has a say about the address.
func addMember(c echo.Context, s *store.Store, apply *Apply, tenant string, check func(c echo.Context, tx *store.Store, email string) error) (views.MemberForm, *views.Made, error) {
	var form views.MemberForm
	if err := c.Bind(&form); err != nil {
		return form, nil, err
	}
	ctx := c.Request().Context()
	var result Result
	errs, err := inTx(ctx, s, func(tx *store.Store) error {
		if check != nil {
			if err := check(c, tx, form.Email); err != nil {
				return err
			}
		}
		var err error
		result, err = apply.Member(ctx, tx, form.Email, form.Spec(tenant))
		return err
	})
	if err != nil {
		return form, nil, err
	}
	if len(errs) > 0 {
		// A document calls the address the member's name.
		if message, ok := errs["name"]; ok {
			delete(errs, "name")
			errs.Add("email", message)
		}
		form.Errors = errs
		return form, nil, nil
	}
	if password := result.Secrets[SecretPassword]; password != "" {
		return views.MemberForm{}, &views.Made{
			Title: "First password of " + form.Email, Secret: password,
			Advice: "Give it to them over a safe way: it is not shown again. They can change it on their account page.",
		}, nil
	}
	switch result.Outcome {
	case Created:
		respond.Flash(c, form.Email+" is a member now, and signs in with the password they have.")
	case Changed:
		respond.Flash(c, form.Email+" was a member already and has the new role.")
	default:
		respond.Flash(c, form.Email+" has this role already.")
	}
	return views.MemberForm{}, nil, nil
}

// saveRole changes a role; keepAdmin refuses to take it from the last admin.
func saveRole(c echo.Context, s *store.Store, apply *Apply, m factory.Membership, keepAdmin bool) error {
	ctx := c.Request().Context()
	role := factory.Role(c.FormValue("role"))
	err := s.InTx(ctx, func(tx *store.Store) error {
		people, err := tx.Members(ctx, m.TenantID)
		if err != nil {
			return err
		}
		if keepAdmin && role != factory.Admin && lastAdmin(people, m.UserID) {
			return errLastAdmin
		}
		_, err = apply.Member(ctx, tx, m.Email, factory.MemberSpec{Tenant: m.TenantName, Role: role})
		return err
	})
	if err == nil {
		respond.Flash(c, m.Email+" has the role "+string(role)+" now.")
	}
	return err
}
