package store

import (
	"context"
	"slices"
	"time"

	"tokenfactory/factory"
)

const eventColumns = `id, deployment_id, kind, text, actor, at`

// keepHistory is as long as the coarsest measurements are kept: events and alerts are
// there to be read beside them.
const keepHistory = 400 * 24 * time.Hour

// maxEvents is the most of a range that is read, the newest. More marks than that are
// no marks any more.
const maxEvents = 500

// maxEventText is where the text of an event ends. Engines give long reasons for having ended.
const maxEventText = 400

func scanEvent(r row) (factory.Event, error) {
	var e factory.Event
	return e, r.Scan(&e.ID, &e.DeploymentID, &e.Kind, &e.Text, &e.Actor, asTime(&e.At))
}

// RecordEvent keeps that something happened to a deployment.
func (s *Store) RecordEvent(ctx context.Context, e factory.Event) error {
	text := []rune(clean(e.Text))
	if len(text) > maxEventText {
		text = append(text[:maxEventText-1], '…')
	}
	return s.exec(ctx, "event", nil, insert("events", eventColumns),
		e.ID, e.DeploymentID, e.Kind, string(text), clean(e.Actor), micros(e.At))
}

// record is RecordEvent of what the store itself sees happen.
func (s *Store) record(ctx context.Context, deploymentID string, kind factory.EventKind, text string, at time.Time) error {
	return s.RecordEvent(ctx, factory.Event{ID: factory.NewOrderedID(at), DeploymentID: deploymentID, Kind: kind, Text: text, At: at})
}

// Events lists what happened to a deployment in from ≤ t < to, newest first.
func (s *Store) Events(ctx context.Context, deploymentID string, from, to time.Time) ([]factory.Event, error) {
	return all(ctx, s, s.r, "event", scanEvent, `SELECT `+eventColumns+` FROM events
		WHERE deployment_id = ? AND at >= ? AND at < ? ORDER BY at DESC, id DESC LIMIT ?`, deploymentID, micros(from), micros(to), maxEvents)
}

// SweepEvents forgets events that are older than all measurements.
func (s *Store) SweepEvents(ctx context.Context, now time.Time) error {
	return s.sweep(ctx, "event", `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE at < ? LIMIT ?)`, micros(now.Add(-keepHistory)))
}

// recordChanges keeps what differs between a deployment as it was and as it is.
func (s *Store) recordChanges(ctx context.Context, old, new factory.Deployment) error {
	for _, e := range changesOf(old, new) {
		if err := s.record(ctx, new.ID, e.Kind, e.Text, new.UpdatedAt); err != nil {
			return err
		}
	}
	return nil
}

// reading is a replica as its node's last report said.
type reading struct {
	id, deploymentID, node string
	stopping               bool
	state                  factory.State
	restarts               int
}

// recordRestart keeps that an engine ended or began anew without being told to. A
// report that comes twice says it once: the second finds nothing changed.
func (s *Store) recordRestart(ctx context.Context, was reading, is factory.ReplicaStatus, at time.Time) error {
	var text string
	switch {
	case was.stopping:
		return nil
	case is.Restarts > was.restarts:
		text = "The engine on " + was.node + " began anew."
	case was.state == factory.Ready && is.State == factory.Failed:
		text = "The engine on " + was.node + " failed."
	default:
		return nil
	}
	if is.Reason != "" {
		text += " " + is.Reason
	}
	return s.record(ctx, was.deploymentID, factory.EventRestart, text, at)
}

// switchDeployment changes whether a deployment is stopped or asleep, and keeps an event
// with the text that change returns. Without one it leaves everything as it is.
func (s *Store) switchDeployment(ctx context.Context, id string, change func(stopped, asleep bool) (newStopped, newAsleep bool, text string, err error)) error {
	return s.InTx(ctx, func(tx *Store) error {
		was, err := one(ctx, tx, tx.q, "deployment", noDeployment, func(r row) ([]bool, error) {
			was := make([]bool, 2)
			return was, r.Scan(&was[0], &was[1])
		}, `SELECT stopped, asleep FROM deployments WHERE id = ? AND deleted_at IS NULL`+tx.forUpdate("deployments"), id)
		if err != nil {
			return err
		}
		stopped, asleep, text, err := change(was[0], was[1])
		if err != nil || slices.Equal(was, []bool{stopped, asleep}) {
			return err
		}
		if err := tx.exec(ctx, "deployment", nil, `UPDATE deployments SET stopped = ?, asleep = ? WHERE id = ?`, stopped, asleep, id); err != nil {
			return err
		}
		// Nobody hands a time in: what is switched is switched now.
		return tx.record(ctx, id, factory.EventDeploy, text, factory.Now())
	})
}
