package factory

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Kind says what sort of failure an Error is; everything that answers a request
// derives its status from it.
type Kind string

const (
	NotFound        Kind = "not_found"
	Invalid         Kind = "invalid"
	Conflict        Kind = "conflict"
	Unauthenticated Kind = "unauthenticated"
	Forbidden       Kind = "forbidden"
	TooLarge        Kind = "too_large"
	RateLimited     Kind = "rate_limited"
	Unavailable     Kind = "unavailable"
	Incompatible    Kind = "incompatible" // the other side speaks another protocol version
	Internal        Kind = "internal"
)

// Plain numbers: the nouns know no HTTP, they only say what each kind means there.
var statuses = map[Kind]int{
	NotFound:        404,
	Invalid:         400,
	Conflict:        409,
	Unauthenticated: 401,
	Forbidden:       403,
	TooLarge:        413,
	RateLimited:     429,
	Unavailable:     503,
	Incompatible:    426,
	Internal:        500,
}

// Status is the HTTP status of a kind; an unknown kind is our own fault.
func (k Kind) Status() int {
	if s, ok := statuses[k]; ok {
		return s
	}
	return 500
}

// Error is the one error type that crosses package borders. Message is a
// sentence for people and may be shown to anybody who may see the request;
// Err is the cause and only ever logged.
type Error struct {
	Kind    Kind
	Message string
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of the given kind without a cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf is the kind of the first Error in err's chain; anything else is Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var f FieldErrors
	if errors.As(err, &f) {
		return Invalid
	}
	return Internal
}

// MessageOf is the sentence to show for err. What is not ours to show becomes a
// neutral sentence; the cause stays in the log.
func MessageOf(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Kind != Internal {
		return e.Message
	}
	var f FieldErrors
	if errors.As(err, &f) {
		return f.Error()
	}
	return "Something went wrong on our side. Try again; if it stays, look at the server's log."
}

// FieldErrors maps a form field (its name in forms and API documents) to what is
// wrong with it. It is an error so that the API can return it as it is.
type FieldErrors map[string]string

// Add keeps the first message of a field: the first is the cause, later ones
// are often its consequences.
func (f FieldErrors) Add(field, message string) {
	if _, taken := f[field]; !taken {
		f[field] = message
	}
}

// With adds what others found, and returns the same map.
func (f FieldErrors) With(others FieldErrors) FieldErrors {
	for field, message := range others {
		f.Add(field, message)
	}
	return f
}

// Err is nil when nothing is wrong.
func (f FieldErrors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

func (f FieldErrors) Error() string {
	fields := make([]string, 0, len(f))
	for k := range f {
		fields = append(fields, k)
	}
	sort.Strings(fields)
	parts := make([]string, len(fields))
	for i, k := range fields {
		parts[i] = k + ": " + f[k]
	}
	return strings.Join(parts, " ")
}
