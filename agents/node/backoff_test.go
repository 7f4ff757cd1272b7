package node

import (
	"testing"
	"time"
)

// 200 agents lose the server in the same moment; it is away for 30 s. The pauses
// are those of the agents; what they would be on a wire is played through here.
func TestAI05AgentsDoNotComeBackTogether(t *testing.T) {
	const agents, away, watched = 200, 30 * time.Second, 120 * time.Second
	attempts := map[int]int{} // by second
	connected := map[int]time.Duration{}
	for i := range agents {
		b := newBackoff()
		b.spread(15 * time.Second) // what the server said when all was well: 75 ms for each agent
		for at := b.next(); at < watched; at += b.next() {
			attempts[int(at/time.Second)]++
			if at >= away {
				connected[i] = at
				break
			}
		}
	}
	for second, n := range attempts {
		if n > agents/5 {
			t.Errorf("second %d has %d attempts", second, n)
		}
	}
	for i := range agents {
		if at, ok := connected[i]; !ok || at > away+90*time.Second {
			t.Errorf("agent %d is back after %s", i, at)
		}
	}
}

func TestPausesGrowUpToTheCapAndBeginAnew(t *testing.T) {
	b := newBackoff()
	for range 10 {
		b.next()
	}
	if b.most != mostPause {
		t.Errorf("the pause may be up to %s, want %s", b.most, mostPause)
	}
	b.reset()
	if p := b.next(); p > firstPause {
		t.Errorf("after success the first pause is %s", p)
	}
}
