package node

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
	// slowPause is for refusals that last until a person does something.
	slowPause = 30 * time.Second
)

// backoff says how long to wait before the next attempt. Pauses have full jitter,
// also at the cap: agents that lost the server in the same moment must not come
// back in the same moment, on any attempt.
type backoff struct {
	most  time.Duration // of the next pause
	first time.Duration // of the first one; the server says how many agents there are
}

func newBackoff() *backoff { return &backoff{first: firstPause} }

// spread sets over how long the first attempt is spread.
func (b *backoff) spread(d time.Duration) {
	if d > 0 {
		b.first = d
	}
}

func (b *backoff) reset() { b.most = 0 }

func (b *backoff) slow() { b.most = slowPause }

// next is the pause before the next attempt; the one after it may be longer.
func (b *backoff) next() time.Duration {
	if b.most == 0 {
		b.most = b.first
	}
	pause := rand.N(b.most) + 1
	b.most = max(min(2*b.most, mostPause), b.first)
	return pause
}

// wait pauses; it reports false when ctx ended meanwhile.
func (b *backoff) wait(ctx context.Context) bool { return pause(ctx, b.next()) }

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
