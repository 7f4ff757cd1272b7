package store

import (
	"context"
	"time"

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

// Judged are requests that were judged against a deployment's targets.
type Judged struct{ Good, Bad float64 }

// GoodBad sums up how the requests to every deployment that is not deleted were judged since
// a time, by deployment. The hour that it is in counts whole. Deployments without requests are left out.
func (s *Store) GoodBad(ctx context.Context, from time.Time) (map[string]Judged, error) {
	type sum struct {
		deploymentID string
		name         metrics.Name
		sum          float64
	}
	// CROSS JOIN keeps SQLite from beginning with the buckets, of which there are many.
	rows, err := all(ctx, s, s.r, "metric", func(r row) (sum, error) {
		var x sum
		return x, r.Scan(&x.deploymentID, &x.name, &x.sum)
	}, `SELECT d.id, b.name, SUM(b.sum) FROM deployments d CROSS JOIN metric_buckets b
		WHERE d.deleted_at IS NULL AND b.deployment_id = d.id AND b.tenant_id = '' AND b.step_s = 3600 AND b.name IN (?, ?) AND b.start_us >= ?
		GROUP BY 1, 2`, metrics.Good, metrics.Bad, micros(from.UTC().Truncate(time.Hour)))
	out := map[string]Judged{}
	for _, x := range rows {
		j := out[x.deploymentID]
		if x.name == metrics.Good {
			j.Good = x.sum
		} else {
			j.Bad = x.sum
		}
		out[x.deploymentID] = j
	}
	return out, err
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
