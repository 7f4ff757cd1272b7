// Package billing turns token counts into money. Everything is exact decimal
// arithmetic: nothing is rounded before it is shown, so that any two ways of adding
// the same requests up give the same text.
package billing

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shopspring/decimal"

	"tokenfactory/factory"
)

// Rates is a version of a price, read once to be applied often.
type Rates struct {
	Currency           string
	Free               bool
	input, cached, out decimal.Decimal // per 1,000,000 tokens
}

// RatesOf reads a version of a price.
func RatesOf(p factory.Price) (Rates, error) {
	r := Rates{Currency: p.Currency, Free: p.Free}
	if p.Free {
		return r, nil
	}
	for _, part := range []struct {
		into *decimal.Decimal
		text string
	}{{&r.input, p.Input}, {&r.cached, p.CachedInput}, {&r.out, p.Output}} {
		d, err := decimal.NewFromString(part.text)
		if err != nil {
			return Rates{}, fmt.Errorf("price %s of deployment %s: %w", p.ID, p.DeploymentID, err)
		}
		*part.into = d
	}
	return r, nil
}

// Cost is what tokens cost. Cached tokens are part of the prompt and are priced
// once; more cached tokens than the prompt has leave nothing for the full rate.
func (r Rates) Cost(t factory.Tokens) decimal.Decimal {
	uncached := max(0, t.PromptTokens-t.CachedTokens)
	return r.input.Mul(decimal.NewFromInt(uncached)).
		Add(r.cached.Mul(decimal.NewFromInt(t.CachedTokens))).
		Add(r.out.Mul(decimal.NewFromInt(t.CompletionTokens))).
		Shift(-6)
}

// Rate is what tokens cost under one version of a price, in its currency.
func Rate(p factory.Price, t factory.Tokens) (decimal.Decimal, error) {
	r, err := RatesOf(p)
	if err != nil {
		return decimal.Zero, err
	}
	return r.Cost(t), nil
}

// Amount is money in one currency.
type Amount struct {
	Currency string
	Cost     decimal.Decimal
}

// Sum adds amounts up, each currency for itself: they are never added together.
func Sum(amounts ...Amount) []Amount {
	of := map[string]decimal.Decimal{}
	for _, a := range amounts {
		of[a.Currency] = of[a.Currency].Add(a.Cost)
	}
	out := make([]Amount, 0, len(of))
	for _, currency := range slices.Sorted(maps.Keys(of)) {
		out = append(out, Amount{currency, of[currency]})
	}
	return out
}
