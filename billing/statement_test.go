package billing

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tokenfactory/factory"
)

var prices = map[string]factory.Price{
	"p1":   p1,
	"p2":   {ID: "p2", Currency: "USD", Input: "0.17", CachedInput: "0.04", Output: "0.70"},
	"eur":  {ID: "eur", Currency: "EUR", Input: "1", CachedInput: "1", Output: "3"},
	"free": {ID: "free", Free: true, Currency: "USD", Input: "0", CachedInput: "0", Output: "0"},
}

func item(at, tenant, key, deployment, price string, use factory.Tokens) Item {
	start, err := time.Parse(time.RFC3339, at)
	if err != nil {
		panic(err)
	}
	return Item{QuarterStart: start, TenantID: tenant, KeyID: key, DeploymentID: deployment, PriceID: price, Tokens: use}
}

func statement(t testing.TB, terms Terms, items ...Item) Statement {
	t.Helper()
	terms.Prices = prices
	s, err := terms.Make(items)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDaysAreTheViewersAlsoWhenClocksChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	kathmandu, err := time.LoadLocation("Asia/Kathmandu") // 5:45 ahead
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		zone *time.Location
		days map[string]string // start of a quarter -> day
	}{
		{"spring: the day has 23 hours", berlin, map[string]string{
			"2026-03-28T22:45:00Z": "2026-03-28", "2026-03-28T23:00:00Z": "2026-03-29",
			"2026-03-29T21:45:00Z": "2026-03-29", "2026-03-29T22:00:00Z": "2026-03-30",
		}},
		{"autumn: the day has 25 hours", berlin, map[string]string{
			"2026-10-24T21:45:00Z": "2026-10-24", "2026-10-24T22:00:00Z": "2026-10-25",
			"2026-10-25T22:45:00Z": "2026-10-25", "2026-10-25T23:00:00Z": "2026-10-26",
		}},
		{"a zone of quarters", kathmandu, map[string]string{
			"2026-12-01T18:00:00Z": "2026-12-01", "2026-12-01T18:15:00Z": "2026-12-02",
		}},
	} {
		for at, want := range c.days {
			s := statement(t, Terms{By: []Dimension{ByDay}, Zone: c.zone}, item(at, "a", "k", "d", "p1", tokens(1, 0, 0)))
			if len(s.Lines) != 1 || s.Lines[0].Day != want {
				t.Errorf("%s: %s is on %+v, want %s", c.name, at, s.Lines, want)
			}
		}
	}
}

func TestPriceVersionsOfOneDeploymentAreOneLine(t *testing.T) {
	s := statement(t, Terms{By: []Dimension{ByDeployment}},
		item("2026-12-01T10:00:00Z", "a", "k", "d", "p1", tokens(1_000_000, 0, 0)),
		item("2026-12-01T10:15:00Z", "a", "k", "d", "p2", tokens(1_000_000, 0, 0)))
	if len(s.Lines) != 1 || Text(s.Lines[0].Cost) != "0.32" || s.Lines[0].Requests != 2 {
		t.Errorf("got %+v", s.Lines)
	}
}

func TestCurrenciesStayOnLinesOfTheirOwn(t *testing.T) {
	s := statement(t, Terms{By: []Dimension{ByTenant}},
		item("2026-12-01T10:00:00Z", "a", "k", "d", "p1", tokens(1_000_000, 0, 0)),
		item("2026-12-01T10:00:00Z", "a", "k", "e", "eur", tokens(1_000_000, 0, 0)),
		item("2026-12-01T10:00:00Z", "a", "k", "f", "free", tokens(500, 0, 0)),
		item("2026-12-01T10:00:00Z", "b", "k", "f", "free", tokens(500, 0, 0)))
	got := ""
	for _, l := range s.Lines {
		got += fmt.Sprintf("%s %d %s %s; ", l.TenantID, l.PromptTokens, Text(l.Cost), l.Currency)
	}
	if want := "a 1000500 1 EUR; a 1000000 0.15 USD; b 500 0 EUR; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(s.Total.Costs) != 2 || s.Total.PromptTokens != 2_001_000 {
		t.Errorf("total %+v", s.Total)
	}
}

