package gateway

import (
	"net/http"
	"strconv"

	"tokenfactory/factory"
)

// whose names the owner of a limit to the client.
func whose(s factory.Scope) string {
	switch s {
	case factory.ScopeTenant:
		return "your tenant"
	case factory.ScopeDeployment:
		return "this model"
	}
	return "your API key"
}

// limitNames complete "The limit of … is 100 …".
var limitNames = map[factory.LimitKind]string{
	factory.LimitRequests:     "requests a minute",
	factory.LimitTokens:       "tokens a minute",
	factory.LimitInputTokens:  "input tokens a minute",
	factory.LimitOutputTokens: "output tokens a minute",
	factory.LimitConcurrency:  "requests at once",
}

// refusal is how the client hears of a limit.
func (g *Gateway) refusal(r *Refused) *problem {
	c := &r.Claim
	if c.Kind == factory.LimitBudget {
		return g.budgetRefusal(r)
	}
	p := &problem{status: http.StatusTooManyRequests, kind: typeRate, code: codeRate, scope: c.Scope, retryAfter: r.After}
	limit := "The limit of " + whose(c.Scope) + " is " + strconv.FormatInt(c.Limit, 10) + " " + limitNames[c.Kind]
	again := "Try again in " + strconv.Itoa(wholeSeconds(r.After)) + " s."
	switch {
	case c.Kind == factory.LimitConcurrency:
		p.message = limit + ", and so many are open. Try again when one has ended."
	case c.Kind == factory.LimitRequests:
		p.message = limit + ", and it is reached. " + again
	case r.After == 0:
		p.noRetry = true
		p.message = limit + ", and this request may take " + strconv.FormatInt(c.Amount, 10) +
			": it can never fit. Lower `max_tokens`, or ask for a higher limit."
	default:
		p.message = limit + ". This request needs room for " + strconv.FormatInt(c.Least, 10) + ", and " +
			strconv.FormatInt(r.Left, 10) + " are left. " + again
	}
	return p
}

var periodNames = map[factory.Period]string{factory.Day: "daily", factory.Week: "weekly", factory.Month: "monthly"}

// budgetRefusal never asks to wait for a new period: that takes longer than any
// client's patience, and those that retry would only call in vain. A deployment's
// amounts are not told, because others spend from them.
func (g *Gateway) budgetRefusal(r *Refused) *problem {
	c, m := &r.Claim, r.Claim.Money
	p := &problem{status: http.StatusTooManyRequests, kind: typeQuota, code: codeQuota, scope: c.Scope, retryAfter: r.After, noRetry: r.After == 0}
	budget := "The " + periodNames[m.Period] + " budget of " + whose(c.Scope)
	amounts := c.Scope != factory.ScopeDeployment
	if amounts {
		budget += " is " + m.Budget.String() + " " + m.Currency
	}
	resets := "It begins anew on " + r.Resets.In(g.BillingZone).Format("2006-01-02 15:04 MST") + "."
	switch {
	case r.After > 0:
		p.message = budget + ". Requests that are still open hold so much of it that this one may not fit. Try again when one has ended."
		if !amounts {
			p.message = "Requests that are still open hold t" + budget[1:] + ". Try again when one has ended."
		}
	case r.Spent.Less(m.Budget) && amounts:
		p.message = budget + ", and " + m.Budget.Sub(r.Spent).String() + " of it is left. This request may cost " +
			m.Least.String() + ". Ask for less at once, for instance with a lower `max_tokens`. " + resets
	case r.Spent.Less(m.Budget):
		p.message = budget + " has less left than this request may cost. Ask for less at once, for instance with a lower `max_tokens`. " + resets
	case amounts:
		p.message = budget + ", and it is used up. " + resets + " Until then only a higher budget helps."
	default:
		p.message = budget + " is used up. " + resets + " Until then only a higher budget helps."
	}
	return p
}

// wrongCurrency refuses what nobody can convert.
func wrongCurrency(c *Claim, priced string) *problem {
	return &problem{status: http.StatusTooManyRequests, kind: typeQuota, code: codeQuota, scope: c.Scope, noRetry: true,
		message: "The budget of " + whose(c.Scope) + " is in " + c.Money.Currency + " and this model is priced in " + priced +
			", so it cannot be paid from it. Ask an operator for a budget in " + priced + "."}
}
