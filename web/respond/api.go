package respond

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
)

type apiError struct {
	Error apiErrorBody `json:"error"`
}

type apiErrorBody struct {
	Kind      factory.Kind        `json:"kind"`
	Message   string              `json:"message"`
	Fields    factory.FieldErrors `json:"fields,omitempty"`
	RequestID string              `json:"request_id,omitempty"`
}

func apiProblem(c echo.Context, status int, message string, fields factory.FieldErrors, requestID string) error {
	return JSON(c, status, apiError{apiErrorBody{Kind: kindOf(status), Message: message, Fields: fields, RequestID: requestID}})
}

// kindOf names a status as the error table does.
func kindOf(status int) factory.Kind {
	switch status {
	case http.StatusNotFound:
		return factory.NotFound
	case http.StatusUnauthorized:
		return factory.Unauthenticated
	case http.StatusForbidden:
		return factory.Forbidden
	case http.StatusConflict:
		return factory.Conflict
	case http.StatusRequestEntityTooLarge:
		return factory.TooLarge
	case http.StatusTooManyRequests:
		return factory.RateLimited
	case http.StatusServiceUnavailable:
		return factory.Unavailable
	case http.StatusUpgradeRequired:
		return factory.Incompatible
	}
	if status >= 500 {
		return factory.Internal
	}
	return factory.Invalid
}