func TestUsageWithoutAKnownPriceIsNotCalledFree(t *testing.T) {
	s := statement(t, Terms{By: []Dimension{ByTenant}}, item("2026-12-01T10:00:00Z", "a", "k", "d", "lost", tokens(7, 0, 0)))
	if len(s.Lines) != 1 || s.Lines[0].Currency != "" || s.Lines[0].PromptTokens != 7 || len(s.Total.Costs) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestModelsAreDeploymentsOfOneName(t *testing.T) {
	model := func(id string) string { return map[string]string{"old": "qwen", "new": "qwen", "x": "llama"}[id] }
	s := statement(t, Terms{By: []Dimension{ByModel}, Model: model},
		item("2026-12-01T10:00:00Z", "a", "k", "old", "p1", tokens(1, 0, 0)),
		item("2026-12-02T10:00:00Z", "a", "k", "new", "p2", tokens(2, 0, 0)),
		item("2026-12-02T10:00:00Z", "a", "k", "x", "p2", tokens(4, 0, 0)))
	if len(s.Lines) != 2 || s.Lines[1].Model != "qwen" || s.Lines[1].PromptTokens != 3 {
		t.Errorf("got %+v", s.Lines)
	}
}

// However usage is told apart, the lines add up to the same total, to the last digit.
func TestTotalIsTheSumOfTheLinesHoweverTheyAreGrouped(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	var items []Item
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for range 3000 {
		prompt := rnd.Int64N(100_000)
		items = append(items, Item{
			QuarterStart: start.Add(time.Duration(rnd.IntN(96*60)) * 15 * time.Minute),
			TenantID:     pick("a", "b", "c"), KeyID: pick("k1", "k2"), DeploymentID: pick("d1", "d2", "d3"), PriceID: pick("p1", "p2", "eur", "free"),
			Tokens: tokens(prompt, rnd.Int64N(prompt+1), rnd.Int64N(9000)), Estimated: rnd.Int64N(2), Aborted: rnd.Int64N(2),
		})
	}
	zone, err := time.LoadLocation("America/St_Johns") // 3:30 behind
	if err != nil {
		t.Fatal(err)
	}
	want := statement(t, Terms{}, items...).Total
	days := Compact(items, zone)
	if len(days) >= len(items) {
		t.Fatalf("%d items were compacted to %d", len(items), len(days))
	}
	for mask := range 1 << len(Dimensions) {
		var by []Dimension
		for i, d := range Dimensions {
			if mask&(1<<i) != 0 {
				by = append(by, d)
			}
		}
		terms := Terms{By: by, Zone: zone, Model: func(id string) string { return "m" + id }}
		s := statement(t, terms, items...)
		if compact := statement(t, terms, days...); fmt.Sprint(compact) != fmt.Sprint(s) {
			t.Fatalf("by %v: compacted usage makes another statement", by)
		}
		var amounts []Amount
		var sum factory.Tokens
		for _, l := range s.Lines {
			amounts = append(amounts, l.Amount)
			sum.Requests += l.Requests
			sum.PromptTokens += l.PromptTokens
			sum.CachedTokens += l.CachedTokens
			sum.CompletionTokens += l.CompletionTokens
		}
		if sum != want.Tokens || s.Total.Tokens != want.Tokens || !same(Sum(amounts...), want.Costs) || !same(s.Total.Costs, want.Costs) {
			t.Fatalf("by %v: lines add up to %+v %v, total says %+v, want %+v", by, sum, Sum(amounts...), s.Total, want)
		}
	}
}

func same(a, b []Amount) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Currency != b[i].Currency || Text(a[i].Cost) != Text(b[i].Cost) {
			return false
		}
	}
	return true
}
