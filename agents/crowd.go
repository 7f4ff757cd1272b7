package agents

import (
	"sync"
	"time"
)

// When the server goes away all agents lose it in the same moment. Each first
// attempt to come back is spread over this much for every agent there is, so that
// never more than a dozen or so come within one second.
const (
	spreadPerAgent = 75 * time.Millisecond
	minSpread      = time.Second
	maxSpread      = time.Minute
	crowdMemory    = 5 * time.Minute
)

// crowd counts the agents that have reported lately.
type crowd struct {
	mu    sync.Mutex
	last  map[string]time.Time
	swept time.Time
}

// seen notes a report and returns over how long agents should spread.
func (c *crowd) seen(node string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]time.Time{}
	}
	c.last[node] = now
	if now.Sub(c.swept) > crowdMemory {
		for n, at := range c.last {
			if now.Sub(at) > crowdMemory {
				delete(c.last, n)
			}
		}
		c.swept = now
	}
	return min(max(time.Duration(len(c.last))*spreadPerAgent, minSpread), maxSpread)
}
