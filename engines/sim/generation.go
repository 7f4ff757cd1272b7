package sim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	mathrand "math/rand/v2"
	"time"
)

// generation is one request on its way through the engine.
type generation struct {
	request
	id      string
	created int64
	arrived time.Time
	choices []choice
	prompt  int  // tokens of all prompts
	cached  int  // of those, found in the prefix cache
	drawn   bool // it is decided whether the fault of preemption takes it
}

// choice is one answer of a request.
type choice struct {
	text    text
	prompt  int // tokens of its prompt
	length  int // tokens it will have
	reason  string
	made    int
	piece   []byte // text of the event at hand
	content []byte // text of the whole answer, unless it is streamed
}

func (c *choice) done() bool { return c.made == c.length }

func (e *Engine) newGeneration(req request, arrived time.Time) *generation {
	g := &generation{request: req, id: newID(req.chat), created: arrived.Unix(), arrived: arrived}
	for _, p := range req.prompts {
		g.prompt += p.tokens
		for i := range req.n {
			c := choice{text: newText(req.seed^p.hash(), uint64(i)), prompt: p.tokens, length: req.limit, reason: "length"}
			if req.limit == 0 {
				c.length, c.reason = e.OutputTokens/2+c.text.rng.IntN(e.OutputTokens)+1, "stop"
				if room := e.ContextLength - p.tokens; c.length > room {
					c.length, c.reason = room, "length"
				}
			}
			g.choices = append(g.choices, c)
		}
	}
	return g
}

func newID(chat bool) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	if chat {
		return "chatcmpl-" + hex.EncodeToString(b[:])
	}
	return "cmpl-" + hex.EncodeToString(b[:])
}

// generate waits for the request's turn and makes its tokens at their times, handing
// each event to deliver. Times are counted from the moment the request was
// scheduled, so that what is late once does not make the rest late. An error means
// that the client has left, which ends the request at once.
func (e *Engine) generate(ctx context.Context, g *generation, deliver func(first bool) error) error {
	at, err := e.enter(ctx, g.prompt+len(g.choices))
	if err != nil {
		e.abort(ctx, nil)
		return err
	}
	pace := e.schedule(g)
	defer pace.timer.Stop()
	for event := 0; ; event++ {
		carry, left := 1, 0
		if event > 0 {
			carry = e.TokensPerEvent
		}
		for i := range g.choices {
			left = max(left, g.choices[i].length-g.choices[i].made)
		}
		carry = min(carry, left)
		if err := pace.wait(ctx, carry, e.gap()); err != nil {
			e.abort(ctx, at)
			return err
		}
		e.make(g, at, pace, carry, event == 0)
		finished := carry == left
		if finished {
			e.finish(g, at, pace)
		}
		if err := deliver(event == 0); err != nil {
			if !finished {
				e.abort(ctx, at)
			}
			return err
		}
		if finished {
			return nil
		}
		if e.preempted(g, pace) {
			if at, err = e.putBack(ctx, g, at, pace); err != nil {
				e.abort(ctx, nil)
				return err
			}
		}
	}
}

// pace is the timetable of one request.
type pace struct {
	timer     *time.Timer
	rng       *mathrand.Rand
	jitter    float64
	scheduled time.Time
	next      time.Time // of the next token, without jitter
	first     time.Time // when the first token came
	last      time.Time // when the last event came
}

// schedule looks the prompts up in the prefix cache and sets the first token's time.
func (e *Engine) schedule(g *generation) *pace {
	var hashes [][]uint64
	if !e.NoPrefixCaching {
		for _, p := range g.prompts {
			hashes = append(hashes, chain(p.text, e.BlockSize))
		}
	}
	now := time.Now()
	e.mu.Lock()
	e.requests++
	rng := mathrand.New(mathrand.NewPCG(e.Seed, e.requests))
	if !e.NoPrefixCaching {
		for i, p := range g.prompts {
			// At least the last token is computed, or there would be nothing to sample from.
			g.cached += min(e.prefixes.lookup(hashes[i]), (p.tokens-1)/e.BlockSize) * e.BlockSize
			e.prefixes.add(hashes[i])
		}
		e.figures.prefixQueries += uint64(g.prompt)
		e.figures.cached += uint64(g.cached)
	}
	e.figures.queue.observe(now.Sub(g.arrived))
	e.mu.Unlock()

	ttft := float64(e.TTFT) + float64(e.PrefillPerToken)*float64(g.prompt-g.cached)
	if e.TailFactor > 1 && rng.Float64() < e.TailShare {
		ttft *= e.TailFactor
	}
	ttft *= e.prefillFactor()
	ttft *= 1 + e.Jitter*(2*rng.Float64()-1)
	timer := time.NewTimer(math.MaxInt64)
	timer.Stop()
	return &pace{timer: timer, rng: rng, jitter: e.Jitter, scheduled: now, next: now.Add(time.Duration(ttft))}
}

// wait sleeps until an event with that many tokens is due, which take itl each.
func (p *pace) wait(ctx context.Context, carry int, itl time.Duration) error {
	due := p.next
	if !p.first.IsZero() {
		// The event comes when its last token is made.
		due = due.Add(time.Duration(carry-1) * itl)
		due = due.Add(time.Duration(p.jitter * (2*p.rng.Float64() - 1) * float64(carry) * float64(itl)))
	}
	p.next = p.next.Add(time.Duration(carry) * itl)
	return sleep(ctx, p.timer, due)
}

func sleep(ctx context.Context, timer *time.Timer, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return ctx.Err()
	}
	timer.Reset(d)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// make makes the tokens of one event and counts them before anybody can see them.
func (e *Engine) make(g *generation, at *place, p *pace, carry int, first bool) {
	tokens, events := 0, 0
	for i := range g.choices {
		c := &g.choices[i]
		c.piece = c.piece[:0]
		n := min(carry, c.length-c.made)
		if n == 0 {
			continue
		}
		for range n {
			c.piece = c.text.next(c.piece)
		}
		c.made += n
		tokens, events = tokens+n, events+1
		if !g.stream {
			c.content = append(c.content, c.piece...)
		}
	}
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.figures.generation += uint64(tokens)
	if first {
		p.first = now
		e.figures.prompt += uint64(g.prompt)
		e.figures.ttft.observe(now.Sub(g.arrived))
		e.figures.prefill.observe(now.Sub(p.scheduled))
	} else {
		for range events {
			e.figures.itl.observe(now.Sub(p.last))
		}
	}
	p.last = now
	e.growLocked(at, g.prompt+g.made())
}

func (g *generation) made() int {
	n := 0
	for i := range g.choices {
		n += g.choices[i].made
	}
	return n
}

func (e *Engine) finish(g *generation, at *place, p *pace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaveLocked(at)
	f := &e.figures
	f.finished[g.choices[0].reason]++
	f.e2e.observe(p.last.Sub(g.arrived))
	f.decode.observe(p.last.Sub(p.first))
	if longest := g.longest(); longest > 1 {
		f.perToken.observe(p.last.Sub(p.first) / time.Duration(longest-1))
	}
}

func (g *generation) longest() int {
	n := 0
	for i := range g.choices {
		n = max(n, g.choices[i].made)
	}
	return n
}

// abort counts a request whose client has left. One that ended with its engine is in no
// figure: those ended too.
func (e *Engine) abort(ctx context.Context, at *place) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at != nil {
		e.leaveLocked(at)
	}
	if !crashed(ctx) {
		e.figures.finished["abort"]++
	}
}
