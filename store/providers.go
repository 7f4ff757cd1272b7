package store

import (
	"context"

	"tokenfactory/factory"
)

const providerColumns = `id, name, description, website, created_at`

func scanProvider(r row) (factory.Provider, error) {
	var p factory.Provider
	return p, r.Scan(&p.ID, &p.Name, &p.Description, &p.Website, asTime(&p.CreatedAt))
}

const noProvider = "There is no such provider. It may have been deleted."

// Provider reads a provider by id.
func (s *Store) Provider(ctx context.Context, id string) (factory.Provider, error) {
	return one(ctx, s, s.r, "provider", noProvider, scanProvider, `SELECT `+providerColumns+` FROM providers WHERE id = ?`, id)
}

// ProviderByName reads a provider by name.
func (s *Store) ProviderByName(ctx context.Context, name string) (factory.Provider, error) {
	return one(ctx, s, s.r, "provider", "There is no provider named "+name+".", scanProvider,
		`SELECT `+providerColumns+` FROM providers WHERE name = ?`, name)
}

// AllProviders lists providers by name.
func (s *Store) AllProviders(ctx context.Context) ([]factory.Provider, error) {
	return all(ctx, s, s.r, "provider", scanProvider, `SELECT `+providerColumns+` FROM providers ORDER BY name`)
}

// CreateProvider adds a provider.
func (s *Store) CreateProvider(ctx context.Context, p factory.Provider) error {
	return s.exec(ctx, "provider", []unique{{"name", p.Name}}, insert("providers", providerColumns),
		p.ID, p.Name, p.Description, p.Website, micros(p.CreatedAt))
}

// SaveProvider writes a provider.
func (s *Store) SaveProvider(ctx context.Context, p factory.Provider) error {
	return s.change(ctx, "provider", noProvider, []unique{{"name", p.Name}},
		`UPDATE providers SET name = ?, description = ?, website = ? WHERE id = ?`, p.Name, p.Description, p.Website, p.ID)
}

// DeleteProvider removes a provider. It is refused while models are its own.
func (s *Store) DeleteProvider(ctx context.Context, id string) error {
	return s.deleteUnused(ctx, "provider", `DELETE FROM providers WHERE id = ?`, noProvider, id,
		user{"model", `SELECT name FROM models WHERE provider_id = ? ORDER BY name`})
}
