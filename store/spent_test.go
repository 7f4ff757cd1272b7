package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// spentOf adds rows up independently of the store, by price.
func spentOf(rows []factory.Usage, belongs func(factory.Usage) bool, from, to time.Time) map[string]factory.Tokens {
	out := map[string]factory.Tokens{}
	for _, u := range rows {
		if !belongs(u) || u.StartedAt.Before(from) || !u.StartedAt.Before(to) {
			continue
		}
		x := out[u.PriceID]
		x.Requests++
		x.PromptTokens += u.PromptTokens
		x.CachedTokens += u.CachedTokens
		x.CompletionTokens += u.CompletionTokens
		out[u.PriceID] = x
	}
	return out
}

func TestWhatWasSpentIsTheLedgersSum(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		rnd := rand.New(rand.NewPCG(7, 8))
		rows := traffic(rnd, 2000)
		const span = 5 * 24 * time.Hour
		for i := range rows {
			at := start.Add(time.Duration(rnd.Int64N(int64(span))))
			switch i % 4 { // many exactly on bounds, and a step before
			case 0:
				at = at.Truncate(15 * time.Minute)
			case 1:
				at = at.Truncate(24 * time.Hour).Add(-time.Microsecond)
			}
			rows[i].StartedAt = at.Truncate(time.Microsecond)
		}
		ok(t, s.AppendUsage(ctx, rows))
		ok(t, s.AppendUsage(ctx, rows[:500])) // delivered again
		scopes := []struct {
			scope factory.Scope
			id    string
			of    func(factory.Usage) bool
		}{
			{factory.ScopeTenant, "t1", func(u factory.Usage) bool { return u.TenantID == "t1" }},
			{factory.ScopeKey, "k01", func(u factory.Usage) bool { return u.KeyID == "k01" }},
			{factory.ScopeDeployment, "d1", func(u factory.Usage) bool { return u.DeploymentID == "d1" }},
			{factory.ScopeKey, "t1", func(u factory.Usage) bool { return false }}, // an id of another kind
			{factory.ScopeTenant, "", func(u factory.Usage) bool { return false }},
		}
		for i := range 120 {
			from := start.Add(-time.Hour + time.Duration(rnd.Int64N(int64(span))))
			to := from.Add(time.Duration(rnd.Int64N(int64(span))))
			switch i % 6 {
			case 0: // days of UTC
				from, to = from.Truncate(24*time.Hour), to.Truncate(24*time.Hour)
			case 1: // days of a zone that is half an hour off
				from, to = from.Truncate(24*time.Hour).Add(-330*time.Minute), to.Truncate(24*time.Hour).Add(-330*time.Minute)
			case 2: // inside one quarter
				to = from.Add(time.Duration(rnd.Int64N(int64(10 * time.Minute))))
			case 3: // from a row to a row
				from, to = rows[rnd.IntN(len(rows))].StartedAt, rows[rnd.IntN(len(rows))].StartedAt
			case 4: // finer than times are kept
				from, to = rows[rnd.IntN(len(rows))].StartedAt.Add(1), rows[rnd.IntN(len(rows))].StartedAt.Add(1)
			}
			for _, c := range scopes {
				got := map[string]factory.Tokens{}
				for _, x := range must[[]factory.PricedTokens](t)(s.Spent(ctx, c.scope, c.id, from, to)) {
					if _, twice := got[x.Price.ID]; twice {
						t.Fatalf("%s comes twice", x.Price.ID)
					}
					got[x.Price.ID] = x.Tokens
				}
				if want := spentOf(rows, c.of, from, to); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s %q from %s to %s\n got %+v\nwant %+v", c.scope, c.id, from, to, got, want)
				}
			}
		}
		wantKind(t, second(s.Spent(ctx, "nobody", "t1", start, start.Add(time.Hour))), factory.Invalid)
	})
}

func TestWhatWasSpentComesWithItsPrices(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		d := must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		first := *d.Price
		free := factory.Price{ID: "free-1", DeploymentID: "d1", Free: true, Currency: "EUR", Input: "0", CachedInput: "0", Output: "0", ValidFrom: start.Add(time.Hour)}
		d.Price = &free
		ok(t, s.SaveDeployment(ctx, d))
		ok(t, s.DeleteDeployment(ctx, "d1", start.Add(2*time.Hour))) // what it cost stays owed
		rows := []factory.Usage{request("r1", start, 10, 1), request("r2", start.Add(time.Hour), 20, 2), request("r3", start.Add(48*time.Hour), 30, 3)}
		rows[1].PriceID, rows[2].PriceID = "free-1", "unknown"
		ok(t, s.AppendUsage(ctx, rows))
		want := []factory.PricedTokens{
			{Price: free, Tokens: factory.Tokens{Requests: 1, PromptTokens: 20, CompletionTokens: 2}},
			{Price: first, Tokens: factory.Tokens{Requests: 1, PromptTokens: 10, CompletionTokens: 1}},
			{Price: factory.Price{ID: "unknown"}, Tokens: factory.Tokens{Requests: 1, PromptTokens: 30, CompletionTokens: 3}},
		}
		if got := must[[]factory.PricedTokens](t)(s.Spent(ctx, factory.ScopeTenant, "t1", start, start.AddDate(0, 1, 0))); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestWhatIsNotCommittedIsNotSpent(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		refused := factory.Errorf(factory.Invalid, "No.")
		spent := func() int64 {
			var n int64
			for _, x := range must[[]factory.PricedTokens](t)(s.Spent(ctx, factory.ScopeKey, "k1", start, start.AddDate(0, 0, 2))) {
				n += x.Requests
			}
			return n
		}
		err := s.InTx(ctx, func(tx *store.Store) error {
			ok(t, tx.AppendUsage(ctx, []factory.Usage{request("r1", start, 1, 1)}))
			if n := spent(); n != 0 {
				t.Errorf("%d requests before the commit", n)
			}
			return refused
		})
		if err != refused {
			t.Fatal(err)
		}
		ok(t, s.AppendUsage(ctx, []factory.Usage{request("r1", start, 1, 1)}))
		if n := spent(); n != 1 {
			t.Errorf("%d requests after the commit", n)
		}
	})
}

// BenchmarkSpent reads a month of one tenant, key and deployment among 300,000 requests,
// hardly any two of which share a quarter: the roll-ups are as many.
func BenchmarkSpent(b *testing.B) {
	s := storetest.Open(b)
	rnd := rand.New(rand.NewPCG(1, 2))
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var rows []factory.Usage
	for i := range 300_000 {
		u := request(fmt.Sprint("r", i), month.Add(time.Duration(rnd.Int64N(int64(30*24*time.Hour)))).Truncate(time.Microsecond), 1000, 100)
		u.TenantID, u.DeploymentID = fmt.Sprint("t", rnd.IntN(5)), fmt.Sprint("d", rnd.IntN(5))
		u.KeyID = fmt.Sprint("k", u.TenantID, rnd.IntN(10))
		rows = append(rows, u)
	}
	for len(rows) > 0 {
		n := min(len(rows), 20_000)
		if err := s.AppendUsage(b.Context(), rows[:n]); err != nil {
			b.Fatal(err)
		}
		rows = rows[n:]
	}
	for scope, id := range map[factory.Scope]string{factory.ScopeTenant: "t1", factory.ScopeKey: "kt10", factory.ScopeDeployment: "d1"} {
		b.Run(string(scope), func(b *testing.B) {
			for b.Loop() {
				from := month.Add(-330 * time.Minute)
				if _, err := s.Spent(b.Context(), scope, id, from, from.AddDate(0, 1, 0)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
