package store

import (
	"context"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// TenantBuckets reads what a tenant's keys, or with an id one of them, did at a
// deployment: buckets that begin in from ≤ t < to, by metric and time. They are kept a
// minute and longer, not finer.
func (s *Store) TenantBuckets(ctx context.Context, tenantID, deploymentID, keyID string, step time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	if tenantID == "" || len(names) == 0 { // an empty tenant is everybody, in the table
		return nil, nil
	}
	args := []any{deploymentID, tenantID, int64(step / time.Second)}
	for _, n := range names {
		args = append(args, n)
	}
	args = append(args, micros(from), micros(to))
	where := ""
	if keyID != "" {
		where = ` AND key_id = ?`
		args = append(args, keyID)
	}
	return all(ctx, s, s.r, "metric", scanBucket, `SELECT `+bucketColumns+` FROM metric_buckets
		WHERE deployment_id = ? AND tenant_id = ? AND step_s = ? AND name IN `+rowsOf(1, len(names))+` AND start_us >= ? AND start_us < ?`+where+`
		ORDER BY name, start_us, key_id, replica_id`, args...)
}

// PlainBuckets is Buckets for gauges and counters, merged over replicas and over steps
// by the database: a chart reads one row for each of its points. base is the kept resolution
// that the steps are made of, and steps begin at from. A merged gauge has the samples of
// all replicas and the highest of their peaks. Sketches are not merged.
func (s *Store) PlainBuckets(ctx context.Context, deploymentID string, step, base time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := []any{micros(from), step.Microseconds(), deploymentID, int64(base / time.Second)}
	for _, n := range names {
		args = append(args, n)
	}
	args = append(args, micros(from), micros(to))
	return all(ctx, s, s.r, "metric", func(r row) (metrics.Bucket, error) {
		b := metrics.Bucket{DeploymentID: deploymentID, Step: step}
		var n int64
		err := r.Scan(&b.Name, &n, &b.Count, &b.Sum, &b.Max)
		b.Start = from.UTC().Add(time.Duration(n) * step)
		return b, err
	}, `SELECT name, (start_us - CAST(? AS BIGINT)) / CAST(? AS BIGINT) AS n, SUM(count), SUM(sum), COALESCE(MAX(CASE WHEN count > 0 THEN max END), 0)
		FROM metric_buckets
		WHERE deployment_id = ? AND tenant_id = '' AND step_s = ? AND name IN `+rowsOf(1, len(names))+` AND start_us >= ? AND start_us < ?
		GROUP BY 1, 2 ORDER BY 1, 2`, args...)
}

// Measured is a key that was measured, of a tenant; either may be deleted.
type Measured struct{ TenantID, KeyID string }

// DeploymentKeysMeasured lists whose keys were used at a deployment in from ≤ t < to, by
// tenant and key. The hours that both are in count whole.
func (s *Store) DeploymentKeysMeasured(ctx context.Context, deploymentID string, from, to time.Time) ([]Measured, error) {
	// By way of the tenants, because each is then one look into the index; there are far more buckets.
	return all(ctx, s, s.r, "metric", func(r row) (Measured, error) {
		var x Measured
		return x, r.Scan(&x.TenantID, &x.KeyID)
	}, `SELECT DISTINCT b.tenant_id, b.key_id FROM tenants t CROSS JOIN metric_buckets b
		WHERE b.deployment_id = ? AND b.tenant_id = t.id AND b.step_s = 3600 AND b.name = ? AND b.start_us >= ? AND b.start_us < ?
		ORDER BY 1, 2`, deploymentID, metrics.Requests, micros(from.UTC().Truncate(time.Hour)), micros(to))
}

// TenantKeysMeasured lists which of a tenant's keys were used at a deployment in
// from ≤ t < to; revoked ones are among them. The hours that both are in count whole.
func (s *Store) TenantKeysMeasured(ctx context.Context, tenantID, deploymentID string, from, to time.Time) ([]string, error) {
	if tenantID == "" {
		return nil, nil
	}
	return all(ctx, s, s.r, "metric", scanText, `SELECT DISTINCT key_id FROM metric_buckets
		WHERE deployment_id = ? AND tenant_id = ? AND step_s = 3600 AND name = ? AND start_us >= ? AND start_us < ?
		ORDER BY 1`, deploymentID, tenantID, metrics.Requests, micros(from.UTC().Truncate(time.Hour)), micros(to))
}

// TenantLastAt is LastBucketAt of what a tenant's keys, or with an id one of them, did.
func (s *Store) TenantLastAt(ctx context.Context, tenantID, deploymentID, keyID string, name metrics.Name) (time.Time, error) {
	where, args := ``, []any{deploymentID, tenantID, 0, name}
	if keyID != "" {
		where = ` AND key_id = ?`
		args = append(args, keyID)
	}
	for _, r := range metrics.Resolutions {
		if tenantID == "" || r.Step < metrics.KeyStep {
			continue
		}
		var last *time.Time
		args[2] = int64(r.Step / time.Second)
		_, err := one(ctx, s, s.r, "metric", "", func(r row) (bool, error) { return true, r.Scan(asOptTime(&last)) },
			`SELECT MAX(start_us) FROM metric_buckets WHERE deployment_id = ? AND tenant_id = ? AND step_s = ? AND name = ?`+where, args...)
		if err != nil {
			return time.Time{}, err
		}
		if last != nil {
			return *last, nil
		}
	}
	return time.Time{}, factory.Errorf(factory.NotFound, "Nothing has been measured of %s yet.", name)
}

// TenantDeployment is FindDeployment among those that a tenant may use, and those where
// its requests were measured before they were taken from it. For it there is no other.
// With whom else it is shared is not in it, nor the price when it is not shared any more.
func (s *Store) TenantDeployment(ctx context.Context, tenantID, ref string) (factory.Deployment, error) {
	missing := "There is no deployment " + ref + "."
	if tenantID == "" { // an empty tenant is everybody, in the table of buckets
		return factory.Deployment{}, factory.Errorf(factory.NotFound, "%s", missing)
	}
	d, err := one(ctx, s, s.r, "deployment", missing, scanDeployment, selectDeployments+
		`AND (d.id = ? OR d.name = ? OR d.public_name = ?)
		AND (d.shared_with_all = TRUE OR d.id IN (SELECT x.deployment_id FROM deployment_tenants x WHERE x.tenant_id = ?)
			OR EXISTS (SELECT 1 FROM metric_buckets b WHERE b.deployment_id = d.id AND b.tenant_id = ? AND b.step_s = 3600 AND b.name = ?))
		ORDER BY CASE WHEN d.id = ? THEN 0 WHEN d.name = ? THEN 1 ELSE 2 END LIMIT 1`,
		ref, ref, ref, tenantID, tenantID, metrics.Requests, ref, ref)
	if err != nil {
		return d, err
	}
	shared, err := s.sharing(ctx, `AND x.deployment_id = ? AND x.tenant_id = ?`, d.ID, tenantID)
	shared[d.ID].onto(&d)
	if !d.SharedWith(tenantID) {
		d.Price, d.Free, d.Currency, d.InputPrice, d.CachedInputPrice, d.OutputPrice = nil, false, "", "", "", ""
	}
	return d, err
}
