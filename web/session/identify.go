package session

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
)

// People is what finding out who asks needs of the store.
type People interface {
	User(ctx context.Context, id string) (factory.User, error)
	Memberships(ctx context.Context, userID string) ([]factory.Membership, error)
	KeyByHash(ctx context.Context, hash string) (factory.Key, error)
	Setting(ctx context.Context, key string) (string, error)
}

// Identify finds the person of the request's session.
func Identify(s *Sessions, people People) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			user, row, ok, err := s.person(c.Request(), people)
			if err != nil {
				return err
			}
			if !ok {
				return next(c)
			}
			if err := s.renew(c.Request(), c.Response(), row); err != nil {
				return err
			}
			tenants, err := people.Memberships(c.Request().Context(), user.ID)
			if err != nil {
				return err
			}
			SetPerson(c, Principal{User: user, Tenants: tenants, idHash: row.ID})
			return next(c)
		}
	}
}

// IdentifyProgram finds who a bearer token of the API belongs to. Without one the
// request's session counts; a token that is no good is refused, and never falls
// back to it.
func IdentifyProgram(people People, now func() time.Time) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			token, has := Bearer(c.Request())
			if !has {
				return next(c)
			}
			ctx := c.Request().Context()
			if strings.HasPrefix(token, factory.PrefixManagement) {
				ok, err := IsManagementToken(ctx, people, token)
				if err != nil {
					return err
				}
				if !ok {
					return factory.Errorf(factory.Unauthenticated, "This management token is not known. Make a new one with “tokenfactory admin token”.")
				}
				SetPerson(c, Principal{Management: true})
				return next(c)
			}
			key, err := people.KeyByHash(ctx, factory.HashSecret(token))
			switch {
			case factory.KindOf(err) == factory.NotFound:
				return factory.Errorf(factory.Unauthenticated, "This key is not known. Check it, or create a new one on the Keys page.")
			case err != nil:
				return err
			case !key.Live(now()):
				return factory.Errorf(factory.Unauthenticated, "This key was revoked or has expired. Create a new one on the Keys page.")
			case key.Scope != factory.ScopeManagement:
				return factory.Errorf(factory.Forbidden, "This key is for inference only. Create one of scope management on the Keys page.")
			}
			SetPerson(c, Principal{TenantScope: key.TenantID})
			return next(c)
		}
	}
}

// Bearer is the token of an Authorization header; has tells an empty or malformed
// one from none at all.
func Bearer(r *http.Request) (token string, has bool) {
	header := r.Header.Get(echo.HeaderAuthorization)
	if header == "" {
		return "", false
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(token), true
}
