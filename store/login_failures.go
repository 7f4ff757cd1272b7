package store

import (
	"context"
	"time"
)

// keepLoginFailures is longer than any window that is counted.
const keepLoginFailures = 24 * time.Hour

// RecordLoginFailure remembers that signing in failed for a key: an address, a
// network, or both.
func (s *Store) RecordLoginFailure(ctx context.Context, key string, now time.Time) error {
	return s.exec(ctx, "failed sign-in", nil, insert("login_failures", "key, failed_at"), key, micros(now))
}

// LoginFailures counts a key's failures since a moment.
func (s *Store) LoginFailures(ctx context.Context, key string, since time.Time) (int, error) {
	return one(ctx, s, s.r, "failed sign-in", "", scanCount,
		`SELECT COUNT(*) FROM login_failures WHERE key = ? AND failed_at >= ?`, key, micros(since))
}

// ClearLoginFailures forgets a key's failures.
func (s *Store) ClearLoginFailures(ctx context.Context, key string) error {
	return s.exec(ctx, "failed sign-in", nil, `DELETE FROM login_failures WHERE key = ?`, key)
}
