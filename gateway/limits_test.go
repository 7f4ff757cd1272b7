package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tokenfactory/factory"
)

// ledgerless is limits for which there is nothing to read: no budgets.
func ledgerless() *memoryLimits {
	return newMemoryLimits(time.UTC, time.Now, func() place { return place{} })
}

func reserve(t *testing.T, m *memoryLimits, id string, now time.Time, claims ...Claim) Standing {
	t.Helper()
	s, err := m.Reserve(t.Context(), id, now, claims)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func perMinute(scope factory.Scope, limit int64) Claim {
	return Claim{Scope: scope, ID: "x", Kind: factory.LimitRequests, Limit: limit, Amount: 1, Least: 1}
}

func tokenClaim(limit, amount, least int64) Claim {
	return Claim{Scope: factory.ScopeKey, ID: "k", Kind: factory.LimitTokens, Limit: limit, Amount: amount, Least: least}
}

func tokens(prompt, completion int64) *Used {
	return &Used{Tokens: factory.Tokens{PromptTokens: prompt, CompletionTokens: completion}}
}

var noon = time.Unix(1_800_000_000, 0)

func TestNoMinuteAnywhereHoldsMoreThanTheLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int64{1, 3, 50, 700} {
		m, now := ledgerless(), noon
		var admitted []time.Time
		for i := range 20_000 {
			now = now.Add(time.Duration(rng.Int64N(3 * int64(window) / limit / 2)))
			s := reserve(t, m, fmt.Sprint(i), now, perMinute(factory.ScopeKey, limit))
			if s.Refused == nil {
				admitted = append(admitted, now)
				continue
			}
			if s.Refused.After > window {
				t.Fatalf("limit %d: come back in %v", limit, s.Refused.After)
			}
			// What it says is true.
			probe := *m.windows[limitKey{factory.ScopeKey, factory.LimitRequests, "x"}]
			probe.slots = append([]slot(nil), probe.slots...)
			if probe.expire(m.moment(now.Add(s.Refused.After))); probe.total >= limit {
				t.Fatalf("limit %d: still full after %v", limit, s.Refused.After)
			}
		}
		for i := int(limit); i < len(admitted); i++ {
			if d := admitted[i].Sub(admitted[i-int(limit)]); d < window {
				t.Fatalf("limit %d: %d requests within %v", limit, limit+1, d)
			}
		}
		if len(admitted) < int(limit) {
			t.Errorf("limit %d: %d admitted", limit, len(admitted))
		}
	}
}

// Random requests of random sizes that end, fail or are given back at random times:
// at no admission do the last 60 s hold more than the limit, counting every request
// by what was known of it then.
func TestNoMinuteAdmitsMoreTokensThanTheLimit(t *testing.T) {
	type request struct {
		id     string
		at     time.Time
		counts int64 // as is known so far
		booked int64
		open   bool
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		limit := 100 + rng.Int64N(2000)
		m, now := ledgerless(), noon
		var all []*request
		var excess []*request // what went beyond a reservation that had left
		admitted := 0
		for i := range 3000 {
			now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Second))))
			if rng.IntN(2) == 0 {
				amount := 1 + rng.Int64N(limit)
				least := amount
				if rng.IntN(3) == 0 {
					least = 1 + rng.Int64N(amount)
				}
				sum := int64(0)
				for _, r := range append(all, excess...) {
					if now.Sub(r.at) < window {
						sum += r.counts
					}
				}
				r := &request{id: fmt.Sprint(i), at: now, open: true}
				s := reserve(t, m, r.id, now, tokenClaim(limit, amount, least))
				if s.Refused != nil {
					// Slots of a millisecond may keep what the oracle has let go of.
					if sum+least <= limit {
						t.Fatalf("seed %d: refused %d of %d with %d booked", seed, least, limit, sum)
					}
					continue
				}
				admitted++
				r.booked = min(amount, limit-sum)
				r.counts = r.booked
				if sum+r.booked > limit || r.booked < least {
					t.Fatalf("seed %d: admitted %d (at least %d) of %d with %d booked", seed, amount, least, limit, sum)
				}
				if s.Tokens.Remaining != limit-sum-r.booked {
					t.Fatalf("seed %d: %d remain, want %d", seed, s.Tokens.Remaining, limit-sum-r.booked)
				}
				all = append(all, r)
				continue
			}
			if len(all) == 0 {
				continue
			}
			r := all[rng.IntN(len(all))]
			switch real := rng.Int64N(r.booked + r.booked/4 + 2); {
			case !r.open:
				m.Release(r.id, now) // does nothing
			case rng.IntN(4) == 0:
				m.Release(r.id, now)
				r.counts = 0
			default:
				m.Settle(r.id, now, tokens(real/2, real-real/2))
				if now.Sub(r.at) < window {
					r.counts = real
				} else if real > r.booked {
					excess = append(excess, &request{at: now, counts: real - r.booked})
				}
			}
			r.open = false
		}
		if admitted < 100 {
			t.Errorf("seed %d: only %d admitted", seed, admitted)
		}
		for _, r := range all {
			m.Release(r.id, now)
		}
		w := m.windows[limitKey{factory.ScopeKey, factory.LimitTokens, "k"}]
		if w.held != 0 || w.users != 0 || len(m.open) != 0 {
			t.Errorf("seed %d: %d held by %d after all have ended", seed, w.held, w.users)
		}
		if m.sweep(now.Add(window)); len(m.windows) != 0 {
			t.Errorf("seed %d: a window is kept for nothing", seed)
		}
	}
}

