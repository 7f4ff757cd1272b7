package gateway

import (
	"context"
	"sync"
	"time"

	"tokenfactory/factory"
)

// learnPatience bounds one attempt to have something remembered, learnPause the
// time between two.
const (
	learnPatience = 5 * time.Second
	learnPause    = time.Second
)

// lesson is what was learned about the engine of one revision of a deployment.
type lesson struct {
	revision int
	running  factory.Learned
}

// lessons are on their way to the store.
type lessons struct {
	mu     sync.Mutex
	known  map[string]lesson // by deployment
	untold map[string]lesson
	news   chan struct{}
}

func (l *lessons) open() {
	l.known, l.untold, l.news = map[string]lesson{}, map[string]lesson{}, make(chan struct{}, 1)
}

// learned notes whether a deployment's engine puts running counts on its events.
func (g *Gateway) learned(r *route, running factory.Learned) {
	if r.Deployment.RunningUsage == running || g.Deployments == nil {
		return
	}
	id, what := r.Deployment.ID, lesson{r.Deployment.Revision, running}
	l := &g.lessons
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[id] == what {
		return
	}
	// What was seen once is there: a single odd answer, or one replica of another age,
	// must not take it from the others.
	seen := r.Deployment.RunningUsage == factory.LearnedYes || l.known[id] == lesson{what.revision, factory.LearnedYes}
	if running == factory.LearnedNo && seen {
		return
	}
	l.known[id], l.untold[id] = what, what
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// tellLessons has what was learned remembered, until ctx ends. Nothing depends on
// it: a gateway that does not know tries again.
func (g *Gateway) tellLessons(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.lessons.news:
		}
		for !g.saveLessons(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(learnPause):
			}
		}
	}
}

// saveLessons reports whether everything was taken.
func (g *Gateway) saveLessons(ctx context.Context) bool {
	l := &g.lessons
	l.mu.Lock()
	untold := l.untold
	l.untold = map[string]lesson{}
	l.mu.Unlock()
	all := true
	for id, what := range untold {
		limit, cancel := context.WithTimeout(ctx, learnPatience)
		err := g.Deployments.SetRunningUsage(limit, id, what.revision, what.running)
		cancel()
		if err == nil || factory.KindOf(err) == factory.NotFound {
			continue
		}
		all = false
		g.Log.Warn("remember what was learned about a deployment; it is told again", "deployment", id, "err", err)
		l.mu.Lock()
		if _, newer := l.untold[id]; !newer {
			l.untold[id] = what
		}
		l.mu.Unlock()
	}
	return all
}
