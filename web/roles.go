package web

import (
	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/web/session"
)

// signedIn lets people in who have signed in.
func signedIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !session.Person(c).SignedIn() {
			return factory.Errorf(factory.Unauthenticated, "Sign in first.")
		}
		return next(c)
	}
}

// operator lets operators in.
func operator(next echo.HandlerFunc) echo.HandlerFunc {
	return signedIn(func(c echo.Context) error {
		if !session.Person(c).User.Operator {
			return factory.Errorf(factory.Forbidden, "Only operators may see this page.")
		}
		return next(c)
	})
}

// member lets members of the tenant in the address in. For everybody else, that
// tenant does not exist.
func member(next echo.HandlerFunc) echo.HandlerFunc {
	return signedIn(func(c echo.Context) error {
		m, ok := session.Person(c).Membership(c.Param("tenant"))
		if !ok {
			return factory.Errorf(factory.NotFound, "There is no tenant of this name that you belong to.")
		}
		session.SetTenant(c, m)
		return next(c)
	})
}

// known lets anybody in whom the API can tell apart; what they see is up to the
// tenant they are limited to.
func known(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !session.Person(c).Known() {
			return factory.Errorf(factory.Unauthenticated, "Send a management token or a key of scope management as “Authorization: Bearer …”.")
		}
		return next(c)
	}
}

// management lets operators and their programs in.
func management(next echo.HandlerFunc) echo.HandlerFunc {
	return known(func(c echo.Context) error {
		if !session.Person(c).Operator() {
			return factory.Errorf(factory.Forbidden, "Only operators and management tokens may do this.")
		}
		return next(c)
	})
}