func TestARefusalGivesBackTheOtherBooking(t *testing.T) {
	m := ledgerless()
	key, dep := perMinute(factory.ScopeKey, 10), perMinute(factory.ScopeDeployment, 1)
	if s := reserve(t, m, "a", noon, key, dep); s.Refused != nil || s.Scope != factory.ScopeDeployment || s.Requests.Remaining != 0 {
		t.Errorf("first: %+v", s)
	}
	for range 20 {
		s := reserve(t, m, "b", noon, key, dep)
		if s.Refused == nil || s.Refused.After != window || s.Scope != factory.ScopeDeployment || s.Requests.Limit != 1 {
			t.Errorf("refusal: %+v", s)
		}
	}
	if s := reserve(t, m, "c", noon, key); s.Requests.Remaining != 8 {
		t.Errorf("the key has %d left, want 8: refusals were booked", s.Requests.Remaining)
	}
}

func TestALoweredLimitHoldsAtOnce(t *testing.T) {
	m, now := ledgerless(), noon
	for i := range 5 {
		reserve(t, m, fmt.Sprint(i), now.Add(time.Duration(i)*10*time.Second), perMinute(factory.ScopeKey, 10))
	}
	now = now.Add(40 * time.Second)
	s := reserve(t, m, "x", now, perMinute(factory.ScopeKey, 2))
	// Three of the five have to go first: the fourth booked, at 30 s, leaves at 90 s.
	if s.Refused == nil || s.Refused.After != 50*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestSettlingAfterTheWindowCountsOnlyWhatWentBeyond(t *testing.T) {
	m, later := ledgerless(), noon.Add(2*window)
	reserve(t, m, "a", noon, tokenClaim(100, 60, 60))
	reserve(t, m, "b", noon, tokenClaim(100, 40, 40))
	if s := m.Settle("a", later, tokens(10, 20)); s.Tokens.Remaining != 100 {
		t.Errorf("less than booked: %+v", s.Tokens)
	}
	if s := m.Settle("b", later, tokens(10, 80)); s.Tokens.Remaining != 50 || s.Tokens.Reset != window {
		t.Errorf("more than booked: %+v", s.Tokens)
	}
	m.Settle("b", later, tokens(10, 80))
	m.Release("b", later)
	if s := reserve(t, m, "c", later, tokenClaim(100, 1, 1)); s.Tokens.Remaining != 49 {
		t.Errorf("a second settlement counted: %+v", s.Tokens)
	}
}

func TestEveryLimitBooksForItself(t *testing.T) {
	m := ledgerless()
	claims := func(amount, least int64) []Claim {
		k := tokenClaim(1000, amount, least)
		d := k
		d.Scope, d.Limit = factory.ScopeDeployment, 100
		return []Claim{k, d}
	}
	s := reserve(t, m, "a", noon, claims(5000, 10)...)
	if s.Refused != nil || s.Tokens.Remaining != 0 {
		t.Errorf("%+v", s)
	}
	if w := m.windows[limitKey{factory.ScopeKey, factory.LimitTokens, "k"}]; w.total != 1000 {
		t.Errorf("%d booked with the key: the deployment's smaller limit bounds nothing that the key's has to count", w.total)
	}
	if s = reserve(t, m, "b", noon.Add(time.Second), claims(5000, 10)...); s.Refused == nil || s.Refused.After != window-time.Second || s.Refused.Left != 0 {
		t.Errorf("%+v", s.Refused)
	}
	if s = m.Settle("a", noon, tokens(4, 8)); s.Tokens.Remaining != 88 {
		t.Errorf("%+v", s)
	}
}

func TestWaitingIsNotAdvisedWhereItDoesNotHelp(t *testing.T) {
	m := ledgerless()
	s := reserve(t, m, "a", noon, tokenClaim(100, 500, 500), perMinute(factory.ScopeKey, 5))
	if s.Refused == nil || s.Refused.After != 0 || s.Requests.Remaining != 5 {
		t.Errorf("%+v", s)
	}
}

// unreachable answers as limits do whose counters nobody can reach.
type unreachable struct{ Limits }

func (unreachable) Reserve(context.Context, string, time.Time, []Claim) (Standing, error) {
	return Standing{}, errAway
}
