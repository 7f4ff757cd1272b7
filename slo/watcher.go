package slo

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// WatchEvery is how often conditions are looked at.
const WatchEvery = 30 * time.Second

// Memory is what the watcher needs remembered.
type Memory interface {
	AllDeployments(ctx context.Context) ([]factory.Deployment, error)
	AllReplicas(ctx context.Context) ([]factory.Replica, error)
	AllNodes(ctx context.Context) ([]factory.Node, error)
	Buckets(ctx context.Context, deploymentID string, step time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error)
	OpenAlerts(ctx context.Context) ([]factory.Alert, error)
	// SaveAlert keeps an alert and queues what has to be told of it, all or nothing.
	SaveAlert(ctx context.Context, a factory.Alert, changes []factory.Change, payload json.RawMessage, now time.Time) error
	RecordEvent(ctx context.Context, e factory.Event) error
}

// Links are the pages that an alert leads to; nil ones are left out.
type Links struct {
	Deployment func(id string, from, to time.Time) string
	Node       func(clusterID, id string) string
	Tenant     func(id string) string
	Alert      func(id string) string
}

// Watcher looks at everything that can be wrong and takes alerts further. It keeps nothing
// of its own from one look to the next, so that a restart repeats and loses nothing.
type Watcher struct {
	Store Memory
	// Budgets says how money stands, of every tenant and key that has a budget; nil: none.
	Budgets func(ctx context.Context) ([]BudgetUse, error)
	Now     func() time.Time
	Log     *slog.Logger
	Links   Links
}

// Run looks until the context ends.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	for {
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.Log.Error("alerts cannot be watched", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sight is a condition with what is told of it.
type sight struct {
	Condition
	payload Payload
	// diagnose finds out what is to blame, when it comes to telling; nil where that means nothing.
	diagnose func(context.Context) (Payload, error)
}

// round is one look at everything.
type round struct {
	*Watcher
	now         time.Time
	deployments []factory.Deployment
	replicas    map[string][]factory.Replica // by deployment
	nodes       map[string]factory.Node
	open        map[string]*factory.Alert // by subject
	sights      []sight
	// blind are rules, or rules of one deployment, that could not be looked at.
	blind map[[2]string]bool
}

// Look looks once at everything.
func (w *Watcher) Look(ctx context.Context) error {
	r, err := w.begin(ctx)
	if err != nil {
		return err
	}
	r.offline()
	for _, d := range r.deployments {
		r.try(factory.RuleBurn, d.ID, r.burn(ctx, d))
		r.try(factory.RuleAbsent, d.ID, r.absent(ctx, d))
		r.try(factory.RuleDrift, d.ID, r.drift(ctx, d))
	}
	r.try(factory.RuleBudget, "", r.budgets(ctx))
	r.gone()
	for _, s := range r.sights {
		if err := r.step(ctx, s); err != nil {
			w.Log.Error("an alert cannot be kept", "subject", s.Subject, "err", err)
		}
	}
	return ctx.Err()
}

func (w *Watcher) begin(ctx context.Context) (*round, error) {
	r := &round{Watcher: w, now: w.Now(), replicas: map[string][]factory.Replica{}, nodes: map[string]factory.Node{},
		open: map[string]*factory.Alert{}, blind: map[[2]string]bool{}}
	open, err := w.Store.OpenAlerts(ctx)
	if err != nil {
		return nil, err
	}
	if r.deployments, err = w.Store.AllDeployments(ctx); err != nil {
		return nil, err
	}
	replicas, err := w.Store.AllReplicas(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := w.Store.AllNodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range open {
		r.open[a.Subject] = &a
	}
	for _, x := range replicas {
		r.replicas[x.DeploymentID] = append(r.replicas[x.DeploymentID], x)
	}
	for _, n := range nodes {
		r.nodes[n.ID] = n
	}
	return r, nil
}

// try keeps one thing that cannot be read from hiding all others.
func (r *round) try(rule factory.Rule, deploymentID string, err error) {
	if err == nil {
		return
	}
	r.blind[[2]string{string(rule), deploymentID}] = true
	r.Log.Error("a condition cannot be looked at", "rule", rule, "deployment", deploymentID, "err", err)
}

// gone adds the open alerts whose subject is there no more, such as those of a replica
// that was taken away: nothing is wrong with it now. Where we could not look we do not know.
func (r *round) gone() {
	seen := map[string]bool{}
	for _, s := range r.sights {
		seen[s.Subject] = true
	}
	for subject, a := range r.open {
		if seen[subject] {
			continue
		}
		finding := Right
		if r.blind[[2]string{string(a.Rule), a.DeploymentID}] || r.blind[[2]string{string(a.Rule), ""}] {
			finding = Unknown
		}
		r.sights = append(r.sights, sight{Condition: Condition{Subject: subject, Rule: a.Rule, Finding: finding}})
	}
}

// step takes one alert further and keeps it, with what has to be told.
func (r *round) step(ctx context.Context, s sight) error {
	next, changes := Step(r.open[s.Subject], s.Condition, r.now)
	if next == nil {
		return nil
	}
	var told Payload
	switch {
	case len(changes) == 0:
		told = s.payload
	case changes[0] == factory.ChangeFiring:
		told = r.diagnosed(ctx, s)
	default:
		told = resolving(*next, s.payload)
	}
	var change factory.Change
	if len(changes) > 0 {
		change = changes[0]
	}
	if r.Links.Alert != nil {
		told.AlertURL = r.Links.Alert(next.ID)
	}
	payload := told.about(*next, change, r.now).encode()
	if s.Finding == Wrong && (next.State == factory.AlertPending || change == factory.ChangeFiring) {
		next.Detail = payload // afterwards it stays what made the alert fire
	}
	if err := r.Store.SaveAlert(ctx, *next, changes, payload, r.now); err != nil {
		return err
	}
	if change == "" || next.DeploymentID == "" {
		return nil
	}
	return r.Store.RecordEvent(ctx, factory.Event{
		ID: factory.NewOrderedID(r.now), DeploymentID: next.DeploymentID, Kind: factory.EventAlert,
		Text: fmt.Sprintf("Alert %s: %s", change, next.Title), At: r.now,
	})
}

// diagnosed adds the diagnosis. An alert without one is late enough; it does not wait.
func (r *round) diagnosed(ctx context.Context, s sight) Payload {
	if s.diagnose == nil {
		return s.payload
	}
	p, err := s.diagnose(ctx)
	if err != nil {
		r.Log.Error("an alert fires without a diagnosis", "subject", s.Subject, "err", err)
		return s.payload
	}
	return p
}

// resolving is the present figures with the diagnosis and the window of when it fired.
func resolving(a factory.Alert, now Payload) Payload {
	var fired Payload
	if json.Unmarshal(a.Detail, &fired) != nil {
		return now
	}
	if now.Figures != nil {
		fired.Figures = now.Figures
	}
	return fired
}
