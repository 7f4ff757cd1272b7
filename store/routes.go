package store

import (
	"context"
	"time"

	"tokenfactory/factory"
)

// AllRoutes lists every deployment that may be asked for, with the replicas that
// can serve at this moment: ready, not stopping, on a node that has been heard of.
func (s *Store) AllRoutes(ctx context.Context, now time.Time) ([]factory.Route, error) {
	deployments, err := s.AllDeployments(ctx)
	if err != nil {
		return nil, err
	}
	hostnames, err := s.names(ctx, "endpoint", `SELECT id, hostname FROM endpoints`)
	if err != nil {
		return nil, err
	}
	replicas, err := all(ctx, s, s.r, "replica", scanReplica, selectReplicas+
		`WHERE r.state = ? AND r.stopping = FALSE AND r.url <> '' AND n.last_seen_at >= ? ORDER BY r.created_at, r.id`,
		factory.Ready, micros(now.Add(-factory.OfflineAfter)))
	if err != nil {
		return nil, err
	}
	serving := map[string][]factory.Replica{}
	for _, r := range replicas {
		serving[r.DeploymentID] = append(serving[r.DeploymentID], r)
	}
	routes := make([]factory.Route, len(deployments))
	for i, d := range deployments {
		routes[i] = factory.Route{Deployment: d, Hostname: hostnames[d.EndpointID], Replicas: serving[d.ID]}
		if d.Stopped {
			routes[i].Replicas = nil
		}
	}
	return routes, nil
}
