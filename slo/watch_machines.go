package slo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// offline looks for machines that have gone quiet. One that serves is worth waking somebody.
func (r *round) offline() {
	serving := map[string]bool{}
	for _, of := range r.replicas {
		for _, x := range of {
			serving[x.NodeID] = serving[x.NodeID] || !x.Stopping
		}
	}
	for _, n := range r.nodes {
		s := sight{Condition: Condition{
			Subject: "offline/" + n.ID, Rule: factory.RuleOffline, Severity: factory.Ticket, NodeID: n.ID,
			Title: fmt.Sprintf("Machine %s has gone quiet.", n.Name), Finding: Right,
		}}
		if serving[n.ID] {
			s.Severity = factory.Page
		}
		if !n.Online(r.now) {
			s.Finding = Wrong
		}
		silent := r.now.Sub(n.LastSeenAt).Seconds()
		s.payload = Payload{Node: &Ref{n.ID, n.Name}, Figures: map[string]*float64{"silent_seconds": &silent}}
		if r.Links.Node != nil {
			s.payload.URL = r.Links.Node(n.ClusterID, n.ID)
		}
		r.sights = append(r.sights, s)
	}
}

// absentAfter is how long an engine may go without a figure. Agents read it every five seconds.
const absentAfter = 2 * time.Minute

// sampled are figures of which every engine reports some as often as it is read.
var sampled = []metrics.Name{metrics.Running, metrics.Waiting, metrics.KVCache, metrics.PromptTokens, metrics.GenerationTokens}

// absent looks for engines that serve and are not measured.
func (r *round) absent(ctx context.Context, d factory.Deployment) error {
	var ready []factory.Replica
	for _, x := range r.replicas[d.ID] {
		if x.State == factory.Ready && !x.Stopping {
			ready = append(ready, x)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	from := r.now.Add(-absentAfter)
	buckets, err := r.Store.Buckets(ctx, d.ID, metrics.Resolutions[0].Step, sampled, from.Truncate(metrics.Resolutions[0].Step), r.now)
	if err != nil {
		return err
	}
	for _, x := range ready {
		s := sight{Condition: Condition{
			Subject: "absent/" + x.ID, Rule: factory.RuleAbsent, Severity: factory.Ticket, DeploymentID: d.ID, NodeID: x.NodeID,
			Title: fmt.Sprintf("A replica of %s on %s serves, and its engine is not measured.", d.Name, x.NodeName),
		}}
		s.Finding = r.measured(x, slices.ContainsFunc(buckets, func(b metrics.Bucket) bool { return b.ReplicaID == x.ID }))
		least := absentAfter.Seconds()
		s.payload = r.ofDeployment(d, from, r.now)
		s.payload.Node = &Ref{x.NodeID, x.NodeName}
		s.payload.Figures = map[string]*float64{"silent_seconds": &least}
		r.sights = append(r.sights, s)
	}
	return nil
}

// measured judges a replica by whether there was a figure. Of a machine that has gone quiet
// nothing is known, and it has an alert of its own; of an engine that has just become
// ready nothing is known yet.
func (r *round) measured(x factory.Replica, seen bool) Finding {
	switch {
	case seen:
		return Right
	case !r.nodes[x.NodeID].Online(r.now) || x.ReadyAt == nil || r.now.Sub(*x.ReadyAt) < absentAfter:
		return Unknown
	}
	return Wrong
}

// drift compares the tokens of gateway and engine, by replica. Whole hours are few rows,
// and what lies in the present one is read with them.
func (r *round) drift(ctx context.Context, d factory.Deployment) error {
	if len(r.replicas[d.ID]) == 0 {
		return nil
	}
	whole := metrics.Window{From: r.now.Add(-time.Hour).Truncate(time.Hour), To: r.now, Step: 2 * time.Hour}
	buckets, err := r.Store.Buckets(ctx, d.ID, time.Hour, Reconciled, whole.From, whole.To)
	if err != nil {
		return err
	}
	for _, x := range r.replicas[d.ID] {
		of := map[metrics.Name]metrics.Summary{}
		own := slices.DeleteFunc(slices.Clone(buckets), func(b metrics.Bucket) bool { return b.ReplicaID != x.ID })
		for _, name := range Reconciled {
			s, err := metrics.SeriesOf(name, whole, own)
			if err != nil {
				return err
			}
			of[name] = s.Summary
		}
		drift := Reconcile(of)
		s := sight{Condition: Condition{
			Subject: "drift/" + x.ID, Rule: factory.RuleDrift, Severity: factory.Ticket, DeploymentID: d.ID, NodeID: x.NodeID, Finding: drift.Finding(),
			Title: fmt.Sprintf("Gateway and engine count different tokens at a replica of %s on %s.", d.Name, x.NodeName),
		}}
		s.payload = r.ofDeployment(d, whole.From, whole.To)
		s.payload.Node = &Ref{x.NodeID, x.NodeName}
		s.payload.Figures = map[string]*float64{"gateway_tokens": &drift.Gateway, "engine_tokens": &drift.Engine, "drift": known(drift.Ratio, drift.OK)}
		r.sights = append(r.sights, s)
	}
	return nil
}
