package handlers

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/account"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Account is a person's own page.
type Account struct {
	Store    *store.Store
	Sessions *session.Sessions
	Throttle *session.Throttle
}

func (h *Account) view(c echo.Context, form account.PasswordForm) respond.View {
	who := session.Person(c)
	return respond.View{
		Title: "Account",
		Body:  account.Show(account.Page{User: who.User, Tenants: who.Tenants, Password: form}),
	}
}

// Show is the page.
func (h *Account) Show(c echo.Context) error {
	return respond.Page(c, h.view(c, account.PasswordForm{}))
}

// ShowAgain leads back from the address of the password form, for a page that is
// loaded again.
func (h *Account) ShowAgain(c echo.Context) error { return respond.Redirect(c, paths.Account) }

// SavePassword changes the password and ends the person's other sessions.
func (h *Account) SavePassword(c echo.Context) error {
	var form account.PasswordForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	ctx := c.Request().Context()
	user := session.Person(c).User
	if form.Errors = form.Validate(); len(form.Errors) > 0 {
		return respond.Invalid(c, h.view(c, form))
	}
	// A session left open must not become a way to guess the password.
	if err := h.Throttle.Admit(ctx, user.Email, c.RealIP()); err != nil {
		return err
	}
	if !session.CheckPassword(user.PasswordHash, form.Current) {
		form.Errors = factory.FieldErrors{"current": "This is not your current password."}
		return respond.Invalid(c, h.view(c, form))
	}
	if err := h.Throttle.Succeeded(ctx, user.Email); err != nil {
		return err
	}
	hash, err := session.HashPassword(form.New)
	if err != nil {
		return err
	}
	err = h.Store.InTx(ctx, func(tx *store.Store) error {
		if err := tx.SavePassword(ctx, user.ID, hash); err != nil {
			return err
		}
		return tx.DeleteSessionsOf(ctx, user.ID, "")
	})
	if err != nil {
		return err
	}
	user.PasswordHash = hash
	if err := h.Sessions.SignIn(c.Request(), c.Response(), user); err != nil {
		return err
	}
	respond.Flash(c, "Your password is changed, and your other sessions have ended.")
	return respond.Redirect(c, paths.Account)
}

// Theme keeps the chosen theme in a cookie and returns to where it was chosen.
func (h *Account) Theme(c echo.Context) error {
	theme := c.FormValue("theme")
	cookie := &http.Cookie{Name: session.ThemeCookie, Path: "/", SameSite: http.SameSiteLaxMode, Secure: c.IsTLS()}
	switch theme {
	case "light", "dark":
		cookie.Value, cookie.MaxAge = theme, 365*24*3600
	case "system":
		cookie.MaxAge = -1
	default:
		return factory.Errorf(factory.Invalid, "Choose the light theme, the dark one, or the system's.")
	}
	c.SetCookie(cookie)
	back := paths.Home
	if u, err := url.Parse(c.Request().Referer()); err == nil && u.Host == c.Request().Host {
		back = localPath(u.RequestURI())
	}
	return respond.Redirect(c, back)
}
