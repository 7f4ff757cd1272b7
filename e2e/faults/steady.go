package faults

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// Steady keeps this process from standing still on a busy computer, where every stream would
// seem slow, and returns what takes it back. A thread that works is put aside by others for
// long, so there are more threads than processors; and collecting garbage waits for such
// threads with all others stopped, so it is left until there is much.
func Steady() (undo func()) {
	threads, percent, limit := runtime.GOMAXPROCS(32), debug.SetGCPercent(-1), debug.SetMemoryLimit(2<<30)
	return func() {
		runtime.GOMAXPROCS(threads)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

const (
	beat = 10 * time.Millisecond
	// stillMost is how long the process may stand still before that is a gap which nobody
	// could tell from an engine's.
	stillMost = 80 * time.Millisecond
)

// keepTime notes the longest time that this process stood still until ctx ends: it
// knows how late it wakes up.
func (p *Plant) keepTime(ctx context.Context) {
	tick := time.NewTimer(beat)
	defer tick.Stop()
	for {
		slept := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.stood = max(p.stood, time.Since(slept)-beat)
		tick.Reset(beat)
	}
}

// Disturbed reports whether the computer stood still for so long that what was measured is
// not the engine's doing.
func (p *Plant) Disturbed() bool { return p.stood > stillMost }
