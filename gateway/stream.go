package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// maxUnflushed bounds what is written before it is flushed although more events
// wait in the buffer.
const maxUnflushed = 16 << 10

// stream carries one engine's events to one client.
type stream struct {
	x       *exchange
	c       *call
	body    io.ReadCloser // the engine's, as it comes over the wire
	in      *eventReader
	view    view
	lease   *lease
	running string // the option with which the engine was asked for running counts

	chunk     chunk
	out       []byte // an event that had to be changed
	marks     []mark // tokens written and not yet flushed
	unflushed int
}

// stream forwards events as they come. Every event that is whole goes out in one
// flush with those that arrived together with it, and with nothing later.
func (x *exchange) stream(c *call, l *lease, body io.ReadCloser, text io.Reader, running string) (verdict, *problem) {
	s := &stream{x: x, c: c, lease: l, body: body, in: newEventReader(text), view: x.view(running), running: running}
	defer s.in.free()
	for {
		for {
			ev, ok := s.in.next()
			if !ok {
				break
			}
			if v, p, over := s.take(ev); over {
				return v, p
			}
		}
		if err := s.flush(); err != nil {
			return left, nil
		}
		if err := s.in.fill(); err != nil {
			return s.ended(err)
		}
		c.alive(time.Now(), x.g.IdleTimeout)
	}
}

// view is what this client gets to see, given what the engine was asked for.
func (x *exchange) view(running string) view {
	v := view{name: x.name, nameJSON: x.nameJSON}
	q := x.request
	if !q.stream || !endpoints[x.endpoint].streams {
		return v // nothing was asked for that the client did not
	}
	v.hideTimings = running == optionTimings && !q.wantsTimings
	switch {
	case q.wantsRunning:
	case !q.wantsUsage:
		v.usage = usageNone
	case running == optionContinuous:
		v.usage = usageFinal
	}
	return v
}

// take handles one event; over means that the exchange has ended with it.
func (s *stream) take(ev *event) (v verdict, p *problem, over bool) {
	if len(ev.failure) > 0 || string(ev.name) == "error" {
		v, p = s.failed(failureEvent(ev))
		return v, p, true
	}
	if ev.data == nil {
		return s.aside(ev.raw)
	}
	c := &s.chunk
	c.read(ev.data, &s.view)
	if c.failed {
		v, p = s.failed(c.failure)
		return v, p, true
	}
	s.x.meter.take(c)
	if c.done {
		v, p = s.finish(ev)
		return v, p, true
	}
	if c.drop {
		return answered, nil, false
	}
	raw := ev.raw
	if c.n > 0 {
		raw = s.rewrite(ev)
	}
	for _, choice := range c.tokens {
		k := mark{choice: choice}
		if c.choices == 1 {
			switch {
			case c.hasUsage:
				k.count = c.usage.completion
			case c.hasTimings:
				k.count = c.timings.completion
			}
		}
		s.marks = append(s.marks, k)
	}
	return s.forward(raw)
}

// aside passes on what is no event, such as a comment. It repeats nothing if another
// replica has to take over.
func (s *stream) aside(raw []byte) (verdict, *problem, bool) {
	if !s.x.started {
		s.x.streamHeader()
	}
	if err := s.put(raw); err != nil {
		return left, nil, true
	}
	return answered, nil, false
}

func (s *stream) forward(raw []byte) (verdict, *problem, bool) {
	if err := s.write(raw); err != nil {
		return left, nil, true
	}
	return answered, nil, false
}

// rewrite is an event with its edits made; everything around them stays.
func (s *stream) rewrite(ev *event) []byte {
	edits := s.chunk.edits[:s.chunk.n]
	s.out = s.out[:0]
	if ev.dataAt >= 0 {
		s.out = append(s.out, ev.raw[:ev.dataAt]...)
		s.out = splice(s.out, ev.data, edits, "")
		return append(s.out, ev.raw[ev.dataAt+len(ev.data):]...)
	}
	// Data in several lines; no engine is known to send it, so only the meaning stays.
	if len(ev.name) > 0 {
		s.out = append(append(append(s.out, "event: "...), ev.name...), '\n')
	}
	for line := range bytes.SplitSeq(splice(nil, ev.data, edits, ""), []byte{'\n'}) {
		s.out = append(append(append(s.out, "data: "...), line...), '\n')
	}
	return append(s.out, '\n')
}

// streamHeader sends the header of a stream, with the first byte and not before:
// until then an error can still be an ordinary answer.
func (x *exchange) streamHeader() {
	x.started = true
	h := x.w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
	if !x.holding { // else nobody knows yet
		x.queueHeader(h)
		// What came before the engine was asked; what comes after is a few microseconds.
		x.overheadHeader(h, x.ready.Sub(x.begun)+x.waited-x.engines-x.queued)
	}
	x.w.WriteHeader(http.StatusOK)
}

// write sends an event. With the first there is no other attempt any more.
func (s *stream) write(raw []byte) error {
	if x := s.x; !x.sent {
		x.sent = true
		s.lease.restore()
		if s.running == "" || x.route.Deployment.RunningUsage != factory.LearnedYes {
			x.weigh() // should the client leave, nobody may have said how long its prompt was
		}
		x.outgoing, x.request.body = nil, nil // a stream is open for long, and prompts are large
		if !x.started {
			x.streamHeader()
		}
	}
	return s.put(raw)
}

