package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// direct sends a request to a gateway without a network before it.
func direct(g *Gateway, secret, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, req)
	return w
}

// reopen is the gateway that takes over after another was killed.
func (l *limited) reopen(clock func() time.Time) *Gateway {
	l.Helper()
	l.g.spool.kill()
	g := &Gateway{Keys: l.world, Routes: l.world, Ledger: l.world, Buckets: l.world, Spending: l.purser, RefusalCounts: l.purser,
		SpoolDir: l.g.SpoolDir, Log: l.g.Log, limitClock: clock}
	if err := g.Open(); err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	l.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
		g.spool.kill()
	})
	return g
}

func usedOf(t testing.TB, g *Gateway, scope factory.Scope, id string, l factory.Limits) factory.LimitUse {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, u := range g.Use(t.Context(), scope, id, l) {
			if u.Kind == factory.LimitBudget && !u.Unknown {
				return u
			}
		}
	}
	t.Fatal("what was spent stays unknown")
	return factory.LimitUse{}
}

// The gateway is killed while the database is away. What it served by then counts,
// although the ledger does not have it yet when the next one starts.
func TestMB06SpendingSurvivesAKillWhileTheDatabaseIsAway(t *testing.T) {
	e := counting(t, "10", "5", nil)
	l := factory.Limits{Budget: "0.00135"} // 300 requests of 10/5
	b := newLimited(t, factory.ScopeKey, l, e.URL)
	for i := range 200 {
		if i == 50 {
			b.until("some are in the ledger", func() bool { return len(b.ledger()) > 0 })
			b.set(func(w *world) { w.away = true })
		}
		if r := direct(b.g, b.secret, with(`,"max_tokens":5`, false)); r.Code != 200 {
			t.Fatalf("request %d: %d %s", i, r.Code, r.Body)
		}
	}
	b.idle()
	before := len(b.ledger())
	g := b.reopen(time.Now)
	if before == 200 {
		t.Fatal("the database was not away")
	}
	b.set(func(w *world) { w.away = false })
	// While the old rows are on their way nobody knows what is left, so nothing is served.
	if u := usedOf(t, g, factory.ScopeKey, "key1", l); u.Used != "0.0009" {
		t.Errorf("%s is spent, want 0.0009", u.Used)
	}
	served := 0
	for range 150 {
		if r := direct(g, b.secret, with(`,"max_tokens":5`, false)); r.Code == 200 {
			served++
		}
	}
	b.until("the ledger has all", func() bool { return len(b.ledger()) == 200+served })
	if u := usedOf(t, g, factory.ScopeKey, "key1", l); u.Used != b.billed() || u.Held != "0" {
		t.Errorf("%s is spent and %s held, the ledger says %s", u.Used, u.Held, b.billed())
	}
	if billed := decimal.RequireFromString(b.billed()); billed.GreaterThan(decimal.RequireFromString(l.Budget)) || served == 0 {
		t.Errorf("%s of %s are spent, %d served", billed, l.Budget, served)
	}
}

// A restart is no way around a limit: the first minute counts what the last one of
// the process before has served, also what the ledger does not have yet.
func TestLimitsSurviveAKill(t *testing.T) {
	for i, l := range []factory.Limits{{RequestsPerMinute: 3}, {TokensPerMinute: 40}, {InputTokensPerMinute: 30}, {OutputTokensPerMinute: 15}} {
		scope := scopes[i%len(scopes)]
		t.Run(fmt.Sprint(scope, i), func(t *testing.T) {
			t.Parallel()
			e := counting(t, "10", "5", nil)
			clock := newClock()
			b := newLimited(t, scope, l, e.URL, func(b *bench) {
				b.g.limitClock = clock.now
				long := earlier("long ago", time.Now().Add(-2*time.Minute), "1")
				b.rows = append(b.rows, long)
			})
			ask := func(g *Gateway) int { return direct(g, b.secret, with(`,"max_tokens":5`, false)).Code }
			served := 0
			for ; ask(b.g) == 200; served++ {
				if served == 0 {
					b.row(2)
					b.set(func(w *world) { w.refuse = func([]factory.Usage) error { return errAway } })
				}
			}
			if served != 3 {
				t.Fatalf("%+v: %d served", l, served)
			}
			g := b.reopen(clock.now)
			if got := ask(g); got != 503 {
				t.Errorf("%+v: %d while nobody knows what was served", l, got)
			}
			b.set(func(w *world) { w.refuse = nil })
			b.until("it is known", func() bool { return ask(g) == 429 })
			use := g.Use(t.Context(), scope, b.id(scope), l)
			if use[0].Unknown || use[0].Used == "0" || use[0].Held != "0" {
				t.Errorf("%+v", use)
			}
			clock.add(window - time.Millisecond)
			if got := ask(g); got != 429 {
				t.Errorf("%+v: %d within the minute", l, got)
			}
			clock.add(time.Millisecond)
			if got := ask(g); got != 200 {
				t.Errorf("%+v: %d after a minute", l, got)
			}
		})
	}
}

