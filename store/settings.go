package store

import (
	"context"
)

// Setting reads one remembered value of the installation.
func (s *Store) Setting(ctx context.Context, key string) (string, error) {
	return one(ctx, s, s.r, "setting", "There is no setting "+key+".", scanText,
		`SELECT value FROM settings WHERE key = ?`, key)
}

// SaveSetting remembers a value, whether it was there before or not.
func (s *Store) SaveSetting(ctx context.Context, key, value string) error {
	return s.exec(ctx, "setting", nil,
		`INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
}

func scanText(r row) (string, error) {
	var v string
	return v, r.Scan(&v)
}

func scanCount(r row) (int, error) {
	var n int
	return n, r.Scan(&n)
}
