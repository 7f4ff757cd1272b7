package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// slowly is how late an engine is that misses a target of a millisecond.
const slowly = 20 * time.Millisecond

// TestTheErrorBudgetCountsWhatTargetsSay sends one request of each kind through the
// gateway. A target is either an hour, which nothing misses, or a millisecond, which an
// engine that takes twenty cannot meet.
func TestTheErrorBudgetCountsWhatTargetsSay(t *testing.T) {
	const easy, hard = 3_600_000, 1
	fails := func(status int) func(*judged) {
		return func(j *judged) {
			j.w.WriteHeader(status)
			_, _ = io.WriteString(j.w, `{"error":{"message":"no","code":1}}`)
		}
	}
	answers := func(j *judged) { sse(j.w, role, delta("a"), delta("b"), usage, done) }
	late := func(j *judged) { time.Sleep(slowly); answers(j) }
	never := func(j *judged) {
		time.Sleep(slowly)
		close(j.leave)
		<-j.r.Context().Done()
	}
	for name, c := range map[string]struct {
		ttft, itl int
		rate      float64
		answer    func(*judged)
		ask       func(*bench, *judged)
		body      string // streamed, unless said otherwise
		good, bad float64
	}{
		"in time":                             {ttft: easy, itl: easy, answer: answers, good: 1},
		"no targets":                          {answer: late, good: 1},
		"first token late":                    {ttft: hard, itl: easy, answer: late, bad: 1},
		"gaps long":                           {ttft: easy, itl: hard, answer: (*judged).gap, ask: (*bench).readOn, bad: 1},
		"refused by the engine":               {ttft: easy, answer: fails(400)},
		"engine asks for less":                {ttft: easy, answer: fails(429)},
		"engine fails":                        {ttft: easy, answer: fails(500), bad: 1},
		"breaks off":                          {ttft: easy, itl: easy, answer: func(j *judged) { sse(j.w, delta("a")); reset(j.w) }, bad: 1},
		"left late":                           {ttft: hard, answer: never, ask: (*bench).leaves, bad: 1},
		"left early":                          {ttft: easy, answer: never, ask: (*bench).leaves},
		"left, no target":                     {itl: hard, answer: never, ask: (*bench).leaves},
		"left an answer that is not streamed": {ttft: hard, answer: never, ask: (*bench).leaves, body: plainly},
		"left in the middle":                  {ttft: easy, itl: easy, answer: (*judged).stay, ask: (*bench).leaves, good: 1},
		"left in the middle of what was late": {ttft: hard, itl: easy, answer: func(j *judged) { time.Sleep(slowly); j.stay() }, ask: (*bench).leaves, bad: 1},
		"not streamed":                        {ttft: hard, itl: hard, answer: func(j *judged) { time.Sleep(slowly); _, _ = io.WriteString(j.w, whole) }, body: plainly, good: 1},
		"output at its rate":                  {rate: 0.0001, answer: answers, good: 1},
		"output below its rate":               {rate: 1e6, answer: late, bad: 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := &judged{leave: make(chan struct{}), seen: make(chan struct{}), body: c.body}
			if j.body == "" {
				j.body = streamed
			}
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				j.w, j.r = w, r
				c.answer(j)
			})
			b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) {
				d := &r.Deployment
				d.TTFTTargetMS, d.ITLTargetMS, d.OutputRateTarget = c.ttft, c.itl, c.rate
			}))
			if c.ask == nil {
				b.chat(j.body)
			} else {
				c.ask(b, j)
			}
			b.row(1)
			b.idle() // so that all of it is recorded
			if err := b.g.saveBuckets(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := b.count()
			if n[metrics.Requests] != 1 || n[metrics.Good] != c.good || n[metrics.Bad] != c.bad {
				t.Errorf("%v requests, %v good and %v bad, want %v and %v; row %+v", n[metrics.Requests], n[metrics.Good], n[metrics.Bad], c.good, c.bad, b.row(1))
			}
		})
	}
}

// judged is one request, between its engine and its client.
type judged struct {
	w     http.ResponseWriter
	r     *http.Request
	body  string
	leave chan struct{} // closed by the engine when the client is to go
	seen  chan struct{} // closed by the client when it has its first event
}

// gap is the engine that lets a client wait between its two tokens.
func (j *judged) gap() {
	sse(j.w, delta("a"))
	<-j.seen
	time.Sleep(slowly)
	sse(j.w, delta("b"), usage, done)
}

// stay is the engine that makes one token, and then nothing until the client is gone.
func (j *judged) stay() {
	sse(j.w, delta("a"))
	<-j.seen
	close(j.leave)
	<-j.r.Context().Done()
}

// readOn reads a stream to its end.
func (b *bench) readOn(j *judged) {
	b.Helper()
	if err := b.read(context.Background(), j); err != nil {
		b.Error(err)
	}
}

// leaves reads until the engine says that it is time to go.
func (b *bench) leaves(j *judged) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-j.leave
		cancel()
	}()
	if err := b.read(ctx, j); !errors.Is(err, context.Canceled) {
		b.Errorf("left with %v", err)
	}
}

func (b *bench) read(ctx context.Context, j *judged) error {
	resp, err := http.DefaultTransport.RoundTrip(b.request("POST", "/v1/chat/completions", j.body).WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		return err
	}
	close(j.seen)
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
