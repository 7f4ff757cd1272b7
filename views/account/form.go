// Package account draws signing in, setting up, and a person's own page.
package account

import (
	"strings"

	"tokenfactory/factory"
)

// SignInForm is what somebody typed to sign in. The password is never sent back.
type SignInForm struct {
	Email    string `form:"email"`
	Password string `form:"password"`
	Next     string `form:"next"` // where to go afterwards
	Problem  string
}

// SetupForm makes the first operator.
type SetupForm struct {
	Token    string `form:"token"`
	Name     string `form:"name"`
	Email    string `form:"email"`
	Password string `form:"password"`
	Errors   factory.FieldErrors
}

// Validate checks what can be checked without looking anything up.
func (f *SetupForm) Validate() factory.FieldErrors {
	errs := factory.FieldErrors{}
	f.Name, f.Email = strings.TrimSpace(f.Name), NormalEmail(f.Email)
	if len(f.Name) > 200 {
		errs.Add("name", "Use at most 200 characters.")
	}
	factory.CheckEmail(errs, "email", f.Email)
	factory.CheckPassword(errs, "password", f.Password)
	return errs
}

// NormalEmail is an address as accounts are kept under it.
func NormalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// PasswordForm changes a person's own password.
type PasswordForm struct {
	Current string `form:"current"`
	New     string `form:"new"`
	Repeat  string `form:"repeat"`
	Errors  factory.FieldErrors
}

// Validate checks what can be checked without looking anything up.
func (f PasswordForm) Validate() factory.FieldErrors {
	errs := factory.FieldErrors{}
	if f.Current == "" {
		errs.Add("current", "Type your current password.")
	}
	factory.CheckPassword(errs, "new", f.New)
	if f.Repeat != f.New {
		errs.Add("repeat", "The two new passwords differ. Type the same one twice.")
	}
	return errs
}

// Page is a person's own page.
type Page struct {
	User     factory.User
	Tenants  []factory.Membership
	Password PasswordForm
}