// unsure is a ledger whose answers get lost: what it says it refused it has.
type unsure struct {
	Ledger
	n    atomic.Int64
	lose func(n int64) bool
}

func (u *unsure) AppendUsage(ctx context.Context, rows []factory.Usage) error {
	err := u.Ledger.AppendUsage(ctx, rows)
	if u.lose(u.n.Add(1)) {
		return errors.Join(err, context.DeadlineExceeded)
	}
	return err
}

func TestMB07ABatchDeliveredTwiceMovesTheBudgetOnce(t *testing.T) {
	e := counting(t, "10", "5", nil)
	l := factory.Limits{Budget: "1"}
	b := newLimited(t, factory.ScopeTenant, factory.Limits{}, e.URL, func(b *bench) {
		b.g.Ledger = &unsure{Ledger: b.world, lose: func(n int64) bool { return n <= 2 }}
	})
	for range 2 {
		b.chat(plainly)
	}
	// The account is opened while the first delivery is in doubt.
	if u := usedOf(t, b.g, factory.ScopeTenant, "tenant1", l); u.Used != "0.000009" {
		t.Errorf("%s is spent, want 0.000009", u.Used)
	}
	b.chat(plainly)
	b.row(3)
	if u := usedOf(t, b.g, factory.ScopeTenant, "tenant1", l); u.Used != "0.0000135" {
		t.Errorf("%s is spent, want 0.0000135", u.Used)
	}
}

// Accounts are opened at any moment, under load, with a ledger that fails, forgets to
// say that it did not, and refuses rows: each comes to exactly what was served.
func TestAccountsAreExactWheneverTheyAreOpened(t *testing.T) {
	for seed := range uint64(3) {
		e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			_, _ = io.WriteString(w, `{"choices":[{"index":0}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`)
		})
		rng := rand.New(rand.NewPCG(seed, 5))
		var mu sync.Mutex
		chance := func(n int) bool {
			mu.Lock()
			defer mu.Unlock()
			return rng.IntN(n) == 0
		}
		poison := map[string]bool{}
		b := newLimited(t, factory.ScopeKey, factory.Limits{}, e.URL, func(b *bench) {
			b.g.Ledger = &unsure{Ledger: b.world, lose: func(int64) bool { return chance(30) }}
			b.refuse = func(rows []factory.Usage) error {
				for _, u := range rows {
					// What the ledger has it does not refuse.
					known := slices.ContainsFunc(b.rows, func(r factory.Usage) bool { return r.ID == u.ID })
					if poison[u.ID] || !known && len(poison) < 3 && chance(60) {
						poison[u.ID] = true
						return factory.Errorf(factory.Invalid, "This row is not to our taste.")
					}
				}
				if chance(30) {
					return errAway
				}
				return nil
			}
		})
		var all sync.WaitGroup
		var served atomic.Int64
		stop := make(chan struct{})
		for range 4 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if direct(b.g, b.secret, plainly).Code == 200 {
						served.Add(1)
					}
					time.Sleep(4 * time.Millisecond)
				}
			})
		}
		// Every day of the calendar is an account of its own: the same rows, another period.
		limits := []factory.Limits{{Budget: "1000"}, {Budget: "1000", BudgetPeriod: factory.Week}, {Budget: "1000", BudgetPeriod: factory.Day}}
		for _, l := range limits {
			for _, scope := range scopes {
				time.Sleep(time.Duration(5+seed*7) * time.Millisecond)
				usedOf(t, b.g, scope, b.id(scope), l)
			}
		}
		close(stop)
		all.Wait()
		b.set(func(w *world) {
			inner := w.refuse
			w.refuse = func(rows []factory.Usage) error {
				if err := inner(rows); factory.KindOf(err) == factory.Invalid {
					return err
				}
				return nil
			}
		})
		want := billing.Text(decimal.RequireFromString("0.0000045").Mul(decimal.NewFromInt(served.Load())))
		for _, l := range limits {
			for _, scope := range scopes {
				if u := usedOf(t, b.g, scope, b.id(scope), l); u.Used != want || u.Held != "0" {
					t.Errorf("seed %d: %s a %s of the %s, want %s for %d requests", seed, u.Used, l.BudgetPeriod, scope, want, served.Load())
				}
			}
		}
		// Opened afterwards it is the same, with the rows that were set aside.
		b.until("the ledger has taken or refused everything", func() bool {
			b.g.spool.nudge()
			st := b.g.SpoolState()
			return st.Waiting == 0
		})
		aside := b.g.SpoolState().SetAside
		if int64(len(b.ledger()))+aside != served.Load() {
			t.Errorf("seed %d: %d rows and %d aside of %d", seed, len(b.ledger()), aside, served.Load())
		}
		m := b.memory()
		m.mu.Lock()
		m.budgets.holders = nil
		m.mu.Unlock()
		if u := usedOf(t, b.g, factory.ScopeTenant, "tenant1", limits[0]); u.Used != want {
			t.Errorf("seed %d: read anew %s, want %s with %d rows aside", seed, u.Used, want, aside)
		}
	}
}

