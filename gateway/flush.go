package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"tokenfactory/metrics"
)

const (
	flushEvery = time.Second
	// flushMost bounds the measurements that wait while the store is away. Those of
	// single keys go first, and of what is left the oldest: what happens now to everybody
	// is what people look at, and what alerts rest on.
	flushMost = 100_000
	// flushPatience bounds one hand-over.
	flushPatience = 10 * time.Second
)

// pendingBuckets are measurements that the store has not taken yet.
type pendingBuckets struct {
	mu      sync.Mutex
	buckets []metrics.Bucket
	dropped int
}

// flushBuckets hands measurements over until ctx ends.
func (g *Gateway) flushBuckets(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := g.saveBuckets(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			g.Log.Warn("save measurements; they are kept and sent again", "err", err)
		}
		failing = err != nil
	}
}

// saveBuckets hands over what was recorded since the last time. What is not taken
// is kept, with equal places merged, so that an outage costs little memory.
func (g *Gateway) saveBuckets(ctx context.Context) error {
	p := &g.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buckets = append(append(p.buckets, g.recorder.Flush()...), g.gauges.take()...)
	if len(p.buckets) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	err := g.Buckets.MergeBuckets(limit, p.buckets)
	if err == nil {
		p.buckets = nil
		return nil
	}
	p.merge(g)
	return err
}

func (p *pendingBuckets) merge(g *Gateway) {
	at := make(map[metrics.Place]int, len(p.buckets))
	kept := p.buckets[:0]
	for _, b := range p.buckets {
		if b.KeyID != "" {
			// There may be thousands of keys, and nothing finer is kept of them.
			b = b.At(max(b.Step, metrics.Resolutions[1].Step))
		}
		k := b.Place()
		if i, ok := at[k]; ok {
			if err := kept[i].Merge(b); err != nil {
				g.Log.Error("merge measurements", "metric", b.Name, "err", err)
			}
			continue
		}
		at[k] = len(kept)
		kept = append(kept, b)
	}
	if over := len(kept) - flushMost; over > 0 {
		p.dropped += over
		g.Log.Error("measurements are dropped: the store has been away too long", "dropped", p.dropped)
		kept = slices.DeleteFunc(kept, func(b metrics.Bucket) bool {
			if over == 0 || b.KeyID == "" {
				return false
			}
			over--
			return true
		})
		kept = append([]metrics.Bucket(nil), kept[over:]...)
	}
	p.buckets = kept
}
