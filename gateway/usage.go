package gateway

import (
	"time"

	"tokenfactory/factory"
)

// maxChoices bounds what is kept per choice; engines allow far fewer.
const maxChoices = 1024

// meter adds up what one request consumed, from whatever the engine says.
type meter struct {
	final, running, timings          counts
	hasFinal, hasRunning, hasTimings bool
	one                              [1]choiceMeter // without n, nothing is allocated
	choices                          []choiceMeter
	events                           int64         // that carried tokens
	runs                             int           // events with a running count
	gaps                             time.Duration // sum of those between tokens
	gapped                           int64         // tokens that came after one
}

type choiceMeter struct {
	completion int64     // the engine's running count
	timed      int64     // the count at the last timed event
	last       time.Time // when that was written to the client
}

func (m *meter) choice(i int) *choiceMeter {
	if i < 0 || i >= maxChoices {
		i = 0
	}
	if m.choices == nil {
		m.choices = m.one[:]
	}
	for len(m.choices) <= i {
		m.choices = append(m.choices, choiceMeter{})
	}
	return &m.choices[i]
}

// take notes what a chunk says. Counts are totals so far and are never added
// over chunks; beside a choice they are that choice's own.
func (m *meter) take(c *chunk) {
	m.events += int64(len(c.tokens))
	if c.hasTimings {
		m.timings, m.hasTimings = c.timings, true
		if !c.hasUsage && c.choices == 1 {
			m.runs++
			m.choice(c.first).completion = c.timings.completion
		}
	}
	switch {
	case !c.hasUsage:
	case c.choices == 1:
		m.hasRunning = true
		m.runs++
		m.running.prompt, m.running.cached = c.usage.prompt, c.usage.cached
		m.choice(c.first).completion = c.usage.completion
	default:
		m.final, m.hasFinal = c.usage, true
	}
}

// totals is what to bill, and whether it had to be estimated. A zero that the
// engine states is a zero.
func (m *meter) totals() (c counts, estimated bool) {
	switch {
	case m.hasFinal:
		return m.final, false
	case m.hasRunning:
		c = m.running
		for i := range m.choices {
			c.completion += m.choices[i].completion
		}
		return c, false
	case m.hasTimings:
		return m.timings, false
	}
	return counts{completion: m.events}, true
}

// mark is a token-carrying event of one choice, not yet known to have left.
type mark struct {
	choice int
	count  int64 // the engine's running count with it; 0 when it has none
}

// gap times a mark that was written to the client at now. It returns the time
// per token and for how many tokens; zero tokens for a choice's first event.
func (m *meter) gap(k mark, now time.Time) (time.Duration, int) {
	c := m.choice(k.choice)
	tokens := int64(1)
	if k.count > 0 {
		tokens = max(1, k.count-c.timed)
		c.timed = k.count
	}
	since := now.Sub(c.last)
	first := c.last.IsZero()
	c.last = now
	if first {
		return 0, 0
	}
	m.gaps, m.gapped = m.gaps+since, m.gapped+tokens
	return since / time.Duration(tokens), int(tokens)
}

// meanGap is the request's mean inter-token latency; zero without a gap.
func (m *meter) meanGap() time.Duration {
	if m.gapped == 0 {
		return 0
	}
	return m.gaps / time.Duration(m.gapped)
}

// learn notes what a stream that was whole showed about the engine: whether it puts
// running counts on its events. A single one may be just the total.
func (x *exchange) learn(running string) {
	const enough = 8
	switch m := &x.meter; {
	case running == "" || m.events < enough:
	case m.runs > 1:
		x.g.learned(x.route, factory.LearnedYes)
	case m.runs == 0:
		x.g.learned(x.route, factory.LearnedNo)
	}
}
