package gateway

import (
	"context"
	"sync"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// memoryLimits counts in the memory of one process.
type memoryLimits struct {
	mu      sync.Mutex
	start   time.Time // of the moments of all windows
	windows map[limitKey]*slidingWindow
	lanes   map[limitKey]*lane
	open    map[string]*reservation
	budgets budgets
}

// newMemoryLimits keeps budgets in the periods of a zone. Last is the place of the
// newest row that is on its way to the ledger.
func newMemoryLimits(zone *time.Location, wall func() time.Time, last func() place) *memoryLimits {
	return &memoryLimits{budgets: budgets{zone: zone, wall: wall, last: last, wake: make(chan struct{}, 1)}}
}

// recall makes the first minute count what an earlier process served in the last.
func (m *memoryLimits) recall(now, wall time.Time) {
	m.start = now
	m.budgets.started = wall
}

// limitKey is what a counter belongs to. The limit itself is not part of it: one
// that is changed keeps what was counted.
type limitKey struct {
	scope factory.Scope
	kind  factory.LimitKind
	id    string
}

// lane counts requests that are open at once.
type lane struct{ open int64 }

// reservation is what one request has booked.
type reservation struct {
	counts []tally
	lanes  []laned
	holds  []hold
}

type tally struct {
	scope  factory.Scope
	kind   factory.LimitKind
	limit  int64
	booked int64
	slot   int64
	window *slidingWindow
}

// settles reports whether the amount is known only at the end.
func (c *tally) settles() bool { return c.kind != factory.LimitRequests }

type laned struct {
	scope factory.Scope
	limit int64
	lane  *lane
}

// laneRetry is how long a client is told to wait for another request to end:
// nobody knows how long that takes.
const laneRetry = time.Second

// Reserve implements Limits.
func (m *memoryLimits) Reserve(ctx context.Context, id string, now time.Time, claims []Claim) (Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited, err := m.budgets.know(ctx, &m.mu, claims, m.moment(now) < window)
	if err != nil {
		return Standing{}, err
	}
	at := m.moment(now.Add(waited))
	refused, money := m.check(at, claims)
	if refused != nil {
		return refusedStanding(refused, at, claims), nil
	}
	return m.book(id, at, claims, money), nil
}

// check finds the limit that weighs most against a request, or else what to book:
// with each window what it has left, at most. Money is the same with every budget,
// because engines are held to it.
func (m *memoryLimits) check(at time.Duration, claims []Claim) (refused *Refused, money billing.Cash) {
	first := true
	no := func(r Refused) {
		if r.worse(refused) {
			refused = &r
		}
	}
	for i := range claims {
		c := &claims[i]
		switch c.Kind {
		case factory.LimitBudget:
			left, r := c.Money.left(c)
			if r != nil {
				no(*r)
				continue
			}
			if c.Money.Cost.Less(left) {
				left = c.Money.Cost
			}
			if first || left.Less(money) {
				money, first = left, false
			}
		case factory.LimitConcurrency:
			if c.lane = m.lane(c); c.lane.open+c.Amount > c.Limit {
				no(Refused{Claim: *c, After: laneRetry})
			}
		default:
			w := m.window(c, at)
			w.expire(at)
			c.window = w
			left := c.Limit - w.total
			switch {
			case c.Least > c.Limit:
				no(Refused{Claim: *c, Left: left})
				continue
			case left < c.Least:
				no(Refused{Claim: *c, Left: max(0, left), After: max(w.room(c.Limit, c.Least, at), time.Nanosecond)})
				continue
			}
			c.Amount = min(left, c.Amount)
		}
	}
	return refused, money
}

// book books what check found to fit.
func (m *memoryLimits) book(id string, at time.Duration, claims []Claim, money billing.Cash) Standing {
	r := &reservation{}
	s := standingOf{}
	for i := range claims {
		c := &claims[i]
		switch c.Kind {
		case factory.LimitBudget:
			h := c.Money.hold(c, money)
			r.holds = append(r.holds, h)
			s.budget(c.Scope, c.Money.Budget, h.purse)
			s.Held = money
		case factory.LimitConcurrency:
			l := c.lane
			l.open += c.Amount
			r.lanes = append(r.lanes, laned{c.Scope, c.Limit, l})
			s.take(c.Scope, c.Limit, c.Limit-l.open)
		default:
			e := tally{scope: c.Scope, kind: c.Kind, limit: c.Limit, booked: c.Amount, window: c.window}
			e.slot = e.window.book(at, c.Amount, e.settles())
			e.window.users++
			if r.counts == nil {
				r.counts = make([]tally, 0, len(claims)-i)
			}
			r.counts = append(r.counts, e)
			s.quota(&e, at)
		}
	}
	if m.open == nil {
		m.open = map[string]*reservation{}
	}
	m.open[id] = r
	return s.Standing
}

// Settle implements Limits.
func (m *memoryLimits) Settle(id string, now time.Time, used *Used) Standing {
	if id == "" && !m.budgets.watched() {
		return Standing{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.moment(now)
	var s standingOf
	if r := m.open[id]; r != nil {
		delete(m.open, id)
		for i := range r.counts {
			c := &r.counts[i]
			if c.settles() {
				c.window.settle(at, c.slot, c.booked, countOf(c.kind, used.Tokens))
			} else {
				c.window.expire(at)
			}
			c.window.users--
			s.quota(c, at)
		}
		for _, l := range r.lanes {
			l.lane.open--
			s.take(l.scope, l.limit, l.limit-l.lane.open)
		}
		for i := range r.holds {
			r.holds[i].release()
		}
		m.budgets.spend(used)
		for i := range r.holds {
			s.budget(r.holds[i].scope, r.holds[i].budget, r.holds[i].purse)
		}
		return s.Standing
	}
	m.budgets.spend(used)
	return s.Standing
}

// Release implements Limits.
func (m *memoryLimits) Release(id string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.open[id]
	if r == nil {
		return
	}
	delete(m.open, id)
	at := m.moment(now)
	for i := range r.counts {
		c := &r.counts[i]
		c.window.release(at, c.slot, c.booked, c.settles())
		c.window.users--
	}
	for _, l := range r.lanes {
		l.lane.open--
	}
	for i := range r.holds {
		r.holds[i].release()
	}
}

func (m *memoryLimits) moment(now time.Time) time.Duration {
	if m.start.IsZero() {
		m.start = now
	}
	return now.Sub(m.start)
}

func (m *memoryLimits) window(c *Claim, at time.Duration) *slidingWindow {
	key := limitKey{c.Scope, c.Kind, c.ID}
	w := m.windows[key]
	if w == nil {
		if m.windows == nil {
			m.windows = map[limitKey]*slidingWindow{}
		}
		w = m.newWindow(c, at)
		m.windows[key] = w
	}
	return w
}

// newWindow begins with what was used in the minute before this process.
func (m *memoryLimits) newWindow(c *Claim, at time.Duration) *slidingWindow {
	w := &slidingWindow{}
	if a := m.budgets.before[holder{c.Scope, c.ID}]; a != nil && at < window {
		// Where in that minute it was is not known: it counts to the end of the next.
		w.book(0, countOf(c.Kind, a.tokens), false)
	}
	return w
}

func (m *memoryLimits) lane(c *Claim) *lane {
	key := limitKey{c.Scope, c.Kind, c.ID}
	l := m.lanes[key]
	if l == nil {
		if m.lanes == nil {
			m.lanes = map[limitKey]*lane{}
		}
		l = &lane{}
		m.lanes[key] = l
	}
	return l
}

// sweep forgets what counts nothing.
func (m *memoryLimits) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.moment(now)
	for key, w := range m.windows {
		if w.expire(at); w.total == 0 && w.users == 0 {
			delete(m.windows, key)
		}
	}
	for key, l := range m.lanes {
		if l.open == 0 {
			delete(m.lanes, key)
		}
	}
	m.budgets.sweep()
}
