package store

import (
	"context"
	"time"

	"tokenfactory/factory"
)

const keyColumns = `id, tenant_id, name, prefix, hash, scope, limits, created_by, created_at, expires_at, revoked_at, last_used_at`

const selectKeys = `SELECT k.id, k.tenant_id, t.name, k.name, k.prefix, k.hash, k.scope, k.limits, t.limits, k.created_by,
	k.created_at, k.expires_at, k.revoked_at, k.last_used_at
	FROM keys k JOIN tenants t ON t.id = k.tenant_id `

func scanKey(r row) (factory.Key, error) {
	var k factory.Key
	return k, r.Scan(&k.ID, &k.TenantID, &k.TenantName, &k.Name, &k.Prefix, &k.Hash, &k.Scope, asJSON(&k.Limits), asJSON(&k.TenantLimits), &k.CreatedBy,
		asTime(&k.CreatedAt), asOptTime(&k.ExpiresAt), asOptTime(&k.RevokedAt), asOptTime(&k.LastUsedAt))
}

const noKey = "There is no such key."

// Keys lists a tenant's keys, newest first, revoked ones too.
func (s *Store) Keys(ctx context.Context, tenantID string) ([]factory.Key, error) {
	return all(ctx, s, s.r, "key", scanKey, selectKeys+`WHERE k.tenant_id = ? ORDER BY k.created_at DESC, k.id`, tenantID)
}

// Key reads one key of a tenant.
func (s *Store) Key(ctx context.Context, tenantID, id string) (factory.Key, error) {
	return one(ctx, s, s.r, "key", noKey, scanKey, selectKeys+`WHERE k.tenant_id = ? AND k.id = ?`, tenantID, id)
}

// KeyByName reads one key of a tenant.
func (s *Store) KeyByName(ctx context.Context, tenantID, name string) (factory.Key, error) {
	return one(ctx, s, s.r, "key", "There is no key named "+name+".", scanKey,
		selectKeys+`WHERE k.tenant_id = ? AND k.name = ?`, tenantID, name)
}

// KeyByHash reads the key of a secret, live or not: callers check.
func (s *Store) KeyByHash(ctx context.Context, hash string) (factory.Key, error) {
	return one(ctx, s, s.r, "key", noKey, scanKey, selectKeys+`WHERE k.hash = ?`, hash)
}

// AllKeys lists the keys of all tenants, newest first.
func (s *Store) AllKeys(ctx context.Context) ([]factory.Key, error) {
	return all(ctx, s, s.r, "key", scanKey, selectKeys+`ORDER BY k.created_at DESC, k.id`)
}

// KeyNames maps ids to names, of revoked keys too: history needs them.
func (s *Store) KeyNames(ctx context.Context) (map[string]string, error) {
	return s.names(ctx, "key", `SELECT id, name FROM keys`)
}

// CreateKey adds a key.
func (s *Store) CreateKey(ctx context.Context, k factory.Key) error {
	return s.exec(ctx, "key", []unique{{"name", k.Name}}, insert("keys", keyColumns),
		k.ID, k.TenantID, k.Name, k.Prefix, k.Hash, k.Scope, toJSON(k.Limits.WithDefaults()), k.CreatedBy,
		micros(k.CreatedAt), optMicros(k.ExpiresAt), optMicros(k.RevokedAt), optMicros(k.LastUsedAt))
}

// SetKeyLimits gives a key other limits. They hold for what begins from then on.
func (s *Store) SetKeyLimits(ctx context.Context, tenantID, id string, limits factory.Limits) error {
	return s.change(ctx, "key", noKey, nil,
		`UPDATE keys SET limits = ? WHERE tenant_id = ? AND id = ?`, toJSON(limits.WithDefaults()), tenantID, id)
}

// RevokeKey ends a key from now on. Revoking again changes nothing.
func (s *Store) RevokeKey(ctx context.Context, tenantID, id string, now time.Time) error {
	return s.change(ctx, "key", noKey, nil,
		`UPDATE keys SET revoked_at = COALESCE(revoked_at, ?) WHERE tenant_id = ? AND id = ?`, micros(now), tenantID, id)
}

// TouchKeys remembers when keys, by id, were last used. An older time than the
// kept one changes nothing: several gateways may tell in any order.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	ids := sortedKeys(used)
	return s.inRetriedTx(ctx, func(tx *Store) error {
		for _, id := range ids {
			at := micros(used[id])
			if err := tx.exec(ctx, "key", nil,
				`UPDATE keys SET last_used_at = ? WHERE id = ? AND (last_used_at IS NULL OR last_used_at < ?)`, at, id, at); err != nil {
				return err
			}
		}
		return nil
	})
}
