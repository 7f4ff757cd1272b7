package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"tokenfactory/handlers"
	"tokenfactory/static"
	"tokenfactory/views/layout"
	"tokenfactory/web/paths"
	"tokenfactory/web/session"
)

// routes is the one map of addresses. Middleware sits on groups, never on the root:
// what is mounted bare must stay bare.
func (s Site) routes(e *echo.Echo, assets layout.Assets, sessions *session.Sessions) {
	s.bare(e)

	base := []echo.MiddlewareFunc{requestID(), s.dressing(assets), accessLog(s.Log), recovered(s.Log)}
	console := e.Group("", append(base,
		middleware.BodyLimit(formLimit), csrf(s.secure()), session.Identify(sessions, s.Store))...)
	api := e.Group(paths.API, append(base,
		middleware.BodyLimit(documentLimit), csrf(s.secure()), session.Identify(sessions, s.Store), session.IdentifyProgram(s.Store, s.Now))...)

	s.people(console, sessions)
	s.operators(console)
	s.tenants(console)
	s.programs(api)
}

// bare mounts what is not the console.
func (s Site) bare(e *echo.Echo) {
	if s.Gateway != nil {
		e.Any(paths.Gateway, echo.WrapHandler(s.Gateway))
		e.Any(paths.Gateway+"/*", echo.WrapHandler(s.Gateway))
	}
	if s.Agents != nil {
		e.Any(paths.Agents, echo.WrapHandler(s.Agents))
		e.Any(paths.Agents+"/*", echo.WrapHandler(s.Agents))
	}
	files := echo.WrapHandler(static.Handler())
	e.GET(paths.Static+"/*", files)
	e.HEAD(paths.Static+"/*", files)
	e.GET(paths.Health, func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
}

// people is what anybody reaches, and what belongs to one person.
func (s Site) people(g *echo.Group, sessions *session.Sessions) {
	throttle := &session.Throttle{Attempts: s.Store, Now: s.Now}
	signIn := &handlers.SignIn{Store: s.Store, Sessions: sessions, Throttle: throttle}
	g.GET(paths.SignIn, signIn.Show)
	g.POST(paths.SignIn, signIn.Create)
	g.POST(paths.SignOut, signIn.Remove)
	g.POST(paths.SignOutAll, signIn.RemoveAll, signedIn)

	setup := &handlers.Setup{Store: s.Store, Sessions: sessions, Now: s.Now}
	g.GET(paths.Setup, setup.Show)
	g.POST(paths.Setup, setup.Create)

	account := &handlers.Account{Store: s.Store, Sessions: sessions, Throttle: throttle}
	g.GET(paths.Account, account.Show, signedIn)
	g.POST(paths.AccountPassword, account.SavePassword, signedIn)
	g.POST(paths.Theme, account.Theme)

	home := &handlers.Home{Store: s.Store, Now: s.Now}
	g.GET(paths.Home, home.Show, signedIn)
}

// operators is what operators see and change.
func (s Site) operators(g *echo.Group) {
}

// tenants is what the members of one tenant see and change.
func (s Site) tenants(g *echo.Group) {
}

// programs is the JSON API.
func (s Site) programs(g *echo.Group) {
}
