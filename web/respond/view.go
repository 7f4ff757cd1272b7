// Package respond is how answers leave: pages in their layout, forms that did not
// validate, redirects, JSON and CSV, and the one place where errors become an
// answer.
package respond

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/session"
)

// View is a page: its head, and its body.
type View struct {
	Title   string
	Active  layout.Nav
	Crumbs  []ui.Link
	State   templ.Component // badge beside the title
	Lede    string          // one sentence under the title
	Actions []ui.Action     // the first is the primary one
	Menu    []ui.Action     // the rest, folded
	Tabs    []ui.Link
	Charts  bool // needs the chart library
	Wide    bool // uses the whole width
	Body    templ.Component
}

const assetsKey = "respond.assets"

// SetAssets is for the middleware that knows what the browser downloads.
func SetAssets(c echo.Context, a layout.Assets) { c.Set(assetsKey, a) }

// nowKey holds the clock that pages are drawn by.
const nowKey = "respond.now"

// SetNow is for the middleware that knows the clock.
func SetNow(c echo.Context, now time.Time) { c.Set(nowKey, now) }

// spoolKey holds what tells how the usage spool stands.
const spoolKey = "respond.spool"

// SetSpool is for the middleware that knows who can tell.
func SetSpool(c echo.Context, spool func() layout.Spool) { c.Set(spoolKey, spool) }

// Page answers with a page in the console's layout.
func Page(c echo.Context, v View) error { return page(c, http.StatusOK, v) }

// Invalid answers with a form that did not validate: the same page again, filled,
// with what is wrong at each field.
func Invalid(c echo.Context, v View) error { return page(c, http.StatusUnprocessableEntity, v) }

// Created answers with a page after something was made whose secret is shown this
// once; it must not be kept by the browser.
func Created(c echo.Context, v View) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return page(c, http.StatusOK, v)
}

// Alone answers with a page without navigation.
func Alone(c echo.Context, status int, v View) error {
	p := pageOf(c, v)
	return render(c, status, layout.Alone(p), v.Body)
}

// Fragment answers with a component alone, for a request that asked for a part.
func Fragment(c echo.Context, status int, body templ.Component) error {
	return render(c, status, body, nil)
}

func page(c echo.Context, status int, v View) error {
	p := pageOf(c, v)
	// A form or a live part takes the main part only: the rest is on the screen already.
	if IsHTMX(c) {
		return render(c, status, layout.Main(p), v.Body)
	}
	return render(c, status, layout.Shell(p), v.Body)
}

func pageOf(c echo.Context, v View) layout.Page {
	who := session.Person(c)
	assets, _ := c.Get(assetsKey).(layout.Assets)
	p := layout.Page{
		Head: layout.Head{
			Title: v.Title, Crumbs: v.Crumbs, State: v.State, Lede: v.Lede,
			Actions: v.Actions, Menu: v.Menu, Tabs: v.Tabs,
		},
		Assets: assets, Active: v.Active, Charts: v.Charts, Wide: v.Wide,
		User: who.User, Tenants: who.Tenants, Tenant: session.Tenant(c), Theme: session.Theme(c),
		Flash: takeFlash(c),
	}
	if spool, ok := c.Get(spoolKey).(func() layout.Spool); ok && spool != nil && who.User.Operator && p.Tenant.TenantName == "" {
		state := spool()
		p.Spool = &state
	}
	// A member's personal pages keep the navigation of their tenant.
	if p.Tenant.TenantName == "" && !who.User.Operator && len(who.Tenants) > 0 {
		p.Tenant = who.Tenants[0]
	}
	return p
}

func render(c echo.Context, status int, frame, body templ.Component) error {
	csrf, _ := c.Get("csrf").(string)
	now, ok := c.Get(nowKey).(time.Time)
	if !ok {
		now = factory.Now()
	}
	ctx := ui.With(c.Request().Context(), ui.Request{Zone: session.Zone(c), Now: now, CSRF: csrf})
	if body != nil {
		ctx = templ.WithChildren(ctx, body)
	}
	// Drawn before the status is sent: a view that fails is still a clean 500.
	b := templ.GetBuffer()
	defer templ.ReleaseBuffer(b)
	if err := frame.Render(ctx, b); err != nil {
		return err
	}
	h := c.Response().Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	h.Add("Vary", "HX-Request")
	return c.HTMLBlob(status, b.Bytes())
}

// IsHTMX reports whether the page's script asked, for a part of the page.
func IsHTMX(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// Redirect leads to a path of the console after a change.
func Redirect(c echo.Context, path string) error {
	if IsHTMX(c) {
		c.Response().Header().Set("HX-Redirect", path)
		return c.NoContent(http.StatusNoContent)
	}
	return c.Redirect(http.StatusSeeOther, path)
}

const flashCookie = "flash"

// Flash has the next page say a sentence once: "Deployment saved."
func Flash(c echo.Context, sentence string) {
	c.SetCookie(&http.Cookie{
		Name: flashCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(sentence)),
		Path: "/", MaxAge: 60, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.IsTLS(),
	})
}

// takeFlash leaves the sentence for the whole page when only a part is asked for.
func takeFlash(c echo.Context) string {
	cookie, err := c.Cookie(flashCookie)
	if err != nil || cookie.Value == "" || IsHTMX(c) {
		return ""
	}
	c.SetCookie(&http.Cookie{Name: flashCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.IsTLS()})
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(text) > 500 {
		return ""
	}
	return string(text)
}
