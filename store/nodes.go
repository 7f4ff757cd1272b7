package store

import (
	"context"
	"time"

	"tokenfactory/factory"
)

const nodeColumns = `id, cluster_id, name, identity, credential_hash, address, agent_version, runtime, hardware, skew_us, report_seq, joined_at, last_seen_at`

const selectNodes = `SELECT n.id, n.cluster_id, c.name, n.name, n.identity, n.credential_hash, n.address, n.agent_version, n.runtime, n.hardware,
	n.skew_us, n.report_seq, n.joined_at, n.last_seen_at
	FROM nodes n JOIN clusters c ON c.id = n.cluster_id `

func scanNode(r row) (factory.Node, error) {
	var n factory.Node
	var skew int64
	err := r.Scan(&n.ID, &n.ClusterID, &n.ClusterName, &n.Name, &n.Identity, &n.CredentialHash, &n.Address, &n.AgentVersion, &n.Runtime, asJSON(&n.Hardware),
		&skew, &n.ReportSeq, asTime(&n.JoinedAt), asTime(&n.LastSeenAt))
	n.Skew = time.Duration(skew) * time.Microsecond
	return n, err
}

const noNode = "There is no such machine here. It may have been removed."

// Node reads a machine by id.
func (s *Store) Node(ctx context.Context, id string) (factory.Node, error) {
	return one(ctx, s, s.r, "node", noNode, scanNode, selectNodes+`WHERE n.id = ?`, id)
}

// NodeByCredential reads the machine whose agent has a credential.
func (s *Store) NodeByCredential(ctx context.Context, hash string) (factory.Node, error) {
	return one(ctx, s, s.r, "node", "No machine has this credential. Join it again with a new token from the cluster's page.", scanNode,
		selectNodes+`WHERE n.credential_hash = ?`, hash)
}

// NodeCredentials lists the hash of every machine's credential by the machine's id.
func (s *Store) NodeCredentials(ctx context.Context) (map[string]string, error) {
	return s.names(ctx, "node", `SELECT id, credential_hash FROM nodes`)
}

// AllNodes lists the machines of all clusters.
func (s *Store) AllNodes(ctx context.Context) ([]factory.Node, error) {
	return all(ctx, s, s.r, "node", scanNode, selectNodes+`ORDER BY c.name, n.name`)
}

// Nodes lists the machines of a cluster by name.
func (s *Store) Nodes(ctx context.Context, clusterID string) ([]factory.Node, error) {
	return all(ctx, s, s.r, "node", scanNode, selectNodes+`WHERE n.cluster_id = ? ORDER BY n.name`, clusterID)
}

// DeleteNode removes a machine and the replicas on it; its agent's credential
// ends with it.
func (s *Store) DeleteNode(ctx context.Context, id string) error {
	return s.change(ctx, "node", noNode, nil, `DELETE FROM nodes WHERE id = ?`, id)
}
