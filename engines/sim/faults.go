package sim

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"time"
)

// errCrashed is why a request ends whose engine is gone.
var errCrashed = errors.New("the engine crashed")

// life is one run of the engine's process, from its start to its crash.
type life struct {
	context.Context
	end context.CancelCauseFunc
}

func newLife() life {
	ctx, end := context.WithCancelCause(context.Background())
	return life{ctx, end}
}

// underway is a fault that was started, with what ends it.
type underway struct {
	Fault
	timer *time.Timer
}

// Start makes something go wrong from now on. A fault of the same kind is replaced.
func (e *Engine) Start(f Fault) error {
	f, err := f.complete()
	if err != nil {
		return err
	}
	u := &underway{Fault: f}
	e.mu.Lock()
	defer e.mu.Unlock()
	if was := e.faults[f.Kind]; was != nil && was.timer != nil {
		was.timer.Stop()
	}
	e.faults[f.Kind] = u
	if f.For > 0 {
		u.timer = time.AfterFunc(f.For, func() { e.expire(u) })
	}
	if f.Kind == Crash {
		e.life.end(errCrashed)
	}
	e.resizeLocked()
	return nil
}

// End ends the fault of a kind; one that is not under way has ended already.
func (e *Engine) End(kind FaultKind) {
	e.mu.Lock()
	u := e.faults[kind]
	e.mu.Unlock()
	if u != nil {
		e.expire(u)
	}
}

func (e *Engine) expire(u *underway) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.faults[u.Kind] != u {
		return // another has taken its place
	}
	if u.timer != nil {
		u.timer.Stop()
	}
	delete(e.faults, u.Kind)
	if u.Kind == Crash {
		e.life, e.started = newLife(), time.Now()
		e.figures, e.prefixes = newFigures(), newPrefixCache(e.KVBlocks)
	}
	e.resizeLocked()
}

// Faults are those under way.
func (e *Engine) Faults() []Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Fault{}
	for _, k := range kinds {
		if u := e.faults[k]; u != nil {
			out = append(out, u.Fault)
		}
	}
	return out
}

// resizeLocked gives the line the seats and blocks that faults leave it.
func (e *Engine) resizeLocked() {
	e.line.seats = max(1, int(float64(e.MaxSeqs)/e.factorLocked(Queue)))
	e.line.blocks = max(1, int(float64(e.KVBlocks)/e.factorLocked(KVPressure)))
	e.line.advance()
}

// factorLocked is how strong a fault is; 1 when it is not under way.
func (e *Engine) factorLocked(kind FaultKind) float64 {
	if u := e.faults[kind]; u != nil {
		return u.Factor
	}
	return 1
}

func (e *Engine) prefillFactor() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.factorLocked(SlowPrefill)
}

// gap is the time between tokens as things stand: a fault changes it in mid-answer.
func (e *Engine) gap() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration(float64(e.ITL) * e.factorLocked(SlowDecode) * e.factorLocked(Thermal))
}

// hide keeps a request before the engine knows of it.
func (e *Engine) hide(ctx context.Context) error {
	e.mu.Lock()
	var delay time.Duration
	if u := e.faults[HiddenQueue]; u != nil {
		delay = u.Delay
	}
	e.mu.Unlock()
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail is what a request that fails is refused with.
func (e *Engine) fail() *problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.faults[Errors]
	if u == nil {
		return nil
	}
	e.drawn++
	if mathrand.New(mathrand.NewPCG(e.Seed, e.drawn)).Float64() >= u.Factor {
		return nil
	}
	e.figures.finished["error"]++
	return &problem{http.StatusInternalServerError, "InternalServerError", "", "The engine met an error in the middle of its work."}
}

// bound ties a request to the engine's life beside its client's.
func (e *Engine) bound(r *http.Request) (*http.Request, context.CancelFunc) {
	e.mu.Lock()
	life := e.life
	e.mu.Unlock()
	ctx, cancel := context.WithCancelCause(r.Context())
	if life.Err() != nil {
		cancel(errCrashed)
	}
	stop := context.AfterFunc(life, func() { cancel(errCrashed) })
	return r.WithContext(ctx), func() { stop(); cancel(nil) }
}

func crashed(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCrashed) }
