// Package web is how HTTP works here: the one map of addresses by role, the
// middleware, and the mounting of what is not the console.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/handlers"
	"tokenfactory/static"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Site is what the console is made of.
type Site struct {
	Store *store.Store
	// Gateway and Agents are mounted bare: they have their own credentials, and
	// streams that no middleware may hold back.
	Gateway http.Handler
	Agents  http.Handler
	// Metrics is the gateway's own Prometheus page, for management tokens; nil: none.
	Metrics http.Handler
	// Poke has the controller and the gateway look at once, after a change.
	Poke func()
	// Deliver has queued deliveries sent at once, such as the test of a channel.
	Deliver func()
	// Limits tells how limits stand now, and Spool how usage stands that the ledger does
	// not have yet. Where they are nil, pages say that it is not known.
	Limits handlers.Uses
	Spool  func() layout.Spool
	// PublicURL is how people and agents reach the console, when it is known.
	PublicURL string
	Now       func() time.Time
	Log       *slog.Logger
}

// New wires the site up. It fails when the binary was built without its assets.
func New(site Site) (*echo.Echo, error) {
	if err := static.Check(); err != nil {
		return nil, err
	}
	if site.Now == nil {
		site.Now = factory.Now
	}
	if site.Log == nil {
		site.Log = slog.New(slog.DiscardHandler)
	}
	if site.Poke == nil {
		site.Poke = func() {}
	}
	if site.Deliver == nil {
		site.Deliver = func() {}
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	// Only the connection says who is asking; forwarded headers can be made up.
	e.IPExtractor = echo.ExtractIPDirect()
	assets := layout.Assets{
		CSS: static.URL("app.css"), App: static.URL("app.js"), HTMX: static.URL("htmx.js"),
		Charts: static.URL("charts.js"), Icon: static.URL("icon.svg"),
	}
	e.HTTPErrorHandler = respond.Problem(site.Log)
	sessions := &session.Sessions{Rows: handlers.SessionRows{Store: site.Store}, Now: site.Now, Secure: site.secure()}
	site.routes(e, assets, sessions)
	return e, nil
}

// secure reports whether people reach the console over https.
func (s Site) secure() bool {
	u, err := url.Parse(s.PublicURL)
	return err == nil && strings.EqualFold(u.Scheme, "https")
}
