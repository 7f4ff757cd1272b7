package respond

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/views/layout"
	"tokenfactory/web/paths"
	"tokenfactory/web/session"
)

// Problem is the one place where an error becomes an answer: JSON for the API, a
// fragment for the page's script, a page for everybody else. Causes that are
// our own fault are logged here and nowhere shown.
func Problem(log *slog.Logger) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		status, message, fields := describe(err)
		requestID := c.Response().Header().Get(echo.HeaderXRequestID)
		if status >= 500 {
			log.LogAttrs(c.Request().Context(), slog.LevelError, "request failed",
				slog.String("request_id", requestID), slog.String("method", c.Request().Method),
				slog.String("path", c.Request().URL.Path), slog.Int("status", status), slog.Any("error", err))
		}
		if c.Response().Committed {
			return
		}
		if err := answer(c, status, message, fields, requestID); err != nil {
			log.Error("answer with a problem", "request_id", requestID, "error", err)
		}
	}
}

func answer(c echo.Context, status int, message string, fields factory.FieldErrors, requestID string) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	p := layout.Problem{Status: status, Title: titles(status), Message: message}
	if status >= 500 {
		p.RequestID = requestID
	}
	switch {
	case c.Request().Method == http.MethodHead:
		return c.NoContent(status)
	case isAPI(c):
		return apiProblem(c, status, message, fields, p.RequestID)
	case status == http.StatusUnauthorized:
		return Redirect(c, signIn(c))
	case IsHTMX(c):
		h := c.Response().Header()
		h.Set("HX-Retarget", "#problems")
		h.Set("HX-Reselect", "#problems")
		h.Set("HX-Reswap", "outerHTML show:top")
		return Fragment(c, status, layout.ProblemNotice(p))
	}
	body := layout.ProblemBody(p)
	if session.Person(c).SignedIn() {
		page := pageOf(c, View{})
		page.Title = ""
		return render(c, status, layout.Shell(page), body)
	}
	return Alone(c, status, View{Body: body})
}

func isAPI(c echo.Context) bool {
	path := c.Request().URL.Path
	return path == paths.API || path == paths.Scrape || strings.HasPrefix(path, paths.API+"/")
}

// signIn remembers where a person wanted to go. What a script or a form asked
// for is no place to come back to.
func signIn(c echo.Context) string {
	r := c.Request()
	if r.Method != http.MethodGet || IsHTMX(c) || r.URL.Path == paths.Home {
		return paths.SignIn
	}
	return paths.SignInTo(r.URL.RequestURI())
}

func describe(err error) (status int, message string, fields factory.FieldErrors) {
	var e *factory.Error
	var h *echo.HTTPError
	switch {
	case errors.As(err, &fields):
		return http.StatusUnprocessableEntity, "Some fields need your attention.", fields
	case errors.As(err, &e):
		return e.Kind.Status(), factory.MessageOf(e), nil
	case errors.As(err, &h):
		return h.Code, httpMessage(h.Code), nil
	}
	return http.StatusInternalServerError, factory.MessageOf(err), nil
}

// httpMessage says in a sentence what the router and its middleware refuse.
func httpMessage(status int) string {
	switch status {
	case http.StatusNotFound:
		return "There is nothing at this address. It may have been deleted, or the link is wrong."
	case http.StatusMethodNotAllowed:
		return "This address does not take that kind of request."
	case http.StatusForbidden, http.StatusBadRequest:
		return "The request could not be trusted to come from this page. Load the page again and repeat what you did."
	case http.StatusRequestEntityTooLarge:
		return "That is more than this form takes. Send less."
	case http.StatusUnsupportedMediaType:
		return "The request's content type is not one that is understood here."
	}
	if status >= 500 {
		return factory.MessageOf(errors.New(""))
	}
	return "The request could not be understood."
}

func titles(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "Not allowed"
	case http.StatusUnauthorized:
		return "Sign in first"
	case http.StatusConflict:
		return "That does not go together"
	case http.StatusTooManyRequests:
		return "Too many attempts"
	case http.StatusServiceUnavailable:
		return "Not available right now"
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return "That did not work"
	case http.StatusRequestEntityTooLarge:
		return "Too large"
	}
	if status >= 500 {
		return "Something went wrong"
	}
	return "That did not work"
}