// Rows that the disk does not take overtake those that it took.
func TestAccountsAreExactWhenTheDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir, 1<<30)
	w := &world{}
	for i := range 3 {
		s.append(usageRow(i))
	}
	// A folder where the next file would be.
	s.mu.Lock()
	s.closeLocked()
	blocked := filepath.Join(dir, fmt.Sprintf("%016d%s", s.sequence+1, segmentSuffix))
	s.mu.Unlock()
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	overtaking := s.append(usageRow(3))
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if overtaking.memory != 1 {
		t.Fatalf("%+v", overtaking)
	}
	last := s.append(usageRow(4))
	if s.still(s.last(), func(place) {}) {
		t.Error("rows wait, and nobody has to")
	}
	s.mark(0)
	if more, err := s.step(t.Context(), w); !more || err != nil || len(w.rows) != 1 {
		t.Fatal(more, err, len(w.rows))
	}
	// Now the ledger has the fourth row alone.
	var done place
	if !s.still(place{}, func(d place) { done = d }) || !overtaking.within(done) || last.within(done) || (place{row: 1}).within(done) {
		t.Errorf("%+v", done)
	}
	if err := s.drain(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if !s.still(s.last(), func(d place) { done = d }) || !last.within(done) {
		t.Errorf("%+v", done)
	}
}

