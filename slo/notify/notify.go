// Package notify delivers alerts to people: it takes what is due from the store, tells
// it to each channel, and writes down what came of it. Whether there is something to
// tell is decided elsewhere.
package notify

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"tokenfactory/factory"
)

const (
	// lookEvery is how long a delivery that nobody poked for may lie.
	lookEvery = 3 * time.Second
	// dueMost bounds what one look reads.
	dueMost = 500
	// inFlight bounds the attempts that are under way at once.
	inFlight = 16
	// attemptPatience bounds one attempt, also while we are being stopped.
	attemptPatience = 10 * time.Second
	// lookPatience bounds one look into the store.
	lookPatience = 10 * time.Second
	// savePatience bounds one try to write down what came of an attempt.
	savePatience = 5 * time.Second
	saveAgain    = time.Second
)

// Queue is what is still to be told. It is the only memory of deliveries: what is not
// in it is not known after a restart.
type Queue interface {
	// DueDeliveries are waiting ones whose time has come, the longest waiting first.
	DueDeliveries(ctx context.Context, now time.Time, limit int) ([]factory.DueDelivery, error)
	SaveDelivery(ctx context.Context, d factory.Delivery) error
}

// Courier delivers a message to every kind of channel but webhooks. Its errors may quote
// addresses: they are scrubbed here.
type Courier func(ctx context.Context, c factory.Channel, m Message) error

// Sender delivers what is due. A channel's deliveries go one after the other, in the
// order in which they became due, and channels do not wait for each other.
type Sender struct {
	Store   Queue
	Courier Courier // nil: webhooks alone are delivered
	Now     func() time.Time
	Log     *slog.Logger
	// AllowPrivate lets every channel reach addresses inside private networks.
	AllowPrivate bool

	once    sync.Once
	poke    chan struct{}
	slots   chan struct{}
	guarded *http.Client // refuses addresses inside private networks
	open    *http.Client

	mu      sync.Mutex
	busy    map[string]bool // channels that are being told something
	working sync.WaitGroup
}

// Run delivers until ctx ends. What is under way then is finished first: a message that
// arrived, and was not written down, would be told again.
func (s *Sender) Run(ctx context.Context) error {
	s.prepare()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		err := s.look(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.Log.Warn("look for alerts to deliver; they are delivered once the store answers", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			s.working.Wait()
			return nil
		case <-tick.C:
		case <-s.poke:
		}
	}
}

// Poke makes Run look at once. It never waits.
func (s *Sender) Poke() {
	s.prepare()
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func (s *Sender) prepare() {
	s.once.Do(func() {
		if s.Now == nil {
			s.Now = factory.Now
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		s.poke = make(chan struct{}, 1)
		s.slots = make(chan struct{}, inFlight)
		s.guarded, s.open = newClient(false), newClient(true)
		s.busy = map[string]bool{}
	})
}

// look starts a worker for each channel that has something due and is not at work. The
// lock is held while the store is read: a worker that ended meanwhile would have told what
// was read as still waiting.
func (s *Sender) look(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	due, err := s.Store.DueDeliveries(limit, s.Now(), dueMost)
	if err != nil {
		return err
	}
	lists := map[string][]factory.DueDelivery{}
	for _, d := range due {
		if !s.busy[d.ChannelID] {
			lists[d.ChannelID] = append(lists[d.ChannelID], d)
		}
	}
	for channel, list := range lists {
		s.busy[channel] = true
		s.working.Go(func() { s.deliver(ctx, channel, list) })
	}
	return nil
}

// deliver tells a channel what is due, in order. Once the receiver fails, the rest of
// the list waits as long as the one that was tried: a receiver that is away then costs
// one attempt at a time, and does not fill what a look reads.
func (s *Sender) deliver(ctx context.Context, channel string, list []factory.DueDelivery) {
	defer func() {
		s.mu.Lock()
		delete(s.busy, channel)
		s.mu.Unlock()
	}()
	for i, d := range list {
		select {
		case <-ctx.Done():
		case s.slots <- struct{}{}:
		}
		if ctx.Err() != nil { // a slot may have been free as well
			return
		}
		out := s.attempt(ctx, d)
		<-s.slots
		next := settle(d.Delivery, out, s.Now())
		if !s.save(ctx, next) {
			return
		}
		if out.away {
			for _, rest := range list[i+1:] {
				if !s.save(ctx, putOff(rest.Delivery, out, next.NextAt, s.Now())) {
					return
				}
			}
			return
		}
	}
}

// save writes down what came of an attempt, and does not let go while the store is away:
// a delivery that is done and not written down would be told again. It reports whether
// it succeeded before we were stopped.
func (s *Sender) save(ctx context.Context, d factory.Delivery) bool {
	for warned := false; ; warned = true {
		last := ctx.Err() != nil
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), savePatience)
		err := s.Store.SaveDelivery(limit, d)
		cancel()
		if err == nil {
			return true
		}
		if !warned {
			s.Log.Error("save what came of a delivery", "delivery", d.ID, "err", err)
		}
		if last {
			return false
		}
		select {
		case <-ctx.Done():
		case <-time.After(saveAgain):
		}
	}
}
