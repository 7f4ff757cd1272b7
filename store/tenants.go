package store

import (
	"context"

	"tokenfactory/factory"
)

const tenantColumns = `id, name, title, limits, created_at`

func scanTenant(r row) (factory.Tenant, error) {
	var t factory.Tenant
	return t, r.Scan(&t.ID, &t.Name, &t.Title, asJSON(&t.Limits), asTime(&t.CreatedAt))
}

const noTenant = "There is no such tenant. It may have been deleted."

// Tenant reads a tenant by id.
func (s *Store) Tenant(ctx context.Context, id string) (factory.Tenant, error) {
	return one(ctx, s, s.r, "tenant", noTenant, scanTenant,
		`SELECT `+tenantColumns+` FROM tenants WHERE id = ? AND deleted_at IS NULL`, id)
}

// TenantByName reads a tenant by name.
func (s *Store) TenantByName(ctx context.Context, name string) (factory.Tenant, error) {
	return one(ctx, s, s.r, "tenant", "There is no tenant named "+name+".", scanTenant,
		`SELECT `+tenantColumns+` FROM tenants WHERE name = ? AND deleted_at IS NULL`, name)
}

// AllTenants lists tenants by name.
func (s *Store) AllTenants(ctx context.Context) ([]factory.Tenant, error) {
	return all(ctx, s, s.r, "tenant", scanTenant,
		`SELECT `+tenantColumns+` FROM tenants WHERE deleted_at IS NULL ORDER BY name`)
}

// TenantNames maps ids to names, of deleted tenants too: history needs them.
func (s *Store) TenantNames(ctx context.Context) (map[string]string, error) {
	return s.names(ctx, "tenant", `SELECT id, name FROM tenants`)
}

// CreateTenant adds a tenant.
func (s *Store) CreateTenant(ctx context.Context, t factory.Tenant) error {
	return s.exec(ctx, "tenant", []unique{{"name", t.Name}}, insert("tenants", tenantColumns),
		t.ID, t.Name, t.Title, toJSON(t.Limits.WithDefaults()), micros(t.CreatedAt))
}

// SaveTenant writes a tenant's name, title and limits.
func (s *Store) SaveTenant(ctx context.Context, t factory.Tenant) error {
	return s.change(ctx, "tenant", noTenant, []unique{{"name", t.Name}},
		`UPDATE tenants SET name = ?, title = ?, limits = ? WHERE id = ? AND deleted_at IS NULL`,
		t.Name, t.Title, toJSON(t.Limits.WithDefaults()), t.ID)
}

// DeleteTenant takes a tenant away with its members and what was shared with it,
// and revokes its keys. Its usage and its name in history stay.
func (s *Store) DeleteTenant(ctx context.Context, id string) error {
	now := micros(factory.Now())
	return s.InTx(ctx, func(tx *Store) error {
		if err := tx.change(ctx, "tenant", noTenant, nil,
			`UPDATE tenants SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL`, now, id); err != nil {
			return err
		}
		if err := tx.exec(ctx, "key", nil,
			`UPDATE keys SET revoked_at = ? WHERE tenant_id = ? AND revoked_at IS NULL`, now, id); err != nil {
			return err
		}
		if err := tx.exec(ctx, "membership", nil, `DELETE FROM memberships WHERE tenant_id = ?`, id); err != nil {
			return err
		}
		return tx.exec(ctx, "sharing", nil, `DELETE FROM deployment_tenants WHERE tenant_id = ?`, id)
	})
}

// names reads pairs of id and name.
func (s *Store) names(ctx context.Context, noun, query string, args ...any) (map[string]string, error) {
	pairs, err := all(ctx, s, s.r, noun, func(r row) ([2]string, error) {
		var p [2]string
		return p, r.Scan(&p[0], &p[1])
	}, query, args...)
	names := make(map[string]string, len(pairs))
	for _, p := range pairs {
		names[p[0]] = p[1]
	}
	return names, err
}
