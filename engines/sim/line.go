package sim

import (
	"context"
	"slices"
)

// line admits requests in the order of their arrival while there is a seat and
// room for the prompt in the KV cache. The engine's lock guards it.
type line struct {
	seats, blocks int // in all
	running, used int
	waiting       []*place
}

// place is a request's place in the line, and what it holds once it runs.
type place struct {
	blocks  int
	granted chan struct{}
}

// fits lets a request run alone whatever its size: it would wait for ever.
func (l *line) fits(p *place) bool {
	return l.running < l.seats && (l.used+p.blocks <= l.blocks || l.running == 0)
}

func (l *line) seat(p *place) {
	l.running++
	l.used += p.blocks
	close(p.granted)
}

func (l *line) advance() {
	for len(l.waiting) > 0 && l.fits(l.waiting[0]) {
		l.seat(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}

// usage is the share of the KV cache that running requests hold. Answers grow
// without asking, so it is cut at 1, where a real engine would begin to preempt.
func (l *line) usage() float64 {
	return min(float64(l.used)/float64(l.blocks), 1)
}

// enter waits for a seat. On an error the request has left the line again.
func (e *Engine) enter(ctx context.Context, tokens int) (*place, error) {
	p := &place{blocks: e.blocksFor(tokens), granted: make(chan struct{})}
	e.mu.Lock()
	if len(e.line.waiting) == 0 && e.line.fits(p) {
		e.line.seat(p)
	} else {
		e.line.waiting = append(e.line.waiting, p)
	}
	e.mu.Unlock()
	return p, e.await(ctx, p)
}

// reenter gives a running request's place up for one at the head of the line, as vLLM
// does with what it preempts.
func (e *Engine) reenter(ctx context.Context, was *place, tokens int) (*place, error) {
	p := &place{blocks: e.blocksFor(tokens), granted: make(chan struct{})}
	e.mu.Lock()
	e.line.waiting = slices.Insert(e.line.waiting, 0, p)
	e.leaveLocked(was)
	e.mu.Unlock()
	return p, e.await(ctx, p)
}

// await waits for the turn of a place in the line.
func (e *Engine) await(ctx context.Context, p *place) error {
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.line.waiting, p); i >= 0 {
		e.line.waiting = slices.Delete(e.line.waiting, i, i+1)
		e.line.advance() // the next may be smaller than the one that left
		return ctx.Err()
	}
	e.leaveLocked(p) // granted at the very moment it left
	return ctx.Err()
}

func (e *Engine) leaveLocked(p *place) {
	e.line.running--
	e.line.used -= p.blocks
	p.blocks = 0
	e.line.advance()
}

// growLocked makes a running request hold that many tokens.
func (e *Engine) growLocked(p *place, tokens int) {
	n := e.blocksFor(tokens)
	e.line.used += n - p.blocks
	p.blocks = n
}

func (e *Engine) blocksFor(tokens int) int { return (tokens + e.BlockSize - 1) / e.BlockSize }
