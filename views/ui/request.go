// Package ui holds the parts that every page is made of: fields, buttons, states,
// tables, times. They carry no business rules and need no JavaScript.
package ui

import (
	"context"
	"time"
)

// Request is what parts need to know about the request they are drawn for. It
// travels in the context, so that a time deep inside a table knows the viewer's zone.
type Request struct {
	Zone *time.Location
	Now  time.Time
	CSRF string
}

type requestKey struct{}

// With returns a context for drawing parts.
func With(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// From is what With put in; without it, UTC and the current time.
func From(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	if r.Zone == nil {
		r.Zone = time.UTC
	}
	if r.Now.IsZero() {
		r.Now = time.Now()
	}
	return r
}
