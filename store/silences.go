package store

import (
	"context"
	"slices"
	"time"

	"tokenfactory/factory"
)

const silenceColumns = `id, rule, deployment_id, reason, created_by, created_at, until_at`

func scanSilence(r row) (factory.Silence, error) {
	var x factory.Silence
	return x, r.Scan(&x.ID, &x.Rule, &x.DeploymentID, &x.Reason, &x.CreatedBy, asTime(&x.CreatedAt), asTime(&x.Until))
}

// Silences lists those that have not ended, the first to end first.
func (s *Store) Silences(ctx context.Context, now time.Time) ([]factory.Silence, error) {
	return all(ctx, s, s.r, "silence", scanSilence, `SELECT `+silenceColumns+` FROM silences WHERE until_at > ? ORDER BY until_at, id`, micros(now))
}

// CreateSilence keeps alerts from being told until it ends. What waits already to be told is told.
func (s *Store) CreateSilence(ctx context.Context, x factory.Silence) error {
	return s.exec(ctx, "silence", nil, insert("silences", silenceColumns),
		x.ID, x.Rule, x.DeploymentID, x.Reason, x.CreatedBy, micros(x.CreatedAt), micros(x.Until))
}

// EndSilence ends a silence before its time; one that has ended already is no error.
func (s *Store) EndSilence(ctx context.Context, id string, now time.Time) error {
	return s.exec(ctx, "silence", nil, `UPDATE silences SET until_at = ? WHERE id = ? AND until_at > ?`, micros(now), id, micros(now))
}

// silenced reports whether a silence covers an alert.
func (s *Store) silenced(ctx context.Context, a factory.Alert, now time.Time) (bool, error) {
	list, err := s.Silences(ctx, now)
	return slices.ContainsFunc(list, func(x factory.Silence) bool { return x.Covers(a, now) }), err
}
