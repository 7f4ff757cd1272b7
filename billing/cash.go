package billing

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/shopspring/decimal"

	"tokenfactory/factory"
)

// cashDigits is how many decimals an amount of cash has: those of a price, which
// has at most nine, and six for its being per million tokens.
const cashDigits = 15

// Cash is an exact amount of money, for places that rate every request while it
// waits: it takes no memory of its own. The zero value is nothing.
type Cash struct {
	hi int64
	lo uint64
}

// CashOf reads decimal text of up to 15 decimals, and up to 20 digits before them.
func CashOf(text string) (Cash, error) { return fixed(text, cashDigits) }

// fixed reads decimal text as a whole number of its last decimal.
func fixed(text string, decimals int) (Cash, error) {
	var c Cash
	digits, after := 0, -1
	for i := 0; i < len(text); i++ {
		switch d := text[i]; {
		case d == '.' && after < 0 && digits > 0:
			after = 0
			continue
		case d < '0' || d > '9':
			return Cash{}, fmt.Errorf("%q is no amount of money", text)
		default:
			c = c.shift().Add(Cash{lo: uint64(d - '0')})
			digits++
		}
		if after >= 0 {
			after++
		}
	}
	after = max(after, 0)
	if digits == 0 || digits-after > 20 || after > decimals {
		return Cash{}, fmt.Errorf("%q is no amount of money with up to 20 digits and %d decimals", text, decimals)
	}
	for ; after < decimals; after++ {
		c = c.shift()
	}
	return c, nil
}

// shift is ten times as much.
func (c Cash) shift() Cash {
	hi, lo := bits.Mul64(c.lo, 10)
	return Cash{c.hi*10 + int64(hi), lo}
}

// Add is the sum of two amounts.
func (c Cash) Add(d Cash) Cash {
	lo, carry := bits.Add64(c.lo, d.lo, 0)
	hi, _ := bits.Add64(uint64(c.hi), uint64(d.hi), carry)
	return Cash{int64(hi), lo}
}

// Sub is the difference, which may be below zero.
func (c Cash) Sub(d Cash) Cash {
	lo, borrow := bits.Sub64(c.lo, d.lo, 0)
	hi, _ := bits.Sub64(uint64(c.hi), uint64(d.hi), borrow)
	return Cash{int64(hi), lo}
}

// Less reports whether c is the smaller amount.
func (c Cash) Less(d Cash) bool { return c.hi < d.hi || c.hi == d.hi && c.lo < d.lo }

// IsZero reports whether it is nothing.
func (c Cash) IsZero() bool { return c == Cash{} }

// Positive reports whether it is more than nothing.
func (c Cash) Positive() bool { return c.hi > 0 || c.hi == 0 && c.lo > 0 }

// Part is how much c is of d, roughly.
func (c Cash) Part(d Cash) float64 { return c.float() / d.float() }

func (c Cash) float() float64 { return math.Ldexp(float64(c.hi), 64) + float64(c.lo) }

// Decimal is the same amount to reckon with.
func (c Cash) Decimal() decimal.Decimal {
	n := new(big.Int).Lsh(big.NewInt(c.hi), 64)
	return decimal.NewFromBigInt(n.Add(n, new(big.Int).SetUint64(c.lo)), -cashDigits)
}

// String is the amount to its last digit.
func (c Cash) String() string { return Text(c.Decimal()) }

// CashFrom is a decimal amount as cash; it fails when it has too many digits.
func CashFrom(d decimal.Decimal) (Cash, error) {
	n := d.Shift(cashDigits)
	b := n.BigInt()
	if !n.IsInteger() || b.BitLen() > 126 {
		return Cash{}, fmt.Errorf("%s is no amount of money with up to 20 digits and %d decimals", d, cashDigits)
	}
	lo := new(big.Int).And(b, new(big.Int).SetUint64(math.MaxUint64))
	return Cash{new(big.Int).Rsh(b, 64).Int64(), lo.Uint64()}, nil
}

// CashRates is a version of a price for rating in cash. It rates as Rates does.
type CashRates struct {
	Currency           string
	input, cached, out uint64 // of one token, in the last decimal of cash
}

// CashRatesOf reads a version of a price.
func CashRatesOf(p factory.Price) (CashRates, error) {
	r := CashRates{Currency: p.Currency}
	if p.Free {
		return r, nil
	}
	for _, part := range []struct {
		into *uint64
		text string
	}{{&r.input, p.Input}, {&r.cached, p.CachedInput}, {&r.out, p.Output}} {
		// Per million tokens with nine decimals, which is per token with fifteen.
		c, err := fixed(part.text, cashDigits-6)
		if err == nil && c.hi != 0 {
			err = fmt.Errorf("%s is too much", part.text)
		}
		if err != nil {
			return CashRates{}, fmt.Errorf("price %s of deployment %s: %w", p.ID, p.DeploymentID, err)
		}
		*part.into = c.lo
	}
	return r, nil
}

// Cost is what tokens cost.
func (r CashRates) Cost(t factory.Tokens) Cash {
	return times(r.input, max(0, t.PromptTokens-t.CachedTokens)).Add(times(r.cached, t.CachedTokens)).Add(times(r.out, t.CompletionTokens))
}

// Most is the most that tokens can cost, whatever part of the prompt is cached.
func (r CashRates) Most(prompt, output int64) Cash {
	return times(max(r.input, r.cached), prompt).Add(times(r.out, output))
}

// Affords is how many output tokens an amount pays for; false when they cost nothing.
func (r CashRates) Affords(c Cash) (int64, bool) {
	if r.out == 0 {
		return 0, false
	}
	if !c.Positive() {
		return 0, true
	}
	hi, lo := uint64(c.hi)/r.out, uint64(0)
	rest := uint64(c.hi) % r.out
	if lo, _ = bits.Div64(rest, c.lo, r.out); hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(lo), true
}

func times(rate uint64, n int64) Cash {
	hi, lo := bits.Mul64(rate, uint64(max(0, n)))
	return Cash{int64(hi), lo}
}
