package gateway

import "time"

// window is the span in which a limit counts.
const window = time.Minute

// slidingWindow is exact: no 60 s anywhere admit more than the limit. Bookings
// within one millisecond share a slot and leave with its last one, so that the
// busiest window takes no more than two megabytes.
type slidingWindow struct {
	slots []slot // oldest first, from head on
	head  int
	first int64 // the number of slots[0]: slots are numbered for as long as the window lives
	total int64
	held  int64 // of total, by requests that are still open
	users int   // reservations that may come back to this window
}

// slot is what was booked at one moment. Moments are counted from a start that all
// windows share.
type slot struct {
	began, expires time.Duration
	n, held        int64
}

// book adds n at a moment and says in which slot; open tells whether it will be
// settled.
func (w *slidingWindow) book(at time.Duration, n int64, open bool) int64 {
	last := len(w.slots) - 1
	if last < w.head || at-w.slots[last].began >= time.Millisecond {
		w.slots = append(w.slots, slot{began: at, expires: at + window})
		last++
	}
	s := &w.slots[last]
	s.expires = max(s.expires, at+window)
	s.n += n
	w.total += n
	if open {
		s.held += n
		w.held += n
	}
	return w.first + int64(last)
}

// settle replaces n booked in a slot by what it really was. Once the slot has left,
// what was booked has counted in full; only what goes beyond it counts still, from
// now on, or nobody would ever pay for it.
func (w *slidingWindow) settle(at time.Duration, number, booked, real int64) {
	w.expire(at)
	if number < w.first+int64(w.head) {
		if real > booked {
			w.book(at, real-booked, false)
		}
		return
	}
	s := &w.slots[number-w.first]
	s.n += real - booked
	s.held -= booked
	w.total += real - booked
	w.held -= booked
}

// release takes n back that was booked in a slot, if it still counts.
func (w *slidingWindow) release(at time.Duration, number, n int64, open bool) {
	w.expire(at)
	if number < w.first+int64(w.head) {
		return
	}
	s := &w.slots[number-w.first]
	s.n -= n
	w.total -= n
	if open {
		s.held -= n
		w.held -= n
	}
}

func (w *slidingWindow) expire(at time.Duration) {
	for w.head < len(w.slots) && w.slots[w.head].expires <= at {
		w.total -= w.slots[w.head].n
		w.held -= w.slots[w.head].held
		w.head++
	}
	if w.head > len(w.slots)/2 {
		w.slots = append(w.slots[:0], w.slots[w.head:]...)
		w.first += int64(w.head)
		w.head = 0
	}
}

// reset is how long it takes until nothing is booked any more.
func (w *slidingWindow) reset(at time.Duration) time.Duration {
	for i := len(w.slots) - 1; i >= w.head; i-- {
		if w.slots[i].n > 0 {
			return w.slots[i].expires - at
		}
	}
	return 0
}

// room is how long it takes until n fit under limit, which n must not exceed.
func (w *slidingWindow) room(limit, n int64, at time.Duration) time.Duration {
	total := w.total
	for _, s := range w.slots[w.head:] {
		if total -= s.n; total+n <= limit {
			return s.expires - at
		}
	}
	return window // not reached: with all slots gone there is room
}
