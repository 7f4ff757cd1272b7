package handlers

import (
	"context"

	"tokenfactory/store"
	"tokenfactory/web/session"
)

// SessionRows keeps sessions in the store.
type SessionRows struct{ Store *store.Store }

// Session reads one row.
func (s SessionRows) Session(ctx context.Context, idHash string) (session.Row, error) {
	row, err := s.Store.Session(ctx, idHash)
	return session.Row(row), err
}

// SaveSession creates or renews one row.
func (s SessionRows) SaveSession(ctx context.Context, row session.Row) error {
	return s.Store.SaveSession(ctx, store.SessionRow(row))
}

// DeleteSession ends one session.
func (s SessionRows) DeleteSession(ctx context.Context, idHash string) error {
	return s.Store.DeleteSession(ctx, idHash)
}
