package factory

import (
	"regexp"
	"strconv"
	"time"
)

// Price is one version of what a deployment's tokens cost, per 1,000,000 tokens,
// as decimal text. It is never changed: a new price is a new version from a
// moment on, and usage rows name the version that they were served under.
type Price struct {
	ID           string
	DeploymentID string
	Free         bool
	Currency     string
	Input        string
	CachedInput  string
	Output       string
	ValidFrom    time.Time
}

// defaultCurrency is that of prices and budgets that name none.
const defaultCurrency = "USD"

// Up to nine decimals: enough for any published price, and few enough that
// nobody pastes a float's tail into a price.
var (
	pricePattern    = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
)

func (s DeploymentSpec) validatePrices(errs FieldErrors) {
	if s.Currency != "" && !currencyPattern.MatchString(s.Currency) {
		errs.Add("currency", "Write a three-letter currency code such as USD.")
	}
	if s.Free {
		if s.InputPrice+s.CachedInputPrice+s.OutputPrice != "" {
			errs.Add("input_price", "Choose free or give prices, not both.")
		}
		return
	}
	for _, p := range []struct{ field, value, name string }{
		{"input_price", s.InputPrice, "input"}, {"output_price", s.OutputPrice, "output"},
	} {
		if p.value == "" {
			errs.Add(p.field, "Give the price of 1,000,000 "+p.name+" tokens, or choose free.")
		} else if !pricePattern.MatchString(p.value) {
			errs.Add(p.field, "Write a price such as 0.15, without a currency sign.")
		}
	}
	if s.CachedInputPrice != "" && !pricePattern.MatchString(s.CachedInputPrice) {
		errs.Add("cached_input_price", "Write a price such as 0.03, without a currency sign.")
	}
}

// Price is the price that a valid spec asks for; id and time are the caller's to set.
func (s DeploymentSpec) Price() Price {
	p := Price{Free: s.Free, Currency: s.Currency, Input: s.InputPrice, CachedInput: s.CachedInputPrice, Output: s.OutputPrice}
	if p.Currency == "" {
		p.Currency = defaultCurrency
	}
	if p.Free {
		p.Input, p.CachedInput, p.Output = "0", "0", "0"
	}
	if p.CachedInput == "" {
		p.CachedInput = p.Input
	}
	return p
}

// Same reports whether two versions say the same.
func (p Price) Same(q Price) bool {
	return p.Free == q.Free && p.Currency == q.Currency && p.Input == q.Input && p.CachedInput == q.CachedInput && p.Output == q.Output
}

func itoa(n int) string { return strconv.Itoa(n) }
