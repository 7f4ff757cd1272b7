package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"tokenfactory/factory"
	"tokenfactory/views/layout"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// policy lets the page use what this server sends and nothing else; there is no
// inline script and no inline style anywhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Forms are small. Documents of the API may describe a whole factory.
const (
	formLimit     = "1M"
	documentLimit = "8M"
)

// dressing gives an answer its headers and what its page refers to.
func (s Site) dressing(assets layout.Assets) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			respond.SetAssets(c, assets)
			respond.SetNow(c, s.Now())
			respond.SetSpool(c, s.Spool)
			h := c.Response().Header()
			h.Set("Content-Security-Policy", policy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "same-origin")
			h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
			if c.IsTLS() || s.secure() {
				h.Set("Cross-Origin-Opener-Policy", "same-origin")
				h.Set("Strict-Transport-Security", "max-age=31536000")
			}
			return next(c)
		}
	}
}

// requestID numbers requests; one from outside is not taken over, because it ends
// up in the log.
func requestID() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Response().Header().Set(echo.HeaderXRequestID, factory.NewID()[:16])
			return next(c)
		}
	}
}

// accessLog writes a line for each request, without the query: it may hold a
// set-up link's token.
func accessLog(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			began := time.Now()
			err := next(c)
			if err != nil {
				c.Error(err) // answered here, so that the line has its status
			}
			level := slog.LevelInfo
			if respond.IsHTMX(c) && c.Request().Method == http.MethodGet {
				level = slog.LevelDebug // live parts ask every few seconds
			}
			log.LogAttrs(c.Request().Context(), level, "request",
				slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID)),
				slog.String("method", c.Request().Method), slog.String("path", c.Request().URL.Path),
				slog.Int("status", c.Response().Status), slog.Int64("bytes", c.Response().Size),
				slog.Float64("ms", float64(time.Since(began).Microseconds())/1000),
				slog.String("from", c.RealIP()), slog.String("user", session.Person(c).User.ID))
			return nil
		}
	}
}

// recovered turns a panic into an error of our own, with its stack in the log.
func recovered(log *slog.Logger) echo.MiddlewareFunc {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{
		DisableErrorHandler: true,
		LogErrorFunc: func(c echo.Context, err error, stack []byte) error {
			log.Error("panic", "path", c.Request().URL.Path, "error", err, "stack", string(stack))
			return err
		},
	})
}

// csrf trusts what the browser says about where a request comes from; without
// that, as on plain http, a form carries a token.
func csrf(secure bool) echo.MiddlewareFunc {
	return middleware.CSRFWithConfig(middleware.CSRFConfig{
		Skipper: func(c echo.Context) bool {
			// A bearer token is no cookie: no other site can make a browser send it.
			_, program := session.Bearer(c.Request())
			return program
		},
		TokenLookup: "header:X-CSRF-Token,form:_csrf",
		CookieName:  "csrf", CookiePath: "/", CookieHTTPOnly: true, CookieSecure: secure, CookieSameSite: http.SameSiteLaxMode,
		CookieMaxAge: 14 * 24 * 3600,
	})
}
