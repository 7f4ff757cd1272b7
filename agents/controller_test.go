package agents

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tokenfactory/factory"
)

// board keeps assignments in memory.
type board struct {
	mu       sync.Mutex
	stage    stage
	hardware int // how often all nodes were read
	refusal  error
}

func (b *board) AllDeployments(context.Context) ([]factory.Deployment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stage.deployments), b.refusal
}

func (b *board) AllReplicas(context.Context) ([]factory.Replica, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stage.replicas), nil
}

func (b *board) AllNodes(context.Context) ([]factory.Node, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hardware++
	return slices.Clone(b.stage.nodes), nil
}

func (b *board) CreateReplica(_ context.Context, r factory.Replica) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stage.replicas = append(b.stage.replicas, r)
	return nil
}

func (b *board) change(id string, do func(r *factory.Replica)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.stage.replicas {
		if b.stage.replicas[i].ID == id {
			do(&b.stage.replicas[i])
		}
	}
	return nil
}

func (b *board) PlaceReplica(_ context.Context, p factory.Replica) error {
	return b.change(p.ID, func(r *factory.Replica) { *r = p })
}

func (b *board) SetReplicaRevision(_ context.Context, id string, revision int) error {
	return b.change(id, func(r *factory.Replica) { r.Revision = revision; r.State = factory.Starting })
}

func (b *board) SetReplicaStopping(_ context.Context, id string) error {
	return b.change(id, func(r *factory.Replica) { r.Stopping = true })
}

func (b *board) DeleteReplica(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stage.replicas = slices.DeleteFunc(b.stage.replicas, func(r factory.Replica) bool { return r.ID == id })
	return nil
}

func (b *board) do(change func(s *stage)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.stage)
}

func TestTheControllerFollowsWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b board
		b.stage.node("a", h100)
		b.stage.deployment("chat", 1, 1)
		b.refusal = errors.New("the store is away")
		c := &Controller{Store: &b, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		b.do(func(s *stage) {
			if len(s.replicas) != 0 {
				t.Errorf("planned without the store: %+v", s.replicas)
			}
			b.refusal = nil
		})

		c.Poke()
		synctest.Wait() // no time passes: a poke does not wait for the next look
		b.do(func(s *stage) {
			if len(s.replicas) != 1 || s.replicas[0].NodeID != "n-a" || s.replicas[0].ID == "" || s.replicas[0].CreatedAt.IsZero() {
				t.Fatalf("%+v", s.replicas)
			}
			s.agents()
			b.hardware = 0
		})
		time.Sleep(10 * time.Second)
		b.do(func(s *stage) {
			if b.hardware != 0 {
				t.Errorf("all hardware was read %d times for nothing", b.hardware)
			}
			s.deployments[0].Revision = 2
		})
		time.Sleep(2 * time.Second)
		b.do(func(s *stage) {
			if r := s.replicas[0]; r.Revision != 2 || r.State != factory.Starting {
				t.Errorf("%+v", r)
			}
			s.agents()
			s.deployments = nil
		})
		time.Sleep(2 * time.Second)
		b.do(func(s *stage) {
			if !s.replicas[0].Stopping {
				t.Errorf("%+v", s.replicas)
			}
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
