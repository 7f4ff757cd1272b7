package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lateAfter is how late a request may be sent before it counts as late: a schedule that
// the sending machine cannot keep is another schedule.
const lateAfter = 10 * time.Millisecond

// replayCounts move while requests are under way; a progress line reads them.
type replayCounts struct {
	all                int
	sent, done, failed atomic.Int64
}

// run sends each request when it is due, whatever is still outstanding. An open loop
// does not slow down with what it measures. It returns when all have ended; a context
// that ends lets go of those that are under way and sends no more.
func (c *replayClient) run(ctx context.Context, plan []arrival, counts *replayCounts) []outcome {
	out := make([]outcome, len(plan))
	var all sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	start := time.Now()
	sent := 0
	for i, a := range plan {
		// Made before it is due: a long prompt takes a moment.
		body, err := c.body(a, i)
		if err != nil {
			panic(err) // strings and numbers only
		}
		due := start.Add(a.At)
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		if ctx.Err() != nil {
			break
		}
		late := max(0, time.Since(due))
		sent++
		counts.sent.Add(1)
		all.Go(func() {
			o := c.send(ctx, body)
			o.Late = late
			if !o.whole() {
				counts.failed.Add(1)
			}
			out[i] = o
			counts.done.Add(1)
		})
	}
	all.Wait()
	return out[:sent]
}
