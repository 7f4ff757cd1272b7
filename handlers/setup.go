package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/account"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Setup makes the first operator, once.
type Setup struct {
	Store    *store.Store
	Sessions *session.Sessions
	Now      func() time.Time
}

// EnsureSetup makes a new set-up link's token while there is no operator. The
// token of an earlier start stops working.
func EnsureSetup(ctx context.Context, s *store.Store) (token string, needed bool, err error) {
	n, err := s.CountOperators(ctx)
	if err != nil || n > 0 {
		return "", false, err
	}
	token, err = session.NewSetupToken(ctx, s)
	return token, true, err
}

func setupView(form account.SetupForm) respond.View {
	return respond.View{
		Title: "Set up this Token Factory",
		Lede:  "Create the first operator. Operators register machines, deploy models and add tenants.",
		Body:  account.Setup(form),
	}
}

// Show is the form behind a set-up link.
func (h *Setup) Show(c echo.Context) error {
	token := c.QueryParam("token")
	ok, err := session.IsSetupToken(c.Request().Context(), h.Store, token)
	if err != nil {
		return err
	}
	if !ok {
		return h.gone(c)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return respond.Alone(c, http.StatusOK, setupView(account.SetupForm{Token: token}))
}

// Create makes the operator and signs them in.
func (h *Setup) Create(c echo.Context) error {
	var form account.SetupForm
	if err := c.Bind(&form); err != nil {
		return err
	}
	ctx := c.Request().Context()
	ok, err := session.IsSetupToken(ctx, h.Store, form.Token)
	if err != nil {
		return err
	}
	if !ok {
		return h.gone(c)
	}
	if form.Errors = form.Validate(); len(form.Errors) > 0 {
		return respond.Alone(c, http.StatusUnprocessableEntity, setupView(form))
	}
	hash, err := session.HashPassword(form.Password)
	if err != nil {
		return err
	}
	user := factory.User{
		ID: factory.NewID(), Email: form.Email, Name: form.Name, PasswordHash: hash, Operator: true, CreatedAt: h.Now(),
	}
	err = h.Store.InTx(ctx, func(tx *store.Store) error { return firstOperator(ctx, tx, user) })
	if factory.KindOf(err) == factory.Conflict {
		return h.gone(c)
	}
	if err != nil {
		return err
	}
	if err := h.Sessions.SignIn(c.Request(), c.Response(), user); err != nil {
		return err
	}
	return respond.Redirect(c, paths.Home)
}

// firstOperator uses the link up before it looks: two people with the same link
// then wait for each other, and the second one sees the first one's operator.
func firstOperator(ctx context.Context, tx *store.Store, user factory.User) error {
	if err := session.EndSetup(ctx, tx); err != nil {
		return err
	}
	n, err := tx.CountOperators(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		return factory.Errorf(factory.Conflict, "This Token Factory has its first operator already. Sign in.")
	}
	return tx.CreateUser(ctx, user)
}

func (h *Setup) gone(c echo.Context) error {
	n, err := h.Store.CountOperators(c.Request().Context())
	if err != nil {
		return err
	}
	return respond.Alone(c, http.StatusGone, respond.View{Title: "This set-up link no longer works", Body: account.SetupGone(n > 0)})
}
