package billing

import (
	"time"

	"tokenfactory/factory"
)

// Compact adds the items of each day of a zone up, so that statements over a month
// do not price thousands of quarters one by one. Statements by that zone's days
// stay the same to the last digit: a price is applied to a sum of counts as to each
// of them. It needs what the ledger keeps: no more cached than prompt tokens.
func Compact(items []Item, zone *time.Location) []Item {
	type place struct {
		day                            int64
		tenant, key, deployment, price string
	}
	at := make(map[place]int)
	var out []Item
	var from, to time.Time // of the day that was looked up last: items mostly come in order
	for _, it := range items {
		if it.QuarterStart.Before(from) || !it.QuarterStart.Before(to) {
			from, to = DayOf(it.QuarterStart, zone), DayAfter(it.QuarterStart, zone)
		}
		p := place{from.Unix(), it.TenantID, it.KeyID, it.DeploymentID, it.PriceID}
		i, seen := at[p]
		if !seen {
			at[p] = len(out)
			it.QuarterStart = from
			out = append(out, it)
			continue
		}
		x := &out[i]
		x.Tokens = plus(x.Tokens, it.Tokens)
		x.Estimated += it.Estimated
		x.Aborted += it.Aborted
	}
	return out
}

func plus(a, b factory.Tokens) factory.Tokens {
	return factory.Tokens{
		Requests:         a.Requests + b.Requests,
		PromptTokens:     a.PromptTokens + b.PromptTokens,
		CachedTokens:     a.CachedTokens + b.CachedTokens,
		CompletionTokens: a.CompletionTokens + b.CompletionTokens,
	}
}
