package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tokenfactory/factory"
)

const joinTokenColumns = `id, cluster_id, hash, max_uses, uses, expires_at, created_at`

func scanJoinToken(r row) (factory.JoinToken, error) {
	var t factory.JoinToken
	return t, r.Scan(&t.ID, &t.ClusterID, &t.Hash, &t.MaxUses, &t.Uses, asTime(&t.ExpiresAt), asTime(&t.CreatedAt))
}

// JoinTokens lists a cluster's tokens, newest first, those that are of no more use too.
func (s *Store) JoinTokens(ctx context.Context, clusterID string) ([]factory.JoinToken, error) {
	return all(ctx, s, s.r, "join token", scanJoinToken,
		`SELECT `+joinTokenColumns+` FROM join_tokens WHERE cluster_id = ? ORDER BY created_at DESC, id`, clusterID)
}

// CreateJoinToken adds a token.
func (s *Store) CreateJoinToken(ctx context.Context, t factory.JoinToken) error {
	return s.exec(ctx, "join token", nil, insert("join_tokens", joinTokenColumns),
		t.ID, t.ClusterID, t.Hash, t.MaxUses, t.Uses, micros(t.ExpiresAt), micros(t.CreatedAt))
}

// DeleteJoinToken makes a token useless.
func (s *Store) DeleteJoinToken(ctx context.Context, id string) error {
	return s.change(ctx, "join token", "There is no such join token.", nil, `DELETE FROM join_tokens WHERE id = ?`, id)
}

const makeNewToken = " Make a new one on the cluster's page."

// RedeemJoinToken exchanges a token for a place in its cluster: node says what the
// agent told of itself and the hash of the credential it is going to have. The
// machine is recognised by its identity, not by its name: one that has been
// silent comes back as the node it was; one that is online is never overwritten.
func (s *Store) RedeemJoinToken(ctx context.Context, hash string, node factory.Node, now time.Time) (factory.Node, error) {
	var joined factory.Node
	err := s.inRetriedTx(ctx, func(tx *Store) error {
		clusterID, err := tx.useJoinToken(ctx, hash, now)
		if err != nil {
			return err
		}
		// Joins of one cluster happen one after the other, so that names stay distinct.
		if _, err := one(ctx, tx, tx.q, "cluster", noCluster, scanText,
			`SELECT id FROM clusters WHERE id = ?`+tx.forUpdate("clusters"), clusterID); err != nil {
			return err
		}
		nodes, err := tx.Nodes(ctx, clusterID)
		if err != nil {
			return err
		}
		id := node.ID
		if i := slices.IndexFunc(nodes, func(n factory.Node) bool { return n.Identity == node.Identity }); i >= 0 {
			if nodes[i].Online(now) {
				return identityClash(nodes[i], now)
			}
			id, err = nodes[i].ID, tx.takeOver(ctx, nodes[i].ID, node, now)
		} else {
			if id == "" {
				id = factory.NewID()
			}
			node.ID, node.ClusterID, node.Name = id, clusterID, distinctName(node, nodes)
			err = tx.createNode(ctx, node, now)
		}
		if err != nil {
			return err
		}
		joined, err = tx.Node(ctx, id)
		return err
	})
	return joined, err
}

// useJoinToken takes one use of a token and says which cluster it is for.
func (s *Store) useJoinToken(ctx context.Context, hash string, now time.Time) (string, error) {
	t, err := one(ctx, s, s.q, "join token", "", scanJoinToken,
		`SELECT `+joinTokenColumns+` FROM join_tokens WHERE hash = ?`+s.forUpdate("join_tokens"), hash)
	switch {
	case factory.KindOf(err) == factory.NotFound:
		return "", factory.Errorf(factory.Unauthenticated, "This join token is unknown: it was deleted, or was not copied completely."+makeNewToken)
	case err != nil:
		return "", err
	case !now.Before(t.ExpiresAt):
		return "", factory.Errorf(factory.Unauthenticated, "This join token expired at %s."+makeNewToken, t.ExpiresAt.Format("2006-01-02 15:04 MST"))
	case t.Uses >= t.MaxUses:
		return "", factory.Errorf(factory.Unauthenticated, "This join token has been used %d of %d times."+makeNewToken, t.Uses, t.MaxUses)
	}
	return t.ClusterID, s.exec(ctx, "join token", nil, `UPDATE join_tokens SET uses = uses + 1 WHERE id = ?`, t.ID)
}

func identityClash(n factory.Node, now time.Time) error {
	return factory.Errorf(factory.Conflict, "Node %s (%s) of cluster %s has the identity of this machine already and was heard of %d s ago. "+
		"If this machine is a copy of that one, give it a machine id and a data folder of its own, then join again. "+
		"If it is the same machine, stop its other agent, wait %d s and join again.",
		n.Name, n.Where(), n.ClusterName, int(now.Sub(n.LastSeenAt).Seconds()), int(factory.OfflineAfter.Seconds())+1)
}

// distinctName is the machine's host name, with a number when another machine of
// the cluster has it.
func distinctName(node factory.Node, others []factory.Node) string {
	host := node.Name
	if host == "" {
		host = node.Hardware.Hostname
	}
	if host == "" {
		host = "node"
	}
	name := host
	for i := 2; slices.ContainsFunc(others, func(n factory.Node) bool { return n.Name == name }); i++ {
		name = fmt.Sprintf("%s-%d", host, i)
	}
	return name
}

func (s *Store) createNode(ctx context.Context, n factory.Node, now time.Time) error {
	return s.exec(ctx, "node", []unique{{"name", n.Name}}, insert("nodes", nodeColumns),
		n.ID, n.ClusterID, n.Name, n.Identity, n.CredentialHash, n.Address, n.AgentVersion, n.Runtime, toJSON(n.Hardware),
		n.Skew.Microseconds(), 0, micros(now), micros(now))
}

// takeOver gives a silent machine's node to the agent that joins now. That agent
// counts its reports from the beginning: with the old numbers all that it
// measures would be taken for old.
func (s *Store) takeOver(ctx context.Context, id string, n factory.Node, now time.Time) error {
	return s.change(ctx, "node", noNode, nil,
		`UPDATE nodes SET credential_hash = ?, address = ?, agent_version = ?, runtime = ?, hardware = ?, skew_us = ?, report_seq = 0, last_seen_at = ? WHERE id = ?`,
		n.CredentialHash, n.Address, n.AgentVersion, n.Runtime, toJSON(n.Hardware), n.Skew.Microseconds(), micros(now), id)
}