func (s *stream) put(raw []byte) error {
	if err := s.x.write(raw); err != nil {
		return err
	}
	s.unflushed += len(raw)
	if s.unflushed > maxUnflushed {
		return s.flush()
	}
	return nil
}

// flush sends what was written and times the tokens in it.
func (s *stream) flush() error {
	if s.unflushed == 0 {
		return nil
	}
	s.unflushed = 0
	if err := s.x.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if len(s.marks) == 0 {
		return nil
	}
	x, now := s.x, time.Now()
	for _, k := range s.marks {
		if x.ttft == 0 {
			x.ttft = max(1, now.Sub(x.begun))
			x.observe(now, metrics.TTFT, inMilliseconds(x.ttft), 1)
		}
		if each, tokens := x.meter.gap(k, now); tokens > 0 {
			x.observeGap(now, inMilliseconds(each), tokens)
		}
	}
	s.marks = s.marks[:0]
	return nil
}

// finish ends a stream that is whole. Its last event is held back until its usage
// is on disk: who has seen the end is in the ledger.
func (s *stream) finish(ev *event) (verdict, *problem) {
	x := s.x
	if err := s.flush(); err != nil {
		return left, nil
	}
	x.learn(s.running)
	x.settle(http.StatusOK, "")
	raw := ev.raw
	if s.chunk.n > 0 {
		raw = s.rewrite(ev)
	}
	err := s.write(raw)
	if err == nil && !bytes.HasSuffix(raw, []byte("\n\n")) && !bytes.HasSuffix(raw, []byte("\n\r\n")) {
		err = s.write([]byte("\n\n"))
	}
	if err == nil {
		err = s.flush()
	}
	if err == nil {
		now := time.Now()
		x.observe(now, metrics.E2E, inMilliseconds(now.Sub(x.begun)), 1)
		if x.ttft > 0 {
			x.observe(now, metrics.Decode, inMilliseconds(now.Sub(x.begun)-x.ttft), 1)
		}
	}
	s.c.drain(s.body, s.lease)
	return answered, nil
}

// failed ends a stream that an engine gave up. Before the first byte that is an
// ordinary refusal. After it, there is one event that says so and then a cut:
// clients take a clean end without [DONE] for success.
func (s *stream) failed(f failure) (verdict, *problem) {
	x := s.x
	if !x.sent {
		p := f.problem()
		if retriable(p.status) {
			return again, p
		}
		x.settle(p.status, p.flag())
		x.refuse(p)
		return answered, nil
	}
	if err := s.flush(); err != nil {
		return left, nil
	}
	flag := factory.FlagFailed
	if x.meter.events > 0 {
		flag = factory.FlagTruncated
	}
	x.g.Log.Warn("an engine broke off in mid-stream", "request", x.id, "replica", x.replica.id, "at", x.replica.host,
		"tokens", x.meter.events, "said", f.message)
	x.settle(http.StatusOK, flag)
	x.cut = true
	if err := s.write(f.event()); err != nil {
		return answered, nil
	}
	_ = s.flush() // the connection is cut in any case
	return answered, nil
}

// ended sorts out a stream that stopped without saying so.
func (s *stream) ended(err error) (verdict, *problem) {
	x := s.x
	if err == io.EOF {
		// Some servers leave out the empty line at the very end.
		if ev, ok := s.in.rest(); ok && (len(ev.failure) > 0 || len(ev.name) > 0 || string(ev.data) == "[DONE]" || validJSON(ev.data)) {
			if v, p, over := s.take(ev); over {
				return v, p
			}
		}
	}
	if x.gone() {
		return left, nil
	}
	var f failure
	p := upstreamFailed()
	switch {
	case x.g.running.Err() != nil:
		f.message = "The gateway is being restarted. What was sent is not complete."
		p = unavailable("The gateway is being restarted. Try again in a moment.")
	case context.Cause(s.c.ctx) == errIdle:
		f.message = "The engine said nothing for " + x.g.IdleTimeout.String() + ". What was sent is not complete."
		p.status, p.message = http.StatusGatewayTimeout, "The engine did not answer within "+x.g.IdleTimeout.String()+"."
	case errors.Is(err, errEventTooLong):
		f.message = "The engine sent an event that is longer than 64 MiB. What was sent is not complete."
	}
	if !x.sent {
		if x.g.running.Err() == nil {
			x.strike(s.lease)
		}
		return again, p
	}
	return s.failed(f)
}

// failureEvent reads an event that is a failure by its name.
func failureEvent(ev *event) failure {
	text := ev.data
	if len(ev.failure) > 0 {
		text = ev.failure
	}
	if validJSON(text) {
		doc := gjson.ParseBytes(text)
		if f, ok := readFailure(doc); ok {
			return f
		}
		if doc.IsObject() {
			return failureOf(doc)
		}
	}
	if len(text) == 0 {
		text = ev.comment
	}
	return failure{message: string(text)}
}
