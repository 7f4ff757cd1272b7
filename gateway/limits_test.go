package gateway

import (
	"math/rand/v2"
	"testing"
	"time"
)

func book(t *testing.T, m *memoryLimits, now time.Time, claims ...Claim) Standing {
	t.Helper()
	s, err := m.Book(t.Context(), now, claims)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNoMinuteAnywhereHoldsMoreThanTheLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{1, 3, 50, 700} {
		m := &memoryLimits{}
		now := time.Unix(1_800_000_000, 0)
		var admitted []time.Time
		for range 20_000 {
			now = now.Add(time.Duration(rng.Int64N(int64(3 * window / time.Duration(limit) / 2))))
			s := book(t, m, now, Claim{"key", "k", limit})
			if s.RetryAfter == 0 {
				admitted = append(admitted, now)
				continue
			}
			if s.RetryAfter > window {
				t.Fatalf("limit %d: come back in %v", limit, s.RetryAfter)
			}
			// What it says is true: then, and no millisecond-slot earlier.
			probe := *m.windows[Claim{"key", "k", 0}]
			probe.slots = append([]slot(nil), probe.slots...)
			if probe.expire(now.Add(s.RetryAfter)); probe.total >= limit {
				t.Fatalf("limit %d: still full after %v", limit, s.RetryAfter)
			}
		}
		for i := limit; i < len(admitted); i++ {
			if d := admitted[i].Sub(admitted[i-limit]); d < window {
				t.Fatalf("limit %d: %d requests within %v", limit, limit+1, d)
			}
		}
		if len(admitted) < limit {
			t.Errorf("limit %d: %d admitted", limit, len(admitted))
		}
	}
}

func TestARefusalGivesBackTheOtherBooking(t *testing.T) {
	m := &memoryLimits{}
	now := time.Unix(1_800_000_000, 0)
	key, dep := Claim{"key", "k", 10}, Claim{"deployment", "d", 1}
	if s := book(t, m, now, key, dep); s.RetryAfter != 0 || s.Scope != "deployment" || s.Remaining != 0 {
		t.Errorf("first: %+v", s)
	}
	for range 20 {
		if s := book(t, m, now, key, dep); s.RetryAfter != window || s.Scope != "deployment" || s.Limit != 1 {
			t.Errorf("refusal: %+v", s)
		}
	}
	if s := book(t, m, now, key); s.Remaining != 8 {
		t.Errorf("the key has %d left, want 8: refusals were booked", s.Remaining)
	}
	m.sweep(now.Add(window))
	if len(m.windows) != 0 {
		t.Errorf("%d windows are kept for nothing", len(m.windows))
	}
}

func TestALoweredLimitHoldsAtOnce(t *testing.T) {
	m := &memoryLimits{}
	now := time.Unix(1_800_000_000, 0)
	for i := range 5 {
		book(t, m, now.Add(time.Duration(i)*10*time.Second), Claim{"key", "k", 10})
	}
	now = now.Add(40 * time.Second)
	s := book(t, m, now, Claim{"key", "k", 2})
	// Three of the five have to go first: the fourth booked, at 30 s, leaves at 90 s.
	if s.RetryAfter != 50*time.Second {
		t.Errorf("%+v", s)
	}
}
