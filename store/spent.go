package store

import (
	"context"
	"time"

	"tokenfactory/factory"
)

// day is the step of the coarser roll-ups. Days are those of UTC: what a budget of
// another zone has beside whole ones is less than a day at each end.
const day = 24 * time.Hour // 86,400,000,000 µs

const dayKey = `day_us, tenant_id, key_id, deployment_id, price_id`

const dayColumns = dayKey + `, requests, prompt_tokens, cached_tokens, completion_tokens`

// addDays adds new ledger rows to the sums of their days.
func (s *Store) addDays(ctx context.Context, rows []factory.Usage) error {
	return inChunks(sumsOf(rows, day), func(part []UsageSum) error {
		args := make([]any, 0, 9*len(part))
		for _, x := range part {
			args = append(args, micros(x.QuarterStart), x.TenantID, x.KeyID, x.DeploymentID, x.PriceID,
				x.Requests, x.PromptTokens, x.CachedTokens, x.CompletionTokens)
		}
		return s.exec(ctx, "usage", nil, `INSERT INTO usage_days (`+dayColumns+`) VALUES `+rowsOf(len(part), 9)+`
			ON CONFLICT (`+dayKey+`) DO UPDATE SET
			requests = usage_days.requests + excluded.requests,
			prompt_tokens = usage_days.prompt_tokens + excluded.prompt_tokens,
			cached_tokens = usage_days.cached_tokens + excluded.cached_tokens,
			completion_tokens = usage_days.completion_tokens + excluded.completion_tokens`, args...)
	})
}

// scopeColumns are where usage names whose it is.
var scopeColumns = map[factory.Scope]string{
	factory.ScopeKey: "key_id", factory.ScopeTenant: "tenant_id", factory.ScopeDeployment: "deployment_id",
}

// Spent sums up, by version of the price, what requests used that began in
// from ≤ t < to and belong to one key, tenant or deployment. A version that nobody
// knows comes as its id alone. It is one statement, so that all of it is of one
// moment, and reads what is committed only.
func (s *Store) Spent(ctx context.Context, scope factory.Scope, id string, from, to time.Time) ([]factory.PricedTokens, error) {
	column, known := scopeColumns[scope]
	if !known {
		return nil, factory.Errorf(factory.Invalid, "Spending is known of keys, tenants and deployments, not of “%s”.", scope)
	}
	var query string
	var args []any
	for _, p := range piecesOf(ceilMicros(from), ceilMicros(to)) {
		if query != "" {
			query += " UNION ALL "
		}
		count := "requests"
		if p.table == "usage_rows" {
			count = "1"
		}
		query += `SELECT price_id, ` + count + ` AS requests, prompt_tokens, cached_tokens, completion_tokens FROM ` + p.table +
			` WHERE ` + column + ` = ? AND ` + p.time + ` >= ? AND ` + p.time + ` < ?`
		args = append(args, id, p.from, p.to)
	}
	if query == "" {
		return nil, nil
	}
	return all(ctx, s, s.r, "usage", scanPriced, `SELECT u.price_id, COALESCE(v.deployment_id, ''), COALESCE(v.free, FALSE), COALESCE(v.currency, ''),
		COALESCE(v.input, ''), COALESCE(v.cached_input, ''), COALESCE(v.output, ''), v.valid_from,
		u.requests, u.prompt_tokens, u.cached_tokens, u.completion_tokens FROM (
			SELECT price_id, CAST(SUM(requests) AS BIGINT) AS requests, CAST(SUM(prompt_tokens) AS BIGINT) AS prompt_tokens,
			CAST(SUM(cached_tokens) AS BIGINT) AS cached_tokens, CAST(SUM(completion_tokens) AS BIGINT) AS completion_tokens
			FROM (`+query+`) x GROUP BY price_id
		) u LEFT JOIN prices v ON v.id = u.price_id ORDER BY u.price_id`, args...)
}

func scanPriced(r row) (factory.PricedTokens, error) {
	var x factory.PricedTokens
	var validFrom *time.Time
	err := r.Scan(&x.Price.ID, &x.Price.DeploymentID, &x.Price.Free, &x.Price.Currency, &x.Price.Input, &x.Price.CachedInput, &x.Price.Output, asOptTime(&validFrom),
		&x.Requests, &x.PromptTokens, &x.CachedTokens, &x.CompletionTokens)
	if validFrom != nil {
		x.Price.ValidFrom = *validFrom
	}
	return x, err
}

// piece is a part of a range of time, and the table that tells it with the fewest rows.
type piece struct {
	table, time string
	from, to    int64 // µs
}

// piecesOf cuts a range into whole days, what is left of it into whole quarters, and
// what is left then into rows of the ledger.
func piecesOf(from, to int64) []piece {
	grains := []struct {
		table, time string
		step        time.Duration // what its rows are sums of
	}{{"usage_days", "day_us", day}, {"usage_rollups", "quarter_us", quarter}, {"usage_rows", "started_at", time.Microsecond}}
	type gap struct{ from, to int64 }
	gaps := []gap{{from, to}}
	var out []piece
	for _, g := range grains {
		var left []gap
		for _, x := range gaps {
			step := g.step.Microseconds()
			wholeFrom, wholeTo := (x.from+step-1)/step*step, x.to/step*step
			if wholeFrom >= wholeTo {
				left = append(left, x)
				continue
			}
			out = append(out, piece{g.table, g.time, wholeFrom, wholeTo})
			left = append(left, gap{x.from, wholeFrom}, gap{wholeTo, x.to})
		}
		gaps = left
	}
	return out
}

// ceilMicros is the first kept time that is not before t.
func ceilMicros(t time.Time) int64 { return micros(t.Add(time.Microsecond - 1)) }
