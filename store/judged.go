package store

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"tokenfactory/metrics"
)

// Judged are requests that were judged against a deployment's targets.
type Judged struct{ Good, Bad float64 }

// JudgedIn sums up how requests were judged, by deployment, in each of the pieces of
// time. It is of the deployments with these ids or, without any, of all that are not deleted;
// those without requests are left out.
func (s *Store) JudgedIn(ctx context.Context, pieces []metrics.Piece, deploymentIDs ...string) ([]map[string]Judged, error) {
	out := make([]map[string]Judged, len(pieces))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readersAtOnce)
	if s.db == nil {
		group.SetLimit(1) // a transaction has one connection
	}
	for i, p := range pieces {
		group.Go(func() (err error) {
			out[i], err = s.judgedIn(ctx, p, deploymentIDs)
			return err
		})
	}
	return out, group.Wait()
}

func (s *Store) judgedIn(ctx context.Context, p metrics.Piece, deploymentIDs []string) (map[string]Judged, error) {
	// A sum for each deployment and metric is one short walk along the index. Joined and
	// grouped, all of the rows would be sorted first.
	// The names are written out, or PostgreSQL could not tell that its index of judged
	// requests is enough.
	sum := func(name metrics.Name) string {
		return `(SELECT SUM(b.sum) FROM metric_buckets b
		WHERE b.deployment_id = d.id AND b.tenant_id = '' AND b.step_s = ? AND b.name = '` + string(name) + `' AND b.start_us >= ? AND b.start_us < ?)`
	}
	var args []any
	for range 2 {
		args = append(args, int64(p.Step/time.Second), micros(p.From), micros(p.To))
	}
	only := ""
	if len(deploymentIDs) > 0 {
		only = ` AND d.id IN ` + rowsOf(1, len(deploymentIDs))
		for _, id := range deploymentIDs {
			args = append(args, id)
		}
	}
	type line struct {
		deploymentID string
		good, bad    *float64
	}
	lines, err := all(ctx, s, s.r, "metric", func(r row) (line, error) {
		var x line
		return x, r.Scan(&x.deploymentID, &x.good, &x.bad)
	}, `SELECT d.id, `+sum(metrics.Good)+`, `+sum(metrics.Bad)+` FROM deployments d WHERE d.deleted_at IS NULL`+only, args...)
	out := map[string]Judged{}
	for _, x := range lines {
		var j Judged
		if x.good != nil {
			j.Good = *x.good
		}
		if x.bad != nil {
			j.Bad = *x.bad
		}
		if x.good != nil || x.bad != nil {
			out[x.deploymentID] = j
		}
	}
	return out, err
}
