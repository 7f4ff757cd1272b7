package store

import (
	"context"
	"time"
)

// SessionRow is a signed-in browser. Its id is a secret, so only the hash is kept.
type SessionRow struct {
	IDHash    string
	UserID    string // empty while nobody has signed in
	Data      []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

const sessionColumns = `id_hash, user_id, data, created_at, expires_at`

func scanSession(r row) (SessionRow, error) {
	var x SessionRow
	return x, r.Scan(&x.IDHash, asOptText(&x.UserID), &x.Data, asTime(&x.CreatedAt), asTime(&x.ExpiresAt))
}

// Session reads a session, expired or not.
func (s *Store) Session(ctx context.Context, idHash string) (SessionRow, error) {
	return one(ctx, s, s.r, "session", "This session has ended. Sign in again.", scanSession,
		`SELECT `+sessionColumns+` FROM sessions WHERE id_hash = ?`, idHash)
}

// SaveSession writes a session, whether it was there before or not.
func (s *Store) SaveSession(ctx context.Context, x SessionRow) error {
	data := x.Data
	if data == nil {
		data = []byte{}
	}
	return s.exec(ctx, "session", nil, insert("sessions", sessionColumns)+
		` ON CONFLICT (id_hash) DO UPDATE SET user_id = excluded.user_id, data = excluded.data, expires_at = excluded.expires_at`,
		x.IDHash, optText(x.UserID), data, micros(x.CreatedAt), micros(x.ExpiresAt))
}

// DeleteSession ends a session; one that has ended already is no error.
func (s *Store) DeleteSession(ctx context.Context, idHash string) error {
	return s.exec(ctx, "session", nil, `DELETE FROM sessions WHERE id_hash = ?`, idHash)
}

// DeleteSessionsOf ends all sessions of a person but one; exceptHash may be empty.
func (s *Store) DeleteSessionsOf(ctx context.Context, userID, exceptHash string) error {
	return s.exec(ctx, "session", nil, `DELETE FROM sessions WHERE user_id = ? AND id_hash <> ?`, userID, exceptHash)
}

// SweepSessions forgets expired sessions and old failures to sign in.
func (s *Store) SweepSessions(ctx context.Context, now time.Time) error {
	if err := s.exec(ctx, "session", nil, `DELETE FROM sessions WHERE expires_at <= ?`, micros(now)); err != nil {
		return err
	}
	return s.exec(ctx, "failed sign-in", nil, `DELETE FROM login_failures WHERE failed_at < ?`, micros(now.Add(-keepLoginFailures)))
}
