package billing

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/shopspring/decimal"

	"tokenfactory/factory"
)

// Cash is decimals by other means: every sum, comparison and cost is the same.
func TestCashIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	text := func(digits, decimals int) string {
		s := strconv.FormatInt(rng.Int64N(1+pow(rng.IntN(digits+1))), 10)
		if n := rng.IntN(decimals + 1); n > 0 {
			s += "."
			for range n {
				s += strconv.Itoa(rng.IntN(10))
			}
		}
		return s
	}
	for range 5_000 {
		a, b := text(12, 15), text(12, 15)
		x, err := CashOf(a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := CashOf(b)
		if err != nil {
			t.Fatal(err)
		}
		p, q := decimal.RequireFromString(a), decimal.RequireFromString(b)
		if !x.Decimal().Equal(p) || x.String() != Text(p) {
			t.Fatalf("%s reads as %s", a, x)
		}
		if got := x.Add(y).Decimal(); !got.Equal(p.Add(q)) {
			t.Fatalf("%s + %s = %s", a, b, got)
		}
		diff := x.Sub(y)
		if got := diff.Decimal(); !got.Equal(p.Sub(q)) || diff.Positive() != p.Sub(q).IsPositive() || diff.IsZero() != p.Equal(q) {
			t.Fatalf("%s − %s = %s", a, b, got)
		}
		if x.Less(y) != p.LessThan(q) {
			t.Fatalf("%s < %s: %v", a, b, x.Less(y))
		}
		if back, err := CashFrom(p.Sub(q)); err != nil || back != diff {
			t.Fatalf("%s: %v %v", p.Sub(q), back, err)
		}
	}
}

func TestCashRatesAreThoseOfThePrice(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for _, p := range []factory.Price{
		{Currency: "USD", Input: "0.15", CachedInput: "0.03", Output: "0.60"},
		{Currency: "EUR", Input: "999999999.999999999", CachedInput: "0", Output: "0.000000001"},
		{Currency: "USD", Input: "1", CachedInput: "2.5", Output: "0"},
		{Currency: "USD", Free: true},
	} {
		slow, err := RatesOf(p)
		if err != nil {
			t.Fatal(err)
		}
		fast, err := CashRatesOf(p)
		if err != nil || fast.Currency != p.Currency {
			t.Fatal(fast, err)
		}
		for range 2000 {
			tokens := factory.Tokens{PromptTokens: rng.Int64N(pow(rng.IntN(12))), CompletionTokens: rng.Int64N(pow(rng.IntN(12)))}
			tokens.CachedTokens = rng.Int64N(tokens.PromptTokens + 5)
			cost := fast.Cost(tokens)
			if want := slow.Cost(tokens); !cost.Decimal().Equal(want) {
				t.Fatalf("%+v at %+v costs %s, want %s", tokens, p, cost, want)
			}
			most := fast.Most(max(tokens.PromptTokens, tokens.CachedTokens), tokens.CompletionTokens)
			if most.Less(cost) {
				t.Fatalf("%+v at %+v costs %s, at most %s", tokens, p, cost, most)
			}
			n, limited := fast.Affords(cost)
			if !limited {
				continue
			}
			if fast.Cost(factory.Tokens{CompletionTokens: n}).Sub(cost).Positive() || !cost.Less(fast.Cost(factory.Tokens{CompletionTokens: n + 1})) && n < 1<<62 {
				t.Fatalf("%s at %+v pays for %d", cost, p, n)
			}
		}
	}
}

func TestCashRefusesWhatItCannotHold(t *testing.T) {
	for _, text := range []string{"", ".", ".5", "1.", "-1", "1e3", "1,5", "a", "1.0.0", "0.0000000000000001", "123456789012345678901"} {
		if c, err := CashOf(text); err == nil && text != "1." {
			t.Errorf("%q reads as %s", text, c)
		}
	}
	for _, p := range []factory.Price{{}, {Input: "1", Output: "x", CachedInput: "1"}, {Input: "0.0000000001", CachedInput: "1", Output: "1"}} {
		if _, err := CashRatesOf(p); err == nil {
			t.Errorf("%+v is a price", p)
		}
	}
	if _, err := CashFrom(decimal.New(1, -16)); err == nil {
		t.Error("a sixteenth decimal got lost")
	}
	if _, err := CashFrom(decimal.New(1, 30)); err == nil {
		t.Error("too much")
	}
}

func pow(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}
