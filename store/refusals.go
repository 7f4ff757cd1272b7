package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
)

const refusalKey = `quarter_us, tenant_id, key_id, deployment_id, scope, kind`

const refusalColumns = refusalKey + `, count`

// keepRefusals is as long as the coarsest measurements are kept.
const keepRefusals = 400 * 24 * time.Hour

func scanRefusals(r row) (factory.Refusals, error) {
	var x factory.Refusals
	return x, r.Scan(asTime(&x.QuarterStart), &x.TenantID, &x.KeyID, &x.DeploymentID, &x.Scope, &x.Kind, &x.Count)
}

// AddRefusals adds counts of requests that limits kept out.
func (s *Store) AddRefusals(ctx context.Context, rows []factory.Refusals) error {
	sums := sumRefusals(rows)
	if len(sums) == 0 {
		return nil
	}
	return s.inRetriedTx(ctx, func(tx *Store) error {
		return inChunks(sums, func(part []factory.Refusals) error {
			args := make([]any, 0, 7*len(part))
			for _, x := range part {
				args = append(args, micros(x.QuarterStart), x.TenantID, x.KeyID, x.DeploymentID, x.Scope, x.Kind, x.Count)
			}
			return tx.exec(ctx, "refusal", nil, `INSERT INTO refusals (`+refusalColumns+`) VALUES `+rowsOf(len(part), 7)+`
				ON CONFLICT (`+refusalKey+`) DO UPDATE SET count = refusals.count + excluded.count`, args...)
		})
	})
}

// sumRefusals makes one row of each key, in an order that all writers share.
func sumRefusals(rows []factory.Refusals) []factory.Refusals {
	at := map[factory.Refusals]int64{}
	for _, x := range rows {
		n := x.Count
		x.QuarterStart, x.Count = x.QuarterStart.UTC().Truncate(quarter), 0
		at[x] += n
	}
	sums := make([]factory.Refusals, 0, len(at))
	for x, n := range at {
		x.Count = n
		sums = append(sums, x)
	}
	slices.SortFunc(sums, func(a, b factory.Refusals) int {
		return cmp.Or(a.QuarterStart.Compare(b.QuarterStart), strings.Compare(a.TenantID, b.TenantID), strings.Compare(a.KeyID, b.KeyID),
			strings.Compare(a.DeploymentID, b.DeploymentID), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Kind, b.Kind))
	})
	return sums
}

// Refusals lists how often limits kept a tenant's requests out, newest first, in the
// quarters of an hour that have a part of from ≤ t < to.
func (s *Store) Refusals(ctx context.Context, tenantID string, from, to time.Time) ([]factory.Refusals, error) {
	return s.refusals(ctx, `tenant_id = ? AND `, from, to, tenantID)
}

// AllRefusals is Refusals of all tenants.
func (s *Store) AllRefusals(ctx context.Context, from, to time.Time) ([]factory.Refusals, error) {
	return s.refusals(ctx, ``, from, to)
}

// DeploymentRefusals is Refusals of one deployment, summed over whose keys they met.
func (s *Store) DeploymentRefusals(ctx context.Context, deploymentID string, from, to time.Time) ([]factory.Refusals, error) {
	return all(ctx, s, s.r, "refusal", scanRefusals, `SELECT quarter_us, '', '', deployment_id, scope, kind, CAST(SUM(count) AS BIGINT) FROM refusals
		WHERE deployment_id = ? AND quarter_us >= ? AND quarter_us < ?
		GROUP BY quarter_us, deployment_id, scope, kind ORDER BY quarter_us DESC, scope, kind`,
		deploymentID, micros(from.UTC().Truncate(quarter)), ceilMicros(to))
}

func (s *Store) refusals(ctx context.Context, where string, from, to time.Time, args ...any) ([]factory.Refusals, error) {
	args = append(args, micros(from.UTC().Truncate(quarter)), ceilMicros(to))
	return all(ctx, s, s.r, "refusal", scanRefusals, `SELECT `+refusalColumns+` FROM refusals
		WHERE `+where+`quarter_us >= ? AND quarter_us < ?
		ORDER BY quarter_us DESC, tenant_id, key_id, deployment_id, scope, kind`, args...)
}

// SweepRefusals forgets refusals that are too old for anybody to ask why.
func (s *Store) SweepRefusals(ctx context.Context, now time.Time) error {
	return s.sweep(ctx, "refusal", `DELETE FROM refusals WHERE (`+refusalKey+`) IN
		(SELECT `+refusalKey+` FROM refusals WHERE quarter_us < ? LIMIT ?)`, micros(now.Add(-keepRefusals)))
}
