package store

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tokenfactory/metrics"
)

// MergedBuckets is Buckets merged over replicas and over steps by the database: a day of a
// deployment is a hundred thousand rows, and its charts have a tenth of that. Of one
// replica, when its id is given. base is the kept resolution that the steps are made of,
// and steps begin at from. Sketches and histograms of a step come one after the other,
// which series read as their sum and nobody else does: they are for charts, not to be kept.
func (s *Store) MergedBuckets(ctx context.Context, deploymentID, replicaID string, step, base time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	out := make([][]metrics.Bucket, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readersAtOnce)
	if s.db == nil {
		group.SetLimit(1) // a transaction has one connection
	}
	for i, name := range names {
		group.Go(func() (err error) {
			out[i], err = s.mergedBuckets(ctx, deploymentID, replicaID, step, base, name, from, to)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(out...), err
}

// mergedBuckets reads one metric. All in one statement would have to be sorted by their
// names first, which is a third more work; these are one stretch of the index each.
func (s *Store) mergedBuckets(ctx context.Context, deploymentID, replicaID string, step, base time.Duration, name metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	sketch := `NULL`
	if shape := metrics.ShapeOf(name); shape == metrics.Distribution || shape == metrics.Bucketed {
		sketch = s.joined("sketch")
	}
	args := []any{micros(from), step.Microseconds(), deploymentID, int64(base / time.Second), name, micros(from), micros(to)}
	where := ``
	if replicaID != "" {
		where = ` AND replica_id = ?`
		args = append(args, replicaID)
	}
	return all(ctx, s, s.r, "metric", func(r row) (metrics.Bucket, error) {
		b := metrics.Bucket{DeploymentID: deploymentID, ReplicaID: replicaID, Name: name, Step: step}
		var n int64
		err := r.Scan(&n, &b.Count, &b.Sum, &b.Max, &b.Sketch)
		b.Start = from.UTC().Add(time.Duration(n) * step)
		return b, err
	}, `SELECT (start_us - CAST(? AS BIGINT)) / CAST(? AS BIGINT) AS n, SUM(count), SUM(sum), COALESCE(MAX(CASE WHEN count > 0 THEN max END), 0), `+sketch+`
		FROM metric_buckets
		WHERE deployment_id = ? AND tenant_id = '' AND step_s = ? AND name = ? AND start_us >= ? AND start_us < ?`+where+`
		GROUP BY 1`, args...)
}

// joined is the bytes of a column one after the other. SQLite takes them for a text, and
// leaves every byte as it is.
func (s *Store) joined(column string) string {
	if s.driver == driverPostgres {
		return `STRING_AGG(` + column + `, CAST('' AS BYTEA))`
	}
	return `GROUP_CONCAT(` + column + `, '')`
}

// ReplicasMeasured lists the replicas of which there are buckets of one resolution in
// from ≤ t < to.
func (s *Store) ReplicasMeasured(ctx context.Context, deploymentID string, base time.Duration, from, to time.Time) ([]string, error) {
	// One figure of the gateway and two of the agent: who serves or is read has one of them.
	return all(ctx, s, s.r, "metric", scanText, `SELECT DISTINCT replica_id FROM metric_buckets
		WHERE deployment_id = ? AND tenant_id = '' AND step_s = ? AND name IN (?, ?, ?) AND start_us >= ? AND start_us < ? AND replica_id <> '' ORDER BY 1`,
		deploymentID, int64(base/time.Second), metrics.TTFT, metrics.Running, metrics.PromptTokens, micros(from), micros(to))
}
