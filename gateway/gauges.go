package gateway

import (
	"context"
	"sync"
	"time"

	"tokenfactory/metrics"
)

const sampleEvery = time.Second

// gauges are samples of what is under way. A step's are handed over together once it is
// past: idle deployments have gauges too, and writing each of them every second would be
// most of what the store does.
type gauges struct {
	mu       sync.Mutex
	recorder metrics.Recorder
	step     time.Time // of what is in the recorder
	past     []metrics.Bucket
}

// sampleGauges samples until ctx ends. It does not wait for the store, as handing over
// may: the steps in which a store was slow would have no gauges.
func (g *Gateway) sampleGauges(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.gauges.sample(g.routes.now.Load(), g.Now())
		}
	}
}

// sample notes the requests at each replica, and those that wait for one. While there
// is a replica, none is a figure: zero. A deployment with nothing to serve with and
// nobody waiting has a gap. Replicas that only finish what they have are left out: they
// say nothing about the room that there is.
func (s *gauges) sample(t *routeTable, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step := now.Truncate(metrics.Resolutions[0].Step); !step.Equal(s.step) {
		s.past = append(s.past, s.recorder.Flush()...)
		s.step = step
	}
	if t == nil {
		return
	}
	for _, r := range t.byName {
		id := r.Deployment.ID
		held := r.pool.held()
		if len(r.replicas) > 0 || held > 0 {
			s.recorder.Observe(now, id, "", metrics.Held, float64(held), 1)
		}
		for _, rep := range r.replicas {
			s.recorder.Observe(now, id, rep.id, metrics.InFlight, float64(rep.inFlight.Load()), 1)
		}
	}
}

// take hands out the steps that are past.
func (s *gauges) take() []metrics.Bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.past
	s.past = nil
	return out
}

// finish ends the step under way, as nothing comes after it.
func (s *gauges) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = append(s.past, s.recorder.Flush()...)
}
