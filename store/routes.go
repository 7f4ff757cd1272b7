package store

import (
	"context"
	"time"

	"tokenfactory/factory"
)

// AllRoutes lists every deployment that may be asked for, with the replicas that
// can serve at this moment: ready, not stopping, on a node that has been heard of.
// Where there are none, it says whether waiting for one makes sense.
func (s *Store) AllRoutes(ctx context.Context, now time.Time) ([]factory.Route, error) {
	deployments, err := s.AllDeployments(ctx)
	if err != nil {
		return nil, err
	}
	hostnames, err := s.names(ctx, "endpoint", `SELECT id, hostname FROM endpoints`)
	if err != nil {
		return nil, err
	}
	heard, err := s.names(ctx, "node", `SELECT id, name FROM nodes WHERE last_seen_at >= ?`, micros(now.Add(-factory.OfflineAfter)))
	if err != nil {
		return nil, err
	}
	// In one statement, so that none is missed on its way from loading to ready.
	replicas, err := all(ctx, s, s.r, "replica", scanReplica, selectReplicas+`WHERE r.stopping = FALSE ORDER BY r.created_at, r.id`)
	if err != nil {
		return nil, err
	}
	of := map[string][]factory.Replica{}
	for _, r := range replicas {
		of[r.DeploymentID] = append(of[r.DeploymentID], r)
	}
	routes := make([]factory.Route, len(deployments))
	for i, d := range deployments {
		routes[i] = factory.Route{Deployment: d, Hostname: hostnames[d.EndpointID]}
		if !d.Stopped {
			routes[i].Replicas, routes[i].Coming = serving(d, of[d.ID], heard)
		}
	}
	return routes, nil
}

// serving picks the replicas that can serve; without any, it says whether one is coming.
// None at all is: the controller plans what is missing as soon as it looks.
func serving(d factory.Deployment, replicas []factory.Replica, heard map[string]string) (ready []factory.Replica, coming bool) {
	coming = d.Asleep || len(replicas) == 0
	for _, r := range replicas {
		if _, online := heard[r.NodeID]; !online && r.NodeID != "" {
			continue
		}
		switch r.State {
		case factory.Ready:
			if r.URL != "" {
				ready = append(ready, r)
			}
		case factory.Pending, factory.Starting, factory.Loading:
			// One without a machine waits for room that nobody can promise.
			coming = coming || r.NodeID != ""
		}
	}
	return ready, coming && len(ready) == 0
}
