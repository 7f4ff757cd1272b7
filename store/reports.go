package store

import (
	"context"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// SaveReport takes in what a node's agent said, all of it or nothing: the state
// of the machine, of its replicas, and the measurements, whose times are ours
// already. A report that is delivered again changes no measurement.
func (s *Store) SaveReport(ctx context.Context, nodeID string, report factory.NodeReport, buckets []metrics.Bucket) error {
	spread, err := spread(buckets)
	if err != nil {
		return err
	}
	return s.inRetriedTx(ctx, func(tx *Store) error {
		seq, err := one(ctx, tx, tx.q, "node", "This machine is not part of the factory any more. Join it again with a new token from the cluster's page.",
			func(r row) (int64, error) {
				var seq int64
				return seq, r.Scan(&seq)
			}, `SELECT report_seq FROM nodes WHERE id = ?`+tx.forUpdate("nodes"), nodeID)
		if err != nil {
			return err
		}
		isNew := report.AckSeq > seq
		if isNew && report.PriorSeq != seq {
			if len(spread) > 0 {
				return factory.Errorf(factory.Conflict, "Another report of this machine was taken in at the same time. Send this one again.")
			}
			isNew = false // numbers of before the machine joined anew
		}
		if isNew {
			seq = report.AckSeq
		}
		if err := tx.exec(ctx, "node", nil,
			`UPDATE nodes SET address = ?, agent_version = ?, hardware = ?, skew_us = ?, last_seen_at = ?, report_seq = ? WHERE id = ?`,
			clean(report.Address), clean(report.Version), toJSON(report.Hardware), report.Skew.Microseconds(), micros(report.ReceivedAt),
			seq, nodeID); err != nil {
			return err
		}
		if err := tx.saveStatuses(ctx, nodeID, report); err != nil {
			return err
		}
		if !isNew {
			return nil
		}
		return tx.mergeSpread(ctx, spread)
	})
}

// saveStatuses writes what a report says of the node's own replicas. Stopping ones
// that are not there any more are done.
func (s *Store) saveStatuses(ctx context.Context, nodeID string, report factory.NodeReport) error {
	said := map[string]factory.ReplicaStatus{}
	for _, status := range report.Replicas {
		said[status.ID] = status
	}
	replicas, err := all(ctx, s, s.q, "replica", func(r row) (reading, error) {
		var k reading
		return k, r.Scan(&k.id, &k.deploymentID, &k.node, &k.stopping, &k.state, &k.restarts)
	}, `SELECT r.id, r.deployment_id, n.name, r.stopping, r.state, r.restarts FROM replicas r JOIN nodes n ON n.id = r.node_id
		WHERE r.node_id = ? ORDER BY r.id`+s.forUpdate("r"), nodeID)
	if err != nil {
		return err
	}
	for _, k := range replicas {
		x, listed := said[k.id]
		switch {
		case k.stopping && (!listed || x.State == factory.Stopped):
			err = s.exec(ctx, "replica", nil, `DELETE FROM replicas WHERE id = ?`, k.id)
		case listed:
			if err := s.recordRestart(ctx, k, x, report.ReceivedAt); err != nil {
				return err
			}
			err = s.exec(ctx, "replica", nil, `UPDATE replicas SET state = ?, reason = ?, last_lines = ?, url = ?, served_name = ?,
				pid = ?, restarts = ?, progress = ?, started_at = ?, ready_at = ?, updated_at = ? WHERE id = ?`,
				clean(string(x.State)), clean(x.Reason), toJSON(x.LastLines), clean(x.URL), clean(x.ServedName),
				x.PID, x.Restarts, clean(x.Progress), optMicros(x.StartedAt), optMicros(x.ReadyAt), micros(report.ReceivedAt), k.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
