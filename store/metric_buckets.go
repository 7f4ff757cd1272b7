package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

const bucketKey = `deployment_id, tenant_id, step_s, name, start_us, key_id, replica_id`

const bucketColumns = bucketKey + `, count, sum, max, sketch`

func scanBucket(r row) (metrics.Bucket, error) {
	var b metrics.Bucket
	var step int64
	err := r.Scan(&b.DeploymentID, &b.TenantID, &step, &b.Name, asTime(&b.Start), &b.KeyID, &b.ReplicaID, &b.Count, &b.Sum, &b.Max, &b.Sketch)
	b.Step = time.Duration(step) * time.Second
	return b, err
}

func stepOf(b metrics.Bucket) int64 { return int64(b.Step / time.Second) }

// sortBuckets puts buckets into the order of their primary key. Everybody locks in
// this order, so that nobody waits in a circle.
func sortBuckets(buckets []metrics.Bucket) {
	slices.SortFunc(buckets, func(a, b metrics.Bucket) int { return a.Place().Compare(b.Place()) })
}

// Buckets reads the buckets of one resolution that begin in from ≤ t < to, by
// metric and time, of everybody's requests.
func (s *Store) Buckets(ctx context.Context, deploymentID string, step time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := []any{deploymentID, int64(step / time.Second)}
	for _, n := range names {
		args = append(args, n)
	}
	args = append(args, micros(from), micros(to))
	// Only what differs from row to row: there are tens of thousands, and each column costs.
	return all(ctx, s, s.r, "metric", func(r row) (metrics.Bucket, error) {
		b := metrics.Bucket{DeploymentID: deploymentID, Step: step}
		return b, r.Scan(&b.Name, asTime(&b.Start), &b.ReplicaID, &b.Count, &b.Sum, &b.Max, &b.Sketch)
	}, `SELECT name, start_us, replica_id, count, sum, max, sketch FROM metric_buckets
		WHERE deployment_id = ? AND tenant_id = '' AND step_s = ? AND name IN `+rowsOf(1, len(names))+` AND start_us >= ? AND start_us < ?
		ORDER BY name, start_us, replica_id`, args...)
}

// LastBucketAt is the start of the newest bucket of a metric.
func (s *Store) LastBucketAt(ctx context.Context, deploymentID string, name metrics.Name) (time.Time, error) {
	for _, r := range metrics.Resolutions {
		var last *time.Time
		_, err := one(ctx, s, s.r, "metric", "", func(r row) (bool, error) { return true, r.Scan(asOptTime(&last)) },
			`SELECT MAX(start_us) FROM metric_buckets WHERE deployment_id = ? AND tenant_id = '' AND step_s = ? AND name = ?`,
			deploymentID, int64(r.Step/time.Second), name)
		if err != nil {
			return time.Time{}, err
		}
		if last != nil {
			return *last, nil
		}
	}
	return time.Time{}, factory.Errorf(factory.NotFound, "Nothing has been measured of %s yet.", name)
}

// MergeBuckets adds measurements of the finest resolution to what is kept, in
// every resolution. Callers may write the same buckets at the same time.
func (s *Store) MergeBuckets(ctx context.Context, buckets []metrics.Bucket) error {
	spread, err := spread(buckets)
	if err != nil || len(spread) == 0 {
		return err
	}
	return s.inRetriedTx(ctx, func(tx *Store) error { return tx.mergeSpread(ctx, spread) })
}

// spread puts buckets into every resolution. A sketch that cannot be read is
// refused here: kept, it would refuse everything that comes after it.
func spread(buckets []metrics.Bucket) ([]metrics.Bucket, error) {
	for _, b := range buckets {
		if err := b.CheckSketch(); err != nil {
			return nil, unreadable(err)
		}
	}
	out, err := metrics.Spread(buckets)
	if err != nil {
		return nil, unreadable(err)
	}
	return out, nil
}

func unreadable(err error) error {
	return &factory.Error{Kind: factory.Invalid, Message: "These measurements cannot be read. Update the agent, if it is an old one.", Err: err}
}

// mergeSpread adds buckets, at most one for each place, to those that are kept.
func (s *Store) mergeSpread(ctx context.Context, buckets []metrics.Bucket) error {
	buckets = slices.Clone(buckets)
	sortBuckets(buckets)
	var plain, sketched []metrics.Bucket
	for _, b := range buckets {
		if len(b.Sketch) > 0 {
			sketched = append(sketched, b)
		} else {
			plain = append(plain, b)
		}
	}
	if err := s.addPlain(ctx, plain); err != nil {
		return err
	}
	// New places first. Whoever waits here waits for somebody who is inserting, and
	// whoever waits for the locks below inserts nothing more: no circle.
	for len(sketched) > 0 {
		kept, err := s.insertNew(ctx, sketched)
		if err != nil {
			return err
		}
		if sketched, err = s.addSketched(ctx, kept); err != nil {
			return err
		}
	}
	return nil
}

// addPlain merges gauges and counters, which the database can do by itself.
func (s *Store) addPlain(ctx context.Context, buckets []metrics.Bucket) error {
	return inChunks(buckets, func(part []metrics.Bucket) error {
		return s.exec(ctx, "metric", nil, `INSERT INTO metric_buckets (`+bucketColumns+`) VALUES `+rowsOf(len(part), 11)+`
			ON CONFLICT (`+bucketKey+`) DO UPDATE SET
			max = CASE WHEN excluded.count > 0 AND (metric_buckets.count = 0 OR excluded.max > metric_buckets.max) THEN excluded.max ELSE metric_buckets.max END,
			count = metric_buckets.count + excluded.count,
			sum = metric_buckets.sum + excluded.sum`, bucketArgs(part)...)
	})
}

