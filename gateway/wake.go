package gateway

import (
	"context"
	"time"
)

const (
	// wakeGrace is how long a deployment that was woken may take to show that a replica
	// is on its way.
	wakeGrace = 15 * time.Second
	// wakeAgain is when one that was woken and still sleeps is asked for again.
	wakeAgain = 30 * time.Second
	// wakePatience bounds one attempt to wake; wakePause, which doubles, is the time
	// between two.
	wakePatience = 5 * time.Second
	wakePause    = time.Second
)

// wake has a sleeping deployment woken: once, however many requests wait. mu is
// held.
func (p *pool) wake(now time.Time) {
	if p.waking || now.Before(p.wakeNext) || p.g.Deployments == nil {
		return
	}
	p.waking = true
	go p.askToWake()
}

// askToWake asks until it was heard, or nobody waits any more.
func (p *pool) askToWake() {
	for pause := wakePause; ; pause = min(2*pause, 8*wakePause) {
		ctx, cancel := context.WithTimeout(p.g.running, wakePatience)
		err := p.g.Deployments.WakeDeployment(ctx, p.deployment)
		cancel()
		if p.asked(err) {
			return
		}
		if pause == wakePause {
			p.g.Log.Warn("wake a deployment; it is asked for again while requests wait", "deployment", p.deployment, "err", err)
		}
		select {
		case <-p.g.running.Done():
		case <-time.After(pause):
		}
	}
}

// asked notes how an attempt to wake went, and reports whether it was the last.
func (p *pool) asked(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case err == nil:
		p.wakeNext, p.wokenUntil = now.Add(wakeAgain), now.Add(wakeGrace)
		p.g.Poke()
	case len(p.waiting) > 0 && p.g.running.Err() == nil:
		return false
	}
	p.waking = false
	return true
}
