package store

import "context"

// Gone are the ids of what was deleted, and of keys that were revoked. History shows
// them under their old names, and marks them so that nobody takes them for what has the name now.
type Gone struct{ Tenants, Keys, Deployments map[string]bool }

// Gone reads what is there in history alone.
func (s *Store) Gone(ctx context.Context) (Gone, error) {
	var g Gone
	for _, x := range []struct {
		into  *map[string]bool
		noun  string
		query string
	}{
		{&g.Tenants, "tenant", `SELECT id FROM tenants WHERE deleted_at IS NOT NULL`},
		{&g.Keys, "key", `SELECT id FROM keys WHERE revoked_at IS NOT NULL`},
		{&g.Deployments, "deployment", `SELECT id FROM deployments WHERE deleted_at IS NOT NULL`},
	} {
		ids, err := all(ctx, s, s.r, x.noun, scanText, x.query)
		if err != nil {
			return g, err
		}
		*x.into = make(map[string]bool, len(ids))
		for _, id := range ids {
			(*x.into)[id] = true
		}
	}
	return g, nil
}
