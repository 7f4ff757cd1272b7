package handlers

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/account"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// SignIn lets people in and out.
type SignIn struct {
	Store    *store.Store
	Sessions *session.Sessions
	Throttle *session.Throttle
}

func signInView(form account.SignInForm) respond.View {
	return respond.View{Title: "Sign in", Body: account.SignIn(form)}
}

// Show is the form; whoever has signed in already is sent on.
func (h *SignIn) Show(c echo.Context) error {
	next := localPath(c.QueryParam("next"))
	if session.Person(c).SignedIn() {
		return respond.Redirect(c, next)
	}
	return respond.Alone(c, http.StatusOK, signInView(account.SignInForm{Next: next}))
}

// Create signs a person in.
func (h *SignIn) Create(c echo.Context) error {
	var form account.SignInForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	ctx := c.Request().Context()
	email := account.NormalEmail(form.Email)
	form.Next = localPath(form.Next)
	if email == "" || form.Password == "" || len(email) > 254 {
		return h.refuse(c, http.StatusUnprocessableEntity, form, "Type your e-mail address and your password.")
	}
	if err := h.Throttle.Admit(ctx, email, c.RealIP()); err != nil {
		if factory.KindOf(err) == factory.RateLimited {
			return h.refuse(c, http.StatusTooManyRequests, form, factory.MessageOf(err))
		}
		return err
	}
	user, err := h.Store.UserByEmail(ctx, email)
	if err != nil && factory.KindOf(err) != factory.NotFound {
		return err
	}
	// An unknown address is checked like a known one, and answered alike.
	if !session.CheckPassword(user.PasswordHash, form.Password) {
		return h.refuse(c, http.StatusUnprocessableEntity, form, "That address and password do not belong together. Check both and try again.")
	}
	if err := h.Throttle.Succeeded(ctx, email); err != nil {
		return err
	}
	if err := h.Sessions.SignIn(c.Request(), c.Response(), user); err != nil {
		return err
	}
	return respond.Redirect(c, form.Next)
}

func (h *SignIn) refuse(c echo.Context, status int, form account.SignInForm, problem string) error {
	form.Problem = problem
	return respond.Alone(c, status, signInView(form))
}

// Remove signs out here.
func (h *SignIn) Remove(c echo.Context) error {
	if err := h.Sessions.SignOut(c.Request(), c.Response()); err != nil {
		return err
	}
	return respond.Redirect(c, paths.SignIn)
}

// RemoveAll signs out everywhere.
func (h *SignIn) RemoveAll(c echo.Context) error {
	if err := h.Store.DeleteSessionsOf(c.Request().Context(), session.Person(c).User.ID, ""); err != nil {
		return err
	}
	if err := h.Sessions.SignOut(c.Request(), c.Response()); err != nil {
		return err
	}
	respond.Flash(c, "You are signed out everywhere.")
	return respond.Redirect(c, paths.SignIn)
}

// localPath keeps a redirect on this console: what is no plain path of it becomes
// the start page. Browsers take a backslash for a slash, and two slashes for a host.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return paths.Home
	}
	return path
}
