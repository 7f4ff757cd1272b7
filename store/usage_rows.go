package store

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokenfactory/factory"
)

const usageColumns = `id, tenant_id, key_id, deployment_id, replica_id, price_id, endpoint, model_asked, model_served, status, flags, stream, attempts,
	prompt_tokens, cached_tokens, completion_tokens, started_at, queue_ms, ttft_ms, e2e_ms`

const usageColumnCount = 20

func scanUsage(r row) (factory.Usage, error) {
	var u factory.Usage
	return u, r.Scan(&u.ID, &u.TenantID, &u.KeyID, &u.DeploymentID, &u.ReplicaID, &u.PriceID, &u.Endpoint, &u.ModelAsked, &u.ModelServed, &u.Status, &u.Flags, &u.Stream, &u.Attempts,
		&u.PromptTokens, &u.CachedTokens, &u.CompletionTokens, asTime(&u.StartedAt), &u.QueueMS, &u.TTFTMS, &u.E2EMS)
}

// AppendUsage adds requests to the ledger and to its roll-ups. A request that is in
// the ledger already is left out of both, so that a batch can be sent again when
// nobody knows what became of it.
func (s *Store) AppendUsage(ctx context.Context, rows []factory.Usage) error {
	if len(rows) == 0 {
		return nil
	}
	// One row for each id, in an order that all writers share.
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b factory.Usage) int { return strings.Compare(a.ID, b.ID) })
	rows = slices.CompactFunc(rows, func(a, b factory.Usage) bool { return a.ID == b.ID })
	return s.inRetriedTx(ctx, func(tx *Store) error {
		isNew := make(map[string]bool, len(rows))
		err := inChunks(rows, func(part []factory.Usage) error {
			args := make([]any, 0, usageColumnCount*len(part))
			for _, u := range part {
				args = append(args, u.ID, u.TenantID, u.KeyID, u.DeploymentID, u.ReplicaID, u.PriceID, u.Endpoint, clean(u.ModelAsked), clean(u.ModelServed), u.Status, u.Flags, u.Stream, u.Attempts,
					u.PromptTokens, u.CachedTokens, u.CompletionTokens, micros(u.StartedAt), u.QueueMS, u.TTFTMS, u.E2EMS)
			}
			ids, err := all(ctx, tx, tx.q, "usage", scanText, `INSERT INTO usage_rows (`+usageColumns+`) VALUES `+rowsOf(len(part), usageColumnCount)+`
				ON CONFLICT (id) DO NOTHING RETURNING id`, args...)
			for _, id := range ids {
				isNew[id] = true
			}
			return err
		})
		if err != nil {
			return err
		}
		added := slices.DeleteFunc(slices.Clone(rows), func(u factory.Usage) bool { return !isNew[u.ID] })
		if err := tx.rollUp(ctx, added); err != nil {
			return err
		}
		return tx.addDays(ctx, added)
	})
}

// UsageFilter narrows the ledger down; empty fields do not.
type UsageFilter struct {
	TenantID, DeploymentID, KeyID string
	From, To                      time.Time // From ≤ start < To
	Limit                         int       // 0: 100; at most 1,000
	Cursor                        string    // what the page before returned
}

const (
	usagePage    = 100
	maxUsagePage = 1000
)

// UsageRows reads a page of the ledger, newest first, and the cursor of the next
// page, which is empty at the end.
func (s *Store) UsageRows(ctx context.Context, f UsageFilter) (rows []factory.Usage, next string, err error) {
	if f.Limit <= 0 {
		f.Limit = usagePage
	}
	f.Limit = min(f.Limit, maxUsagePage)
	where := []string{"1 = 1"}
	var args []any
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	if f.TenantID != "" {
		add("tenant_id = ?", f.TenantID)
	}
	if f.DeploymentID != "" {
		add("deployment_id = ?", f.DeploymentID)
	}
	if f.KeyID != "" {
		add("key_id = ?", f.KeyID)
	}
	if !f.From.IsZero() {
		add("started_at >= ?", micros(f.From))
	}
	if !f.To.IsZero() {
		add("started_at < ?", micros(f.To))
	}
	if f.Cursor != "" {
		at, id, ok := readCursor(f.Cursor)
		if !ok {
			return nil, "", factory.Errorf(factory.Invalid, "This cursor is none of ours. Begin again without one.")
		}
		add("(started_at, id) < (?, ?)", at, id)
	}
	args = append(args, f.Limit+1)
	rows, err = all(ctx, s, s.r, "usage", scanUsage, `SELECT `+usageColumns+` FROM usage_rows
		WHERE `+strings.Join(where, " AND ")+` ORDER BY started_at DESC, id DESC LIMIT ?`, args...)
	if err == nil && len(rows) > f.Limit {
		rows = rows[:f.Limit]
		last := rows[f.Limit-1]
		next = writeCursor(micros(last.StartedAt), last.ID)
	}
	return rows, next, err
}

func writeCursor(at int64, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at, 10) + " " + id))
}

func readCursor(cursor string) (at int64, id string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", false
	}
	number, id, ok := strings.Cut(string(text), " ")
	at, err = strconv.ParseInt(number, 10, 64)
	return at, id, ok && err == nil
}
