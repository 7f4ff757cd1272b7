package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
)

// quarter is the step of the roll-ups. Every time zone is a whole number of them
// away from UTC, so that a day of anybody's is a sum of them.
const quarter = 15 * time.Minute // 900,000,000 µs

// UsageSum is what was used in one quarter of an hour by one key of one deployment
// under one version of its price.
type UsageSum struct {
	QuarterStart time.Time
	TenantID     string
	KeyID        string
	DeploymentID string
	PriceID      string
	factory.Tokens
	Estimated int64 // requests whose tokens were counted, because the engine said none
	Aborted   int64 // requests whose client left
}

const rollupKey = `quarter_us, tenant_id, key_id, deployment_id, price_id`

const rollupColumns = rollupKey + `, requests, prompt_tokens, cached_tokens, completion_tokens, estimated, aborted`

func scanSum(r row) (UsageSum, error) {
	var x UsageSum
	return x, r.Scan(asTime(&x.QuarterStart), &x.TenantID, &x.KeyID, &x.DeploymentID, &x.PriceID,
		&x.Requests, &x.PromptTokens, &x.CachedTokens, &x.CompletionTokens, &x.Estimated, &x.Aborted)
}

// rollUp adds new ledger rows to their sums.
func (s *Store) rollUp(ctx context.Context, rows []factory.Usage) error {
	return inChunks(sumsOf(rows, quarter), func(part []UsageSum) error {
		args := make([]any, 0, 11*len(part))
		for _, x := range part {
			args = append(args, micros(x.QuarterStart), x.TenantID, x.KeyID, x.DeploymentID, x.PriceID,
				x.Requests, x.PromptTokens, x.CachedTokens, x.CompletionTokens, x.Estimated, x.Aborted)
		}
		return s.exec(ctx, "usage", nil, `INSERT INTO usage_rollups (`+rollupColumns+`) VALUES `+rowsOf(len(part), 11)+`
			ON CONFLICT (`+rollupKey+`) DO UPDATE SET
			requests = usage_rollups.requests + excluded.requests,
			prompt_tokens = usage_rollups.prompt_tokens + excluded.prompt_tokens,
			cached_tokens = usage_rollups.cached_tokens + excluded.cached_tokens,
			completion_tokens = usage_rollups.completion_tokens + excluded.completion_tokens,
			estimated = usage_rollups.estimated + excluded.estimated,
			aborted = usage_rollups.aborted + excluded.aborted`, args...)
	})
}

// sumsOf adds rows up by steps of time, in the order of the roll-ups' key.
func sumsOf(rows []factory.Usage, step time.Duration) []UsageSum {
	type place struct {
		start                          int64
		tenant, key, deployment, price string
	}
	at := map[place]int{}
	var sums []UsageSum
	for _, u := range rows {
		start := u.StartedAt.UTC().Truncate(step)
		p := place{start.UnixMicro(), u.TenantID, u.KeyID, u.DeploymentID, u.PriceID}
		i, seen := at[p]
		if !seen {
			i = len(sums)
			at[p] = i
			sums = append(sums, UsageSum{QuarterStart: start, TenantID: u.TenantID, KeyID: u.KeyID, DeploymentID: u.DeploymentID, PriceID: u.PriceID})
		}
		x := &sums[i]
		x.Requests++
		x.PromptTokens += u.PromptTokens
		x.CachedTokens += u.CachedTokens
		x.CompletionTokens += u.CompletionTokens
		if hasFlag(u.Flags, factory.FlagEstimated) {
			x.Estimated++
		}
		if hasFlag(u.Flags, factory.FlagAborted, factory.FlagAbortedPrefill, factory.FlagAbortedQueue) {
			x.Aborted++
		}
	}
	slices.SortFunc(sums, func(a, b UsageSum) int {
		return cmp.Or(a.QuarterStart.Compare(b.QuarterStart), strings.Compare(a.TenantID, b.TenantID), strings.Compare(a.KeyID, b.KeyID),
			strings.Compare(a.DeploymentID, b.DeploymentID), strings.Compare(a.PriceID, b.PriceID))
	})
	return sums
}

func hasFlag(flags string, any ...string) bool {
	for f := range strings.SplitSeq(flags, ",") {
		if slices.Contains(any, f) {
			return true
		}
	}
	return false
}

// UsageSums reads what was used by requests that began in from ≤ t < to, of one
// tenant or, with an empty id, of all. Bounds inside a quarter are exact: what is
// not a whole quarter is added up from the ledger.
func (s *Store) UsageSums(ctx context.Context, tenantID string, from, to time.Time) ([]UsageSum, error) {
	wholeFrom, wholeTo := from.Add(quarter-time.Microsecond).Truncate(quarter), to.Truncate(quarter)
	if !wholeFrom.Before(wholeTo) {
		return s.ledgerSums(ctx, tenantID, from, to)
	}
	head, err := s.ledgerSums(ctx, tenantID, from, wholeFrom)
	if err != nil {
		return nil, err
	}
	where, args := ofTenant(tenantID)
	args = append(args, micros(wholeFrom), micros(wholeTo))
	sums, err := all(ctx, s, s.r, "usage", scanSum, `SELECT `+rollupColumns+` FROM usage_rollups
		WHERE `+where+`quarter_us >= ? AND quarter_us < ? ORDER BY quarter_us`, args...)
	if err != nil {
		return nil, err
	}
	tail, err := s.ledgerSums(ctx, tenantID, wholeTo, to)
	return slices.Concat(head, sums, tail), err
}

// ledgerSums adds up the ledger itself, for ranges of less than a quarter.
func (s *Store) ledgerSums(ctx context.Context, tenantID string, from, to time.Time) ([]UsageSum, error) {
	if !from.Before(to) {
		return nil, nil
	}
	where, args := ofTenant(tenantID)
	args = append(args, micros(from), micros(to))
	return all(ctx, s, s.r, "usage", scanSum, `SELECT started_at - started_at % 900000000 AS quarter_us, tenant_id, key_id, deployment_id, price_id,
		COUNT(*), CAST(SUM(prompt_tokens) AS BIGINT), CAST(SUM(cached_tokens) AS BIGINT), CAST(SUM(completion_tokens) AS BIGINT),
		SUM(CASE WHEN ',' || flags || ',' LIKE '%,estimated,%' THEN 1 ELSE 0 END), SUM(CASE WHEN flags LIKE '%aborted%' THEN 1 ELSE 0 END)
		FROM usage_rows WHERE `+where+`started_at >= ? AND started_at < ? GROUP BY 1, 2, 3, 4, 5 ORDER BY 1`, args...)
}

func ofTenant(tenantID string) (string, []any) {
	if tenantID == "" {
		return "", nil
	}
	return "tenant_id = ? AND ", []any{tenantID}
}
