package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
)

const alertColumns = `id, subject, rule, severity, deployment_id, node_id, tenant_id, state, title, detail,
	pending_at, firing_at, below_at, resolved_at, updated_at`

func scanAlert(r row) (factory.Alert, error) {
	var a factory.Alert
	return a, r.Scan(&a.ID, &a.Subject, &a.Rule, &a.Severity, &a.DeploymentID, &a.NodeID, &a.TenantID, &a.State, &a.Title, asJSON(&a.Detail),
		asTime(&a.PendingAt), asOptTime(&a.FiringAt), asOptTime(&a.BelowAt), asOptTime(&a.ResolvedAt), asTime(&a.UpdatedAt))
}

// OpenAlerts lists the alerts that are pending or firing, oldest first.
func (s *Store) OpenAlerts(ctx context.Context) ([]factory.Alert, error) {
	// Ordered here, because SQLite would go through all of the history for the order.
	open, err := all(ctx, s, s.r, "alert", scanAlert, `SELECT `+alertColumns+` FROM alerts WHERE resolved_at IS NULL`)
	slices.SortFunc(open, func(a, b factory.Alert) int {
		return cmp.Or(a.PendingAt.Compare(b.PendingAt), strings.Compare(a.ID, b.ID))
	})
	return open, err
}

// Alert reads an alert by id.
func (s *Store) Alert(ctx context.Context, id string) (factory.Alert, error) {
	return one(ctx, s, s.r, "alert", "There is no such alert. It may be too old to be kept.", scanAlert,
		`SELECT `+alertColumns+` FROM alerts WHERE id = ?`, id)
}

// AlertFilter narrows the history of alerts down; empty fields do not.
type AlertFilter struct {
	State        factory.AlertState
	Rule         factory.Rule
	DeploymentID string
	From, To     time.Time // those that were open at some time in From ≤ t < To
	Cursor       string    // what the page before returned
}

// Alerts reads a page of the history of alerts, the newest first, and the cursor of the next page,
// which is empty at the end. What was wrong for too short a time to be told is left
// out once it is over.
func (s *Store) Alerts(ctx context.Context, f AlertFilter, limit int) (list []factory.Alert, next string, err error) {
	where := []string{"(resolved_at IS NULL OR firing_at IS NOT NULL)"}
	var args []any
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	if f.State != "" {
		add("state = ?", f.State)
	}
	if f.Rule != "" {
		add("rule = ?", f.Rule)
	}
	if f.DeploymentID != "" {
		add("deployment_id = ?", f.DeploymentID)
	}
	if !f.From.IsZero() {
		add("(resolved_at IS NULL OR resolved_at >= ?)", micros(f.From))
	}
	if !f.To.IsZero() {
		add("pending_at < ?", micros(f.To))
	}
	return page(ctx, s, "alert", scanAlert, `SELECT `+alertColumns+` FROM alerts`, "pending_at", where, args, f.Cursor, limit,
		func(a factory.Alert) (time.Time, string) { return a.PendingAt, a.ID })
}

// page reads at most limit rows from the newest on, and the cursor of those that follow.
func page[T any](ctx context.Context, s *Store, noun string, scan func(row) (T, error), query, column string, where []string, args []any,
	cursor string, limit int, place func(T) (time.Time, string)) (list []T, next string, err error) {
	if limit <= 0 {
		limit = usagePage
	}
	limit = min(limit, maxUsagePage)
	if cursor != "" {
		at, id, ok := readCursor(cursor)
		if !ok {
			return nil, "", factory.Errorf(factory.Invalid, "This cursor is none of ours. Begin again without one.")
		}
		where, args = append(where, "("+column+", id) < (?, ?)"), append(args, at, id)
	}
	list, err = all(ctx, s, s.r, noun, scan, query+` WHERE `+strings.Join(where, " AND ")+` ORDER BY `+column+` DESC, id DESC LIMIT ?`, append(args, limit+1)...)
	if err == nil && len(list) > limit {
		list = list[:limit]
		at, id := place(list[limit-1])
		next = writeCursor(micros(at), id)
	}
	return list, next, err
}

// SaveAlert keeps an alert as it is now and queues what has to be told of it, all or
// nothing. Saving the same change again queues nothing more.
func (s *Store) SaveAlert(ctx context.Context, a factory.Alert, changes []factory.Change, payload json.RawMessage, now time.Time) error {
	return s.inRetriedTx(ctx, func(tx *Store) error {
		detail := a.Detail
		if len(detail) == 0 {
			detail = json.RawMessage("{}")
		}
		err := tx.exec(ctx, "alert", nil, insert("alerts", alertColumns)+` ON CONFLICT (id) DO UPDATE SET
			severity = excluded.severity, state = excluded.state, title = excluded.title, detail = excluded.detail, pending_at = excluded.pending_at,
			firing_at = excluded.firing_at, below_at = excluded.below_at, resolved_at = excluded.resolved_at, updated_at = excluded.updated_at`,
			a.ID, a.Subject, a.Rule, a.Severity, a.DeploymentID, a.NodeID, a.TenantID, a.State, clean(a.Title), toJSON(detail),
			micros(a.PendingAt), optMicros(a.FiringAt), optMicros(a.BelowAt), optMicros(a.ResolvedAt), micros(a.UpdatedAt))
		if err != nil {
			return err
		}
		for _, change := range changes {
			if err := tx.queue(ctx, a, change, payload, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// SweepAlerts forgets alerts that were over, and deliveries that were settled, before all
// measurements that are kept.
func (s *Store) SweepAlerts(ctx context.Context, now time.Time) error {
	before := micros(now.Add(-keepHistory))
	if err := s.sweep(ctx, "alert", `DELETE FROM alerts WHERE id IN (SELECT id FROM alerts WHERE resolved_at < ? LIMIT ?)`, before); err != nil {
		return err
	}
	if err := s.sweep(ctx, "silence", `DELETE FROM silences WHERE id IN (SELECT id FROM silences WHERE until_at < ? LIMIT ?)`, before); err != nil {
		return err
	}
	return s.sweep(ctx, "delivery", `DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE created_at < ? AND state <> 'waiting' LIMIT ?)`, before)
}
