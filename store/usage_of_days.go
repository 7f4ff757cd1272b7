package store

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// readersAtOnce is how many days are read at the same time: few enough to leave connections
// for everybody else.
const readersAtOnce = 3

// UsageOfDays is UsageSums added up over days by the database: of a range with many tenants
// and models, a page needs hundreds of rows for each day and not the ten thousands that its
// quarters have. days are the first moments of the days that the range touches, in order and in
// anybody's zone; sums carry them as their start. The days that the bounds are in may come
// in more pieces than one.
func (s *Store) UsageOfDays(ctx context.Context, tenantID string, from, to time.Time, days []time.Time) ([]UsageSum, error) {
	out := make([][]UsageSum, len(days))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readersAtOnce)
	if s.db == nil {
		group.SetLimit(1) // a transaction has one connection
	}
	for i, day := range days {
		begin, end := day, to
		if begin.Before(from) {
			begin = from
		}
		if i+1 < len(days) && days[i+1].Before(to) {
			end = days[i+1]
		}
		group.Go(func() (err error) {
			out[i], err = s.usageOfDay(ctx, tenantID, begin, end)
			for j := range out[i] {
				out[i][j].QuarterStart = day.UTC()
			}
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(out...), err
}

// usageOfDay reads a part of one day. What is not a whole quarter is added up from the ledger.
func (s *Store) usageOfDay(ctx context.Context, tenantID string, from, to time.Time) ([]UsageSum, error) {
	wholeFrom, wholeTo := from.Add(quarter-time.Microsecond).Truncate(quarter), to.Truncate(quarter)
	if !wholeFrom.Before(wholeTo) {
		return s.ledgerSums(ctx, tenantID, from, to)
	}
	head, err := s.ledgerSums(ctx, tenantID, from, wholeFrom)
	if err != nil {
		return nil, err
	}
	where, args := ofTenant(tenantID)
	args = append([]any{micros(wholeFrom)}, args...)
	args = append(args, micros(wholeFrom), micros(wholeTo))
	sums, err := all(ctx, s, s.r, "usage", scanSum, `SELECT CAST(? AS BIGINT), tenant_id, key_id, deployment_id, price_id,
		CAST(SUM(requests) AS BIGINT), CAST(SUM(prompt_tokens) AS BIGINT), CAST(SUM(cached_tokens) AS BIGINT), CAST(SUM(completion_tokens) AS BIGINT),
		CAST(SUM(estimated) AS BIGINT), CAST(SUM(aborted) AS BIGINT)
		FROM usage_rollups WHERE `+where+`quarter_us >= ? AND quarter_us < ? GROUP BY 2, 3, 4, 5 ORDER BY 2, 3, 4, 5`, args...)
	if err != nil {
		return nil, err
	}
	tail, err := s.ledgerSums(ctx, tenantID, wholeTo, to)
	return slices.Concat(head, sums, tail), err
}
