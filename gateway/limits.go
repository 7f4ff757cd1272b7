package gateway

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Claim is one limit that a request has to pass: so many requests in any minute.
type Claim struct {
	Scope     string // "key" or "deployment", as named in refusals
	ID        string
	PerMinute int
}

// Standing is how the tightest of several limits stands, after the booking.
type Standing struct {
	Scope     string // empty when nothing limits the request
	Limit     int
	Remaining int
	Reset     time.Duration // until nothing is booked any more
	// RetryAfter is positive when the request was refused: the time after which it
	// fits, if nobody else comes in between.
	RetryAfter time.Duration
}

// Limits counts requests. Booking is all or nothing: a refusal by one limit
// leaves nothing booked with the others. An error means that nobody knows the
// counts; the gateway then refuses.
type Limits interface {
	Book(ctx context.Context, now time.Time, claims []Claim) (Standing, error)
}

// window is the span in which a limit counts.
const window = time.Minute

// memoryLimits counts in the memory of one process.
type memoryLimits struct {
	mu      sync.Mutex
	windows map[Claim]*slidingWindow // by scope and id; PerMinute is zero in the key
}

// slidingWindow is exact: no 60 s anywhere hold more than the limit. Bookings
// within one millisecond share a slot and leave with its last one, so that the
// largest limit takes no more than two megabytes.
type slidingWindow struct {
	slots []slot // oldest first, from head on
	head  int
	total int
}

type slot struct {
	began   time.Time
	expires time.Time
	n       int
}

// Book implements Limits.
func (m *memoryLimits) Book(_ context.Context, now time.Time, claims []Claim) (Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var tightest Standing
	for _, c := range claims {
		w := m.window(c)
		w.expire(now)
		if w.total < c.PerMinute {
			continue
		}
		s := Standing{Scope: c.Scope, Limit: c.PerMinute, Reset: w.reset(now), RetryAfter: w.room(c.PerMinute, now)}
		// The request fits when the last of its limits lets it in.
		if s.RetryAfter > tightest.RetryAfter {
			tightest = s
		}
	}
	if tightest.RetryAfter > 0 {
		return tightest, nil
	}
	for _, c := range claims {
		w := m.window(c)
		w.book(now)
		s := Standing{Scope: c.Scope, Limit: c.PerMinute, Remaining: c.PerMinute - w.total, Reset: w.reset(now)}
		if tightest.Scope == "" || s.Remaining < tightest.Remaining {
			tightest = s
		}
	}
	return tightest, nil
}

func (m *memoryLimits) window(c Claim) *slidingWindow {
	c.PerMinute = 0
	w := m.windows[c]
	if w == nil {
		if m.windows == nil {
			m.windows = map[Claim]*slidingWindow{}
		}
		w = &slidingWindow{}
		m.windows[c] = w
	}
	return w
}

// sweep forgets windows in which nothing is booked.
func (m *memoryLimits) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c, w := range m.windows {
		if w.expire(now); w.total == 0 {
			delete(m.windows, c)
		}
	}
}

func (w *slidingWindow) book(now time.Time) {
	w.total++
	if n := len(w.slots); n > w.head && now.Sub(w.slots[n-1].began) < time.Millisecond {
		last := &w.slots[n-1]
		last.n++
		if e := now.Add(window); e.After(last.expires) {
			last.expires = e
		}
		return
	}
	w.slots = append(w.slots, slot{began: now, expires: now.Add(window), n: 1})
}

func (w *slidingWindow) expire(now time.Time) {
	for w.head < len(w.slots) && !w.slots[w.head].expires.After(now) {
		w.total -= w.slots[w.head].n
		w.head++
	}
	if w.head > len(w.slots)/2 {
		w.slots = append(w.slots[:0], w.slots[w.head:]...)
		w.head = 0
	}
}

func (w *slidingWindow) reset(now time.Time) time.Duration {
	if len(w.slots) == w.head {
		return 0
	}
	return w.slots[len(w.slots)-1].expires.Sub(now)
}

// room is how long it takes until one more fits under limit.
func (w *slidingWindow) room(limit int, now time.Time) time.Duration {
	left := w.total
	for _, s := range w.slots[w.head:] {
		if left -= s.n; left < limit {
			return s.expires.Sub(now)
		}
	}
	return window // a limit below one: never, said as a full window
}

// headers sets what clients read to pace themselves.
func (s Standing) headers(h http.Header) {
	if s.Scope == "" {
		return
	}
	h["X-Ratelimit-Limit-Requests"] = []string{strconv.Itoa(s.Limit)}
	h["X-Ratelimit-Remaining-Requests"] = []string{strconv.Itoa(max(0, s.Remaining))}
	h["X-Ratelimit-Reset-Requests"] = []string{s.Reset.Round(time.Millisecond).String()}
}

func (s Standing) refusal() *problem {
	whose := "your API key"
	if s.Scope == "deployment" {
		whose = "this model"
	}
	return &problem{status: http.StatusTooManyRequests, kind: typeRate, code: codeRate, retryAfter: s.RetryAfter,
		message: "The limit of " + whose + " is " + strconv.Itoa(s.Limit) + " requests a minute, and it is reached. Try again in " +
			strconv.Itoa(wholeSeconds(s.RetryAfter)) + " s."}
}
