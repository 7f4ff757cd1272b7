package billing

import (
	"strings"

	"github.com/shopspring/decimal"
)

// Text is an amount to the last digit, without trailing zeros: what APIs and
// exports say.
func Text(cost decimal.Decimal) string { return cost.String() }

var (
	one   = decimal.New(1, 0)
	cent  = decimal.New(1, -2)
	least = decimal.New(1, -6) // smaller amounts are only said to be smaller
)

// Format writes an amount for people: cents from one unit on, up to four decimals
// below it, and two significant digits below a cent, because a single request
// costs that little. What is not zero never reads as zero.
func Format(cost decimal.Decimal) string {
	size := cost.Abs()
	switch {
	case size.IsZero():
		return "0.00"
	case size.LessThan(least):
		if cost.IsNegative() {
			return "> −0.000001"
		}
		return "< 0.000001"
	case size.LessThan(cent):
		return significant(cost, size)
	case size.LessThan(one):
		return atLeastCents(cost.Round(4))
	}
	return grouped(cost.StringFixed(2))
}

// Fine writes the cost of a single request for people: always six decimals, so that
// a column of them lines up.
func Fine(cost decimal.Decimal) string {
	if !cost.IsZero() && cost.Abs().LessThan(least) {
		return Format(cost)
	}
	return grouped(cost.StringFixed(6))
}

// significant keeps two digits that are not leading zeros, and shows cents at least.
func significant(cost, size decimal.Decimal) string {
	// NumDigits counts the digits of the coefficient; the exponent moves the point.
	leading := -(int32(size.NumDigits()) + size.Exponent()) // zeros after the point
	return atLeastCents(cost.Round(leading + 2))
}

func atLeastCents(d decimal.Decimal) string {
	text := d.String()
	_, decimals, _ := strings.Cut(text, ".")
	if len(decimals) < 2 {
		text = d.StringFixed(2)
	}
	return minus(text)
}

// grouped separates thousands.
func grouped(text string) string {
	whole, decimals, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	var b strings.Builder
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	out := b.String() + "." + decimals
	if strings.HasPrefix(text, "-") {
		out = "-" + out
	}
	return minus(out)
}

// minus writes the sign as a sign and not as a hyphen.
func minus(text string) string {
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		return "−" + rest
	}
	return text
}
