package metrics

import (
	"math"

	"github.com/shopspring/decimal"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/views/charts"
)

// cost is what a million tokens cost on average, input and output together.
func (m Measured) cost(d factory.Deployment) (Chart, error) {
	c := Chart{
		Name: "cost", Title: "Cost", Long: "Cost per million tokens, input and output together", Window: m.Window,
		Tell: "The mix of input, cached and output tokens at the price in force now. What was billed is on the usage page.",
		Do:   "Long prompts that repeat get cheaper with prefix caching; long answers with a lower max_tokens.",
		Plot: charts.Plot{Digits: 6},
	}
	switch {
	case d.Price == nil:
		c.Absent = "No price is known."
		return c, nil
	case d.Price.Free:
		c.Absent = "This deployment is free."
		return c, nil
	case !m.any(metrics.InputTokens, metrics.OutputTokens):
		c.Absent = noTraffic
		return c, nil
	}
	rates, err := billing.RatesOf(*d.Price)
	if err != nil {
		return c, err
	}
	c.Unit = rates.Currency
	used := tokensOf(m.summary(metrics.InputTokens).Sum, m.summary(metrics.CachedTokens).Sum, m.summary(metrics.OutputTokens).Sum)
	if per, ok := perMillion(rates, used); ok {
		c.Facts = []reading{{"per million tokens", billing.Format(per), rates.Currency}, {"in this range", billing.Format(rates.Cost(used)), rates.Currency}}
	}
	in, cached, out := m.sums(metrics.InputTokens, metrics.Requests), m.sums(metrics.CachedTokens, metrics.Requests), m.sums(metrics.OutputTokens, metrics.Requests)
	values := make([]*float64, len(in))
	for i := range in {
		if in[i] == nil || cached[i] == nil || out[i] == nil {
			continue
		}
		if per, ok := perMillion(rates, tokensOf(*in[i], *cached[i], *out[i])); ok {
			v := per.InexactFloat64()
			values[i] = &v
		}
	}
	c.Lines = []charts.Line{{Name: "Per million tokens", Color: "--chart-1", Values: values}}
	return c, nil
}

func tokensOf(in, cached, out float64) factory.Tokens {
	return factory.Tokens{PromptTokens: int64(math.Round(in)), CachedTokens: int64(math.Round(cached)), CompletionTokens: int64(math.Round(out))}
}

// costDigits are kept of a quotient: more than any price has.
const costDigits = 12

// perMillion is the average cost of a million of these tokens; of none there is no average.
func perMillion(rates billing.Rates, t factory.Tokens) (decimal.Decimal, bool) {
	n := t.PromptTokens + t.CompletionTokens
	if n <= 0 {
		return decimal.Zero, false
	}
	return rates.Cost(t).Shift(6).DivRound(decimal.NewFromInt(n), costDigits), true
}
