package sim

import (
	"context"
	"time"
)

// preempted decides after each event whether the request is put back: by a fault that
// puts a share of them back halfway, or because the cache ran over.
func (e *Engine) preempted(g *generation, p *pace) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.faults[KVPressure] != nil && e.line.used > e.line.blocks && e.line.running > 1 {
		return true
	}
	u := e.faults[Preemption]
	if u == nil || g.drawn || 2*g.longest() < g.longestWanted() {
		return false
	}
	g.drawn = true
	return p.rng.Float64() < u.Factor
}

// putBack gives up the request's place and takes it up again, as the next in line.
// Prompt and answer so far are computed anew before another token comes.
func (e *Engine) putBack(ctx context.Context, g *generation, at *place, p *pace) (*place, error) {
	e.mu.Lock()
	e.figures.preemptions++
	e.mu.Unlock()
	at, err := e.reenter(ctx, at, g.prompt+g.made())
	if err != nil {
		return nil, err
	}
	again := float64(e.TTFT) + float64(e.PrefillPerToken)*float64(g.prompt+g.made())
	p.next = time.Now().Add(time.Duration(again * e.prefillFactor()))
	return at, nil
}

func (g *generation) longestWanted() int {
	n := 0
	for i := range g.choices {
		n = max(n, g.choices[i].length)
	}
	return n
}