// A row that was offered out of turn may be in the ledger: nobody reads then.
func TestNobodyReadsWhileARowIsInDoubt(t *testing.T) {
	s := openTestSpool(t, t.TempDir(), 1<<30)
	w := &world{away: true}
	s.append(usageRow(1))
	if s.drain(t.Context(), w) == nil {
		t.Fatal("drained")
	}
	if s.still(place{}, func(place) {}) {
		t.Error("a batch is in doubt")
	}
	w.away = false
	if err := s.drain(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if s.mark(1); s.still(place{}, func(place) {}) {
		t.Error("the next row is in doubt")
	}
	s.append(usageRow(2))
	if err := s.drain(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if !s.still(s.last(), func(place) {}) {
		t.Error("everything is in the ledger")
	}
}

// Random requests with random costs up to what they hold: what is spent and held
// together never passes the budget, and in the end the account is what was spent.
func TestNoInterleavingPassesABudget(t *testing.T) {
	rates, err := billing.CashRatesOf(p1)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 11))
		m := newMemoryLimits(time.UTC, func() time.Time { return began }, func() place { return place{} })
		budget := rates.Most(1+rng.Int64N(100_000), 0)
		type request struct {
			id   string
			most int64
		}
		var open []request
		var spent billing.Cash
		held := map[string]billing.Cash{}
		refused, admitted := 0, 0
		for i := range 2000 {
			if rng.IntN(5) < 3 {
				n := 1 + rng.Int64N(2000)
				cost := rates.Cost(factory.Tokens{CompletionTokens: n})
				least := cost
				if rng.IntN(3) == 0 {
					least = rates.Cost(factory.Tokens{CompletionTokens: 1})
				}
				c := Claim{Scope: factory.ScopeKey, ID: "k", Kind: factory.LimitBudget,
					Money: &Money{Currency: "USD", Budget: budget, Cost: cost, Least: least, Period: factory.Month, Began: began}}
				m.mu.Lock()
				if a := m.budgets.account(holder{c.Scope, c.ID}, factory.Month, began); !a.known {
					m.budgets.learn(a, place{}, nil, factory.Tokens{})
				}
				m.mu.Unlock()
				id := fmt.Sprint(i)
				s := reserve(t, m, id, noon, c)
				sum := spent
				for _, h := range held {
					sum = sum.Add(h)
				}
				if s.Refused != nil {
					refused++
					if !budget.Less(sum.Add(least)) {
						t.Fatalf("seed %d: %s is refused with %s of %s booked", seed, least, sum, budget)
					}
					if final := budget.Less(spent.Add(least)); final != (s.Refused.After == 0) {
						t.Fatalf("seed %d: %+v with %s spent", seed, s.Refused, spent)
					}
					continue
				}
				admitted++
				if s.Held.Less(least) || cost.Less(s.Held) || budget.Less(sum.Add(s.Held)) {
					t.Fatalf("seed %d: %s held for %s to %s with %s of %s booked", seed, s.Held, least, cost, sum, budget)
				}
				held[id] = s.Held
				most, _ := rates.Affords(s.Held)
				open = append(open, request{id, most})
				continue
			}
			if len(open) == 0 {
				continue
			}
			at := rng.IntN(len(open))
			r := open[at]
			open = append(open[:at], open[at+1:]...)
			delete(held, r.id)
			if rng.IntN(4) == 0 {
				m.Release(r.id, noon)
				m.Release(r.id, noon)
				continue
			}
			u := &Used{KeyID: "k", Began: began, Rates: &rates, Tokens: factory.Tokens{CompletionTokens: rng.Int64N(r.most + 1)}, at: place{row: int64(i + 1)}}
			spent = spent.Add(rates.Cost(u.Tokens))
			m.Settle(r.id, noon, u)
		}
		for _, r := range open {
			m.Release(r.id, noon)
		}
		p := m.budgets.holders[holder{factory.ScopeKey, "k"}][0].purses[0]
		if p.spent != spent || !p.held.IsZero() || budget.Less(spent) || admitted == 0 || refused == 0 {
			t.Errorf("seed %d: %s spent and %s held, want %s and 0 of %s; %d admitted, %d refused", seed, p.spent, p.held, spent, budget, admitted, refused)
		}
	}
}

func TestOldAccountsAreForgotten(t *testing.T) {
	now := time.Date(2026, 6, 10, 23, 0, 0, 0, time.UTC)
	m := newMemoryLimits(time.UTC, func() time.Time { return now }, func() place { return place{} })
	of := holder{factory.ScopeKey, "k"}
	open := func() *account {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.budgets.account(of, factory.Day, now)
	}
	first := open()
	now = now.Add(2 * time.Hour)
	if second := open(); second == first || !second.known || first.known {
		t.Error("a new day of a holder that was watched all the time is known to have cost nothing")
	}
	if m.sweep(noon); len(m.budgets.holders[of]) != 2 {
		t.Error("the day before is gone too soon: requests that began in it may be open")
	}
	now = now.Add(time.Hour)
	if m.sweep(noon); len(m.budgets.holders[of]) != 1 || len(m.budgets.unknown) != 0 {
		t.Errorf("%d accounts", len(m.budgets.holders[of]))
	}
	now = now.Add(48 * time.Hour)
	if m.sweep(noon); len(m.budgets.holders) != 0 || m.budgets.watched() {
		t.Error("accounts of a holder that nobody asks for are kept")
	}
	if a := open(); a.known {
		t.Error("what nobody has watched is taken for nothing")
	}
}
