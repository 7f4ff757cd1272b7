package agents

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tokenfactory/factory"
)

// Assignments is what the controller needs of the store.
type Assignments interface {
	AllDeployments(ctx context.Context) ([]factory.Deployment, error)
	AllReplicas(ctx context.Context) ([]factory.Replica, error)
	AllNodes(ctx context.Context) ([]factory.Node, error)
	CreateReplica(ctx context.Context, r factory.Replica) error
	PlaceReplica(ctx context.Context, r factory.Replica) error
	SetReplicaRevision(ctx context.Context, id string, revision int) error
	SetReplicaStopping(ctx context.Context, id string) error
	DeleteReplica(ctx context.Context, id string) error
}

// controlEvery is how often the controller looks without being poked: nodes come
// and go, and replicas end, without anybody saying so.
const controlEvery = time.Second

// Controller gives every deployment its replicas: which node runs which, with
// which devices. It decides anew from what is kept each time, so that being
// killed at any point costs nothing.
type Controller struct {
	Store Assignments
	Log   *slog.Logger
	Now   func() time.Time

	once sync.Once
	poke chan struct{}
}

// Poke makes the controller look at once.
func (c *Controller) Poke() {
	select {
	case c.poked() <- struct{}{}:
	default: // it will look anyway
	}
}

func (c *Controller) poked() chan struct{} {
	c.once.Do(func() { c.poke = make(chan struct{}, 1) })
	return c.poke
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	tick := time.NewTicker(controlEvery)
	defer tick.Stop()
	failing := false
	for {
		err := c.round(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			c.Log.Error("replicas could not be brought to what is wanted; trying again", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.poked():
		}
	}
}

func (c *Controller) round(ctx context.Context) error {
	deployments, err := c.Store.AllDeployments(ctx)
	if err != nil {
		return err
	}
	replicas, err := c.Store.AllReplicas(ctx)
	if err != nil {
		return err
	}
	if settled(deployments, replicas) {
		return nil
	}
	// Only now: reading all hardware is most of the work, and mostly for nothing.
	nodes, err := c.Store.AllNodes(ctx)
	if err != nil {
		return err
	}
	for _, s := range plan(deployments, replicas, nodes, c.Now()) {
		if err := c.take(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// take carries out one step.
func (c *Controller) take(ctx context.Context, s step) error {
	r := s.replica
	switch s.do {
	case create:
		r.ID = factory.NewID()
		r.CreatedAt = c.Now()
		r.UpdatedAt = r.CreatedAt
		c.Log.Info("a replica is planned", "replica", r.ID, "deployment", s.deployment, "node", r.NodeName, "reason", r.Reason)
		return c.Store.CreateReplica(ctx, r)
	case place:
		r.UpdatedAt = c.Now()
		c.Log.Info("a waiting replica is looked at again", "replica", r.ID, "deployment", s.deployment, "node", r.NodeName, "reason", r.Reason)
		return c.Store.PlaceReplica(ctx, r)
	case revise:
		c.Log.Info("a replica starts anew with changed settings", "replica", r.ID, "deployment", s.deployment, "revision", r.Revision)
		return c.Store.SetReplicaRevision(ctx, r.ID, r.Revision)
	case stop:
		c.Log.Info("a replica is stopped", "replica", r.ID, "deployment", s.deployment, "node", r.NodeName)
		return c.Store.SetReplicaStopping(ctx, r.ID)
	default:
		return c.Store.DeleteReplica(ctx, r.ID)
	}
}
