package agents

import (
	"cmp"
	"slices"
	"time"

	"tokenfactory/factory"
)

// What can be done about one replica.
type deed int

const (
	create deed = iota // a new row, placed or waiting
	place              // a waiting row gets its node, or another reason for waiting
	revise             // starts anew, where it is, with its deployment's newest settings
	stop               // its agent stops it and the row goes when it says so
	forget             // the row goes: nothing runs
)

type step struct {
	do         deed
	replica    factory.Replica // as it should be
	deployment string          // for the log
}

// settled reports whether nothing can be left to do, without looking at nodes: each
// deployment has its replicas, all of them placed, well and of its revision.
func settled(deployments []factory.Deployment, replicas []factory.Replica) bool {
	live := map[string]int{}
	revision := map[string]int{}
	for _, d := range deployments {
		revision[d.ID] = d.Revision
	}
	for _, r := range replicas {
		want, wanted := revision[r.DeploymentID]
		if r.Stopping && r.NodeID != "" {
			continue // its agent's turn
		}
		if !wanted || r.NodeID == "" || r.Revision != want || r.State == factory.Failed {
			return false
		}
		live[r.DeploymentID]++
	}
	for _, d := range deployments {
		if live[d.ID] != wantedReplicas(d) {
			return false
		}
	}
	return true
}

func wantedReplicas(d factory.Deployment) int {
	switch {
	case d.Stopped, d.Asleep:
		return 0
	case d.Address != "":
		return min(d.Replicas, 1) // two watchers of one engine would count all that it does twice
	}
	return d.Replicas
}

// planner is one round of decisions over the fleet as it is.
type planner struct {
	fleet
	now   time.Time
	steps []step
}

// plan decides what to do. It is a function of what is kept and of the time alone.
func plan(deployments []factory.Deployment, replicas []factory.Replica, nodes []factory.Node, now time.Time) []step {
	p := &planner{fleet: newFleet(nodes, now), now: now}
	of := map[string][]factory.Replica{}
	known := map[string]bool{}
	for _, d := range deployments {
		known[d.ID] = true
	}
	for _, r := range replicas {
		switch {
		case r.NodeID != "" && p.nodes[r.NodeID] == nil, r.NodeID == "" && (r.Stopping || !known[r.DeploymentID]):
			p.add(forget, r, "")
			continue
		case !known[r.DeploymentID] && !r.Stopping:
			p.add(stop, r, "")
			r.Stopping = true
		}
		p.hold(r)
		of[r.DeploymentID] = append(of[r.DeploymentID], r)
	}
	// The oldest first: when room is scarce, those that waited longest get it.
	deployments = slices.Clone(deployments)
	slices.SortStableFunc(deployments, func(a, b factory.Deployment) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, d := range deployments {
		p.deployment(d, of[d.ID])
	}
	return p.steps
}

func (p *planner) add(do deed, r factory.Replica, deployment string) {
	p.steps = append(p.steps, step{do, r, deployment})
}

func (p *planner) deployment(d factory.Deployment, replicas []factory.Replica) {
	var live []factory.Replica
	ending := false // a replica of it still has to go, and will
	for _, r := range replicas {
		if !r.Stopping {
			live = append(live, r)
		} else if n := p.nodes[r.NodeID]; n != nil && n.Online(p.now) {
			ending = true
		}
	}
	live = p.shrink(d, live, wantedReplicas(d))
	live = p.roll(d, live, ending)
	for _, r := range live {
		if r.NodeID == "" {
			p.seek(d, r)
		}
	}
	for range wantedReplicas(d) - len(live) {
		p.seek(d, factory.Replica{DeploymentID: d.ID})
	}
}

// shrink stops what is too much: first what serves nobody.
func (p *planner) shrink(d factory.Deployment, live []factory.Replica, wanted int) []factory.Replica {
	if len(live) <= wanted {
		return live
	}
	slices.SortStableFunc(live, func(a, b factory.Replica) int {
		return cmp.Or(cmp.Compare(p.worth(d, b), p.worth(d, a)), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range live[wanted:] {
		p.end(d, r)
	}
	return live[:wanted]
}

// worth orders replicas by how much would be lost with one.
func (p *planner) worth(d factory.Deployment, r factory.Replica) int {
	switch n := p.nodes[r.NodeID]; {
	case n == nil:
		return 0
	case !n.Online(p.now):
		return 1
	case r.State != factory.Ready:
		return 2
	case r.Revision != d.Revision:
		return 3
	}
	return 4
}

func (p *planner) end(d factory.Deployment, r factory.Replica) {
	if r.NodeID == "" {
		p.add(forget, r, d.Name)
		return
	}
	p.add(stop, r, d.Name)
}

// roll brings replicas to the deployment's revision. One that serves is touched
// only while all others serve, so that an edit takes one replica away at a time,
// and a revision that does not come up takes one in all.
func (p *planner) roll(d factory.Deployment, live []factory.Replica, ending bool) []factory.Replica {
	away := ending
	for _, r := range live {
		if p.worth(d, r) == 2 {
			away = true
		}
	}
	slices.SortStableFunc(live, func(a, b factory.Replica) int { return cmp.Compare(p.worth(d, a), p.worth(d, b)) })
	kept := live[:0:0]
	for _, r := range live {
		lost := r.State == factory.Failed && p.lost(r)
		if r.NodeID == "" || (r.Revision == d.Revision && !lost) {
			kept = append(kept, r)
			continue
		}
		serves := p.worth(d, r) > 2
		if serves && away {
			kept = append(kept, r)
			continue
		}
		away = away || serves
		if !lost && p.suits(d, r) {
			r.Revision = d.Revision
			p.add(revise, r, d.Name)
			kept = append(kept, r)
			continue
		}
		p.end(d, r)
	}
	return kept
}

// seek finds a place for a replica that has none, and says why when there is none.
func (p *planner) seek(d factory.Deployment, r factory.Replica) {
	is := r
	r.Revision = d.Revision
	r.State = factory.Pending
	if n, gpus, why := p.find(d); n != nil {
		r.NodeID, r.NodeName, r.GPUUUIDs = n.ID, n.Name, gpus
		r.Reason = "Waiting for the agent on " + n.Name + " to start it."
		p.hold(r)
	} else {
		r.Reason = why
	}
	switch {
	case r.ID == "":
		p.add(create, r, d.Name)
	case r.NodeID != "" || r.Reason != is.Reason || r.Revision != is.Revision:
		p.add(place, r, d.Name)
	}
}
