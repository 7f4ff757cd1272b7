package billing

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/shopspring/decimal"

	"tokenfactory/factory"
)

// p1 is the price of the reports from the field.
var p1 = factory.Price{ID: "p1", Currency: "USD", Input: "0.15", CachedInput: "0.03", Output: "0.60"}

func tokens(prompt, cached, completion int64) factory.Tokens {
	return factory.Tokens{Requests: 1, PromptTokens: prompt, CachedTokens: cached, CompletionTokens: completion}
}

func rate(t testing.TB, p factory.Price, use factory.Tokens) decimal.Decimal {
	t.Helper()
	cost, err := Rate(p, use)
	if err != nil {
		t.Fatal(err)
	}
	return cost
}

func TestMB04CachedTokensAreChargedOnce(t *testing.T) {
	for _, c := range []struct {
		use  factory.Tokens
		want string
	}{
		{tokens(20000, 16000, 900), "0.00162"},
		{tokens(5, 10, 0), "0.0000003"}, // a faulty answer: nothing uncached is left, and nothing is negative
		{tokens(12, 0, 5), "0.0000048"},
		{tokens(100, 0, 20), "0.000027"},
		{tokens(0, 0, 0), "0"},
	} {
		if got := Text(rate(t, p1, c.use)); got != c.want {
			t.Errorf("%+v costs %s, want %s", c.use, got, c.want)
		}
	}
}

func TestMB05MoneyIsNeverAFloat(t *testing.T) {
	rates, err := RatesOf(p1)
	if err != nil {
		t.Fatal(err)
	}
	sum := decimal.Zero
	for range 1_000_000 {
		sum = sum.Add(rates.Cost(tokens(1, 0, 0)))
	}
	if got := Text(sum); got != "0.15" {
		t.Errorf("a million requests of one token cost %s, want 0.15", got)
	}
	tenth := Amount{"USD", rate(t, factory.Price{Currency: "USD", Input: "0.1", CachedInput: "0", Output: "0"}, tokens(1_000_000, 0, 0))}
	if got := Sum(tenth, tenth, tenth); len(got) != 1 || Text(got[0].Cost) != "0.3" {
		t.Errorf("three times 0.1 is %v, want 0.3", got)
	}
}

// The cost equals what a fraction of whole numbers gives, for any counts and prices.
func TestCostIsExactForAnyCounts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		// Prices of up to nine decimals, as whole billionths.
		in, cached, out := rnd.Int64N(1e15), rnd.Int64N(1e15), rnd.Int64N(1e15)
		p := factory.Price{Input: decimal.New(in, -9).String(), CachedInput: decimal.New(cached, -9).String(), Output: decimal.New(out, -9).String()}
		prompt := rnd.Int64N(1e9)
		use := tokens(prompt, rnd.Int64N(prompt+1), rnd.Int64N(1e9))
		want := new(big.Int)
		for _, x := range [][2]int64{{in, use.PromptTokens - use.CachedTokens}, {cached, use.CachedTokens}, {out, use.CompletionTokens}} {
			want.Add(want, new(big.Int).Mul(big.NewInt(x[0]), big.NewInt(x[1])))
		}
		got := rate(t, p, use)
		if exact := decimal.NewFromBigInt(want, -15); !got.Equal(exact) {
			t.Fatalf("%+v at %+v: %s, want %s", use, p, got, exact)
		}
	}
}

func TestFreeCostsNothingAndAnUnreadablePriceIsAnError(t *testing.T) {
	free := factory.Price{Free: true, Currency: "USD", Input: "0", CachedInput: "0", Output: "0"}
	if got := rate(t, free, tokens(1e9, 0, 1e9)); !got.IsZero() {
		t.Errorf("free costs %s", got)
	}
	for _, bad := range []string{"", "cheap", "0,15", "NaN"} {
		if _, err := Rate(factory.Price{Input: bad, CachedInput: "0", Output: "0"}, tokens(1, 0, 0)); err == nil {
			t.Errorf("price %q was taken", bad)
		}
	}
}

func TestCurrenciesAreNeverAdded(t *testing.T) {
	usd, eur := decimal.RequireFromString("1.5"), decimal.RequireFromString("2.25")
	got := Sum(Amount{"USD", usd}, Amount{"EUR", eur}, Amount{"USD", usd})
	if len(got) != 2 || got[0].Currency != "EUR" || Text(got[0].Cost) != "2.25" || got[1].Currency != "USD" || Text(got[1].Cost) != "3" {
		t.Errorf("got %v", got)
	}
}

func TestAmountsReadWell(t *testing.T) {
	for text, want := range map[string]string{
		"0":                "0.00",
		"0.15":             "0.15",
		"0.3":              "0.30",
		"0.1234":           "0.1234",
		"0.12345":          "0.1235",
		"0.99999":          "1.00",
		"0.00162":          "0.0016",
		"0.0000048":        "0.0000048",
		"0.0099999":        "0.01",
		"0.005":            "0.005",
		"0.000001":         "0.000001",
		"0.00000099":       "< 0.000001",
		"1":                "1.00",
		"999.999":          "1,000.00",
		"1234567.891":      "1,234,567.89",
		"-0.00162":         "−0.0016",
		"-1234.5":          "−1,234.50",
		"-0.0000001":       "> −0.000001",
		"12.0000000000001": "12.00",
	} {
		if got := Format(decimal.RequireFromString(text)); got != want {
			t.Errorf("%s reads %q, want %q", text, got, want)
		}
	}
}

func TestCostsOfRequestsLineUp(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0.000000", "0.00162": "0.001620", "0.0000048": "0.000005", "0.0000001": "< 0.000001", "1234.5": "1,234.500000", "-0.5": "−0.500000",
	} {
		if got := Fine(decimal.RequireFromString(text)); got != want {
			t.Errorf("%s reads %q, want %q", text, got, want)
		}
	}
}

// Rounding for the eye never turns money into none.
func TestNothingPaidReadsAsZero(t *testing.T) {
	for exponent := int32(-15); exponent <= 3; exponent++ {
		for digit := int64(1); digit < 100; digit++ {
			d := decimal.New(digit, exponent)
			if text := Format(d); text == "0.00" || text == "0" {
				t.Errorf("%s reads %q", d, text)
			}
		}
	}
}
