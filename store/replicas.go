package store

import (
	"context"

	"tokenfactory/factory"
)

const replicaColumns = `id, deployment_id, node_id, gpu_uuids, revision, stopping, state, reason, last_lines, url, served_name,
	pid, restarts, progress, started_at, ready_at, updated_at, created_at`

const selectReplicas = `SELECT r.id, r.deployment_id, r.node_id, COALESCE(n.name, ''), r.gpu_uuids, r.revision, r.stopping, r.state, r.reason, r.last_lines, r.url, r.served_name,
	r.pid, r.restarts, r.progress, r.started_at, r.ready_at, r.updated_at, r.created_at
	FROM replicas r LEFT JOIN nodes n ON n.id = r.node_id `

func scanReplica(r row) (factory.Replica, error) {
	var x factory.Replica
	return x, r.Scan(&x.ID, &x.DeploymentID, asOptText(&x.NodeID), &x.NodeName, asJSON(&x.GPUUUIDs), &x.Revision, &x.Stopping, &x.State, &x.Reason, asJSON(&x.LastLines), &x.URL, &x.ServedName,
		&x.PID, &x.Restarts, &x.Progress, asOptTime(&x.StartedAt), asOptTime(&x.ReadyAt), asTime(&x.UpdatedAt), asTime(&x.CreatedAt))
}

// AllReplicas lists every replica, oldest first, those of deleted deployments
// too while they have not stopped.
func (s *Store) AllReplicas(ctx context.Context) ([]factory.Replica, error) {
	return all(ctx, s, s.r, "replica", scanReplica, selectReplicas+`ORDER BY r.created_at, r.id`)
}

// Replicas lists the replicas of a deployment, oldest first.
func (s *Store) Replicas(ctx context.Context, deploymentID string) ([]factory.Replica, error) {
	return all(ctx, s, s.r, "replica", scanReplica, selectReplicas+`WHERE r.deployment_id = ? ORDER BY r.created_at, r.id`, deploymentID)
}

// CreateReplica gives a node a replica to run, or keeps one that waits for a node.
func (s *Store) CreateReplica(ctx context.Context, x factory.Replica) error {
	return s.exec(ctx, "replica", nil, insert("replicas", replicaColumns),
		x.ID, x.DeploymentID, optText(x.NodeID), toJSON(x.GPUUUIDs), x.Revision, x.Stopping, x.State, x.Reason, toJSON(x.LastLines), x.URL, x.ServedName,
		x.PID, x.Restarts, x.Progress, optMicros(x.StartedAt), optMicros(x.ReadyAt), micros(x.UpdatedAt), micros(x.CreatedAt))
}

// PlaceReplica gives a waiting replica its node and devices, or another reason for
// waiting. One that was placed meanwhile stays where it is.
func (s *Store) PlaceReplica(ctx context.Context, x factory.Replica) error {
	return s.exec(ctx, "replica", nil,
		`UPDATE replicas SET node_id = ?, gpu_uuids = ?, revision = ?, state = ?, reason = ?, updated_at = ? WHERE id = ? AND node_id IS NULL`,
		optText(x.NodeID), toJSON(x.GPUUUIDs), x.Revision, x.State, x.Reason, micros(x.UpdatedAt), x.ID)
}

// SetReplicaStopping takes a replica out of what its node should run. It goes when
// the node says that it has stopped; one that has gone already is no error.
func (s *Store) SetReplicaStopping(ctx context.Context, id string) error {
	return s.exec(ctx, "replica", nil, `UPDATE replicas SET stopping = TRUE WHERE id = ?`, id)
}

// SetReplicaRevision makes a replica start anew with what its deployment now says.
func (s *Store) SetReplicaRevision(ctx context.Context, id string, revision int) error {
	return s.change(ctx, "replica", "There is no such replica. It may have stopped.", nil,
		`UPDATE replicas SET revision = ?, state = ?, reason = ?, ready_at = NULL WHERE id = ?`,
		revision, factory.Starting, "Waiting for its agent to start it anew with the changed settings.", id)
}

// DeleteReplica forgets a replica; one that has gone already is no error.
func (s *Store) DeleteReplica(ctx context.Context, id string) error {
	return s.exec(ctx, "replica", nil, `DELETE FROM replicas WHERE id = ?`, id)
}

// DesiredReplicas lists what a node should run, with all that its agent needs for it.
func (s *Store) DesiredReplicas(ctx context.Context, nodeID string) ([]factory.ReplicaSpec, error) {
	return all(ctx, s, s.r, "replica", func(r row) (factory.ReplicaSpec, error) {
		var x factory.ReplicaSpec
		var modelContext int
		err := r.Scan(&x.ID, &x.DeploymentID, &x.Deployment, &x.Revision, &x.Engine, &x.Address, asJSON(&x.Args), asJSON(&x.Env), asJSON(&x.GPUUUIDs),
			&x.Source, &x.Location, &x.ServedName, &x.ContextLength, &modelContext, &x.PrefixCaching, &x.Embedding)
		if x.ContextLength == 0 {
			x.ContextLength = modelContext
		}
		if x.ServedName == "" {
			x.ServedName = x.Location
		}
		return x, err
	}, `SELECT r.id, r.deployment_id, d.name, r.revision, d.engine, d.address, d.engine_args, d.engine_env, r.gpu_uuids,
		m.source, m.location, d.public_name, d.context_length, m.context_length, d.prefix_caching, m.embedding
		FROM replicas r JOIN deployments d ON d.id = r.deployment_id JOIN models m ON m.id = d.model_id
		WHERE r.node_id = ? AND r.stopping = FALSE ORDER BY r.created_at, r.id`, nodeID)
}
