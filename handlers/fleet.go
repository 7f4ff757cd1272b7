package handlers

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/clusters"
)

// fleet is everything that runs, read once for a page.
type fleet struct {
	nodes       []factory.Node
	deployments []factory.Deployment
	replicas    []factory.Replica
	names       map[string]string // of deployments, deleted ones too
	silent      map[string]bool
	now         time.Time
}

func readFleet(ctx context.Context, s *store.Store, now time.Time) (f fleet, err error) {
	f.now = now
	if f.nodes, err = s.AllNodes(ctx); err != nil {
		return f, err
	}
	if f.deployments, err = s.AllDeployments(ctx); err != nil {
		return f, err
	}
	if f.replicas, err = s.AllReplicas(ctx); err != nil {
		return f, err
	}
	f.names, err = s.DeploymentNames(ctx)
	f.silent = silentNodes(f.nodes, now)
	return f, err
}

func (f fleet) machines(clusterID string) []views.Machine {
	var out []views.Machine
	for _, n := range f.nodes {
		if n.ClusterID == clusterID {
			out = append(out, f.machine(n))
		}
	}
	slices.SortStableFunc(out, func(a, b views.Machine) int {
		if a.Online != b.Online {
			if b.Online {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func (f fleet) machine(n factory.Node) views.Machine {
	m := views.Machine{Node: n, Online: n.Online(f.now)}
	for _, r := range f.replicas {
		if r.NodeID == n.ID {
			m.Replicas = append(m.Replicas, views.Placed{Replica: r, Deployment: f.names[r.DeploymentID]})
		}
	}
	return m
}

func (f fleet) replicasOf(deploymentID string) []factory.Replica {
	var out []factory.Replica
	for _, r := range f.replicas {
		if r.DeploymentID == deploymentID {
			out = append(out, r)
		}
	}
	return out
}

// ready counts the replicas that serve now.
func (f fleet) ready(replicas []factory.Replica) int {
	n := 0
	for _, r := range replicas {
		if r.State == factory.Ready && !r.Stopping && !f.silent[r.NodeID] {
			n++
		}
	}
	return n
}

// stateRank puts what is wrong first, then what is under way, then what is well.
var stateRank = map[factory.State]int{
	factory.Failed: 0, factory.Degraded: 1, factory.Pending: 2, factory.Starting: 3, factory.Loading: 4,
	factory.Stopping: 5, factory.Ready: 6, factory.Asleep: 7, factory.Stopped: 8,
}

func (f fleet) served(clusterID string) []views.Served {
	var out []views.Served
	for _, d := range f.deployments {
		if d.ClusterID != clusterID {
			continue
		}
		replicas := f.replicasOf(d.ID)
		s := views.Served{Deployment: d, Ready: f.ready(replicas)}
		s.State, s.Reason = d.Status(replicas, f.silent)
		for _, r := range replicas {
			if r.NodeName != "" && !slices.Contains(s.Machines, r.NodeName) {
				s.Machines = append(s.Machines, r.NodeName)
			}
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b views.Served) int { return cmp.Compare(stateRank[a.State], stateRank[b.State]) })
	return out
}

func (f fleet) row(c factory.Cluster) views.Row {
	row := views.Row{Cluster: c, Machines: f.machines(c.ID)}
	for _, d := range f.served(c.ID) {
		row.Deployments++
		if d.State == factory.Failed || d.State == factory.Degraded {
			row.Failed++
		}
	}
	return row
}
