package store

import (
	"context"

	"tokenfactory/factory"
)

const selectMemberships = `SELECT m.tenant_id, t.name, t.title, m.user_id, u.email, u.name, m.role, m.created_at
	FROM memberships m
	JOIN tenants t ON t.id = m.tenant_id AND t.deleted_at IS NULL
	JOIN users u ON u.id = m.user_id `

func scanMembership(r row) (factory.Membership, error) {
	var m factory.Membership
	return m, r.Scan(&m.TenantID, &m.TenantName, &m.TenantTitle, &m.UserID, &m.Email, &m.Name, &m.Role, asTime(&m.CreatedAt))
}

const noMembership = "This person is no member of the tenant."

// Memberships lists the tenants of a person, by name.
func (s *Store) Memberships(ctx context.Context, userID string) ([]factory.Membership, error) {
	return all(ctx, s, s.r, "membership", scanMembership, selectMemberships+`WHERE m.user_id = ? ORDER BY t.name`, userID)
}

// Members lists the people of a tenant, by e-mail address.
func (s *Store) Members(ctx context.Context, tenantID string) ([]factory.Membership, error) {
	return all(ctx, s, s.r, "membership", scanMembership, selectMemberships+`WHERE m.tenant_id = ? ORDER BY u.email`, tenantID)
}

// Membership reads one person's role in one tenant.
func (s *Store) Membership(ctx context.Context, tenantID, userID string) (factory.Membership, error) {
	return one(ctx, s, s.r, "membership", noMembership, scanMembership,
		selectMemberships+`WHERE m.tenant_id = ? AND m.user_id = ?`, tenantID, userID)
}

// SaveMembership gives a person a role in a tenant, or another one.
func (s *Store) SaveMembership(ctx context.Context, m factory.Membership) error {
	return s.exec(ctx, "membership", nil, insert("memberships", "tenant_id, user_id, role, created_at")+
		` ON CONFLICT (tenant_id, user_id) DO UPDATE SET role = excluded.role`,
		m.TenantID, m.UserID, m.Role, micros(m.CreatedAt))
}

// DeleteMembership takes a person out of a tenant.
func (s *Store) DeleteMembership(ctx context.Context, tenantID, userID string) error {
	return s.change(ctx, "membership", noMembership, nil,
		`DELETE FROM memberships WHERE tenant_id = ? AND user_id = ?`, tenantID, userID)
}