// insertNew writes the buckets whose place is free and returns the others.
func (s *Store) insertNew(ctx context.Context, buckets []metrics.Bucket) ([]metrics.Bucket, error) {
	inserted := map[metrics.Place]bool{}
	err := inChunks(buckets, func(part []metrics.Bucket) error {
		places, err := all(ctx, s, s.q, "metric", scanPlace, `INSERT INTO metric_buckets (`+bucketColumns+`) VALUES `+rowsOf(len(part), 11)+`
			ON CONFLICT (`+bucketKey+`) DO NOTHING RETURNING `+bucketKey, bucketArgs(part)...)
		for _, p := range places {
			inserted[p] = true
		}
		return err
	})
	return slices.DeleteFunc(slices.Clone(buckets), func(b metrics.Bucket) bool { return inserted[b.Place()] }), err
}

func scanPlace(r row) (metrics.Place, error) {
	var p metrics.Place
	var step int64
	err := r.Scan(&p.DeploymentID, &p.TenantID, &step, &p.Name, &p.Start, &p.KeyID, &p.ReplicaID)
	p.Step = time.Duration(step) * time.Second
	return p, err
}

// addSketched merges buckets into those that are kept, and returns those whose
// place was swept in the meantime.
func (s *Store) addSketched(ctx context.Context, buckets []metrics.Bucket) (gone []metrics.Bucket, err error) {
	err = inChunks(buckets, func(part []metrics.Bucket) error {
		var key []any
		for _, b := range part {
			key = append(key, b.DeploymentID, b.TenantID, stepOf(b), b.Name, b.Start.UnixMicro(), b.KeyID, b.ReplicaID)
		}
		// PostgreSQL takes parameters in VALUES for text, unless told.
		places := strings.ReplaceAll(rowsOf(len(part), 7), `(?,?,?,?,?,?,?)`, `(?,?,CAST(? AS BIGINT),?,CAST(? AS BIGINT),?,?)`)
		kept, err := all(ctx, s, s.q, "metric", scanBucket, `SELECT `+bucketColumns+` FROM metric_buckets
			WHERE (`+bucketKey+`) IN (VALUES `+places+`) ORDER BY `+bucketKey+s.forUpdate("metric_buckets"), key...)
		if err != nil {
			return err
		}
		at := map[metrics.Place]metrics.Bucket{}
		for _, b := range kept {
			at[b.Place()] = b
		}
		var merged []metrics.Bucket
		for _, b := range part {
			old, ok := at[b.Place()]
			if !ok {
				gone = append(gone, b)
				continue
			}
			if err := old.Merge(b); err != nil {
				return unreadable(err)
			}
			merged = append(merged, old)
		}
		return inChunks(merged, func(part []metrics.Bucket) error {
			return s.exec(ctx, "metric", nil, `INSERT INTO metric_buckets (`+bucketColumns+`) VALUES `+rowsOf(len(part), 11)+`
				ON CONFLICT (`+bucketKey+`) DO UPDATE SET count = excluded.count, sum = excluded.sum, max = excluded.max, sketch = excluded.sketch`,
				bucketArgs(part)...)
		})
	})
	return gone, err
}

func bucketArgs(buckets []metrics.Bucket) []any {
	args := make([]any, 0, 11*len(buckets))
	for _, b := range buckets {
		args = append(args, b.DeploymentID, b.TenantID, stepOf(b), b.Name, b.Start.UnixMicro(), b.KeyID, b.ReplicaID, b.Count, b.Sum, b.Max, b.Sketch)
	}
	return args
}

// BackfillBuckets writes buckets exactly as they are, each in its own resolution.
// Where there is one already, the old one stays.
func (s *Store) BackfillBuckets(ctx context.Context, buckets []metrics.Bucket) error {
	buckets = slices.Clone(buckets)
	sortBuckets(buckets)
	// Not one transaction: the past is long, and nobody should wait for all of it.
	for len(buckets) > 0 {
		n := min(len(buckets), 16*maxRows)
		err := s.InTx(ctx, func(tx *Store) error {
			return inChunks(buckets[:n], func(part []metrics.Bucket) error {
				return tx.exec(ctx, "metric", nil, `INSERT INTO metric_buckets (`+bucketColumns+`) VALUES `+rowsOf(len(part), 11)+`
					ON CONFLICT (`+bucketKey+`) DO NOTHING`, bucketArgs(part)...)
			})
		})
		if err != nil {
			return err
		}
		buckets = buckets[n:]
	}
	return nil
}

// sweepRows is how many rows a sweep deletes before it lets others write.
const sweepRows = 5000

// SweepBuckets forgets buckets that are older than their resolution is kept.
func (s *Store) SweepBuckets(ctx context.Context, now time.Time) error {
	for _, r := range metrics.Resolutions {
		err := s.sweep(ctx, "metric", `DELETE FROM metric_buckets WHERE (`+bucketKey+`) IN
			(SELECT `+bucketKey+` FROM metric_buckets WHERE step_s = ? AND start_us < ? LIMIT ?)`,
			int64(r.Step/time.Second), micros(now.Add(-r.Keep)))
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep repeats a statement that deletes at most as many rows as its last parameter
// says, until there are none left.
func (s *Store) sweep(ctx context.Context, noun, query string, args ...any) error {
	args = append(args, sweepRows)
	for {
		result, err := s.q.ExecContext(ctx, s.q.Rebind(query), args...)
		if err != nil {
			return s.classify(ctx, err, noun)
		}
		if n, err := result.RowsAffected(); err != nil || n < sweepRows {
			return s.classify(ctx, err, noun)
		}
	}
}
