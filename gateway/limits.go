package gateway

import (
	"context"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// Limits keeps requests within the limits of keys, tenants and deployments. What a
// request may come to is booked before it is served, and what it came to is known
// when it ends. The implementation here counts in the memory of one process; one
// that several gateways share has to make Reserve a single atomic step as well.
type Limits interface {
	// Reserve books all claims or none: a refusal by one limit leaves nothing booked
	// with the others. The refusal is in the standing. An error means that nobody knows
	// how a limit stands; the gateway then refuses. The id is used for one reservation.
	Reserve(ctx context.Context, id string, now time.Time, claims []Claim) (Standing, error)
	// Settle replaces what was booked by what was used. It is called for every request
	// that is in the ledger, once, with an empty id when nothing was booked: its cost still
	// counts in budgets that are being watched.
	Settle(id string, now time.Time, used *Used) Standing
	// Release gives back everything that is booked under an id, as if the request had
	// never come. An unknown id is none.
	Release(id string, now time.Time)
	// Use tells how limits stand that belong to one key, tenant or deployment.
	Use(ctx context.Context, now time.Time, claims []Claim) []factory.LimitUse
}

// Claim is what a request asks of one limit.
type Claim struct {
	Scope factory.Scope
	ID    string // of the key, tenant or deployment
	Kind  factory.LimitKind
	Limit int64
	// Amount is booked. When less is left than Amount, but not less than Least, what is
	// left is booked instead.
	Amount, Least int64
	// Money is set for budgets, instead of the three above.
	Money *Money

	// What the limits in memory have found for it.
	window *slidingWindow
	lane   *lane
}

// Money is what a request asks of a budget.
type Money struct {
	Currency string
	Budget   billing.Cash
	// Cost is held; Least is to Cost as it is to Amount in a Claim.
	Cost, Least billing.Cash
	// Period is that of the budget. It is the one in which the request began that pays.
	Period factory.Period
	Began  time.Time // wall clock

	account *account // as found in memory
}

// Used is what a request came to, as its row in the ledger says.
type Used struct {
	KeyID, TenantID, DeploymentID string
	Began                         time.Time // wall clock
	Tokens                        factory.Tokens
	Rates                         *billing.CashRates // nil: costs nothing
	at                            place
}

// Standing is how the limits of one request stand once it is booked or settled.
type Standing struct {
	// Requests and Tokens are the tightest limits of their kinds; without a scope there
	// is none.
	Requests, Tokens Quota
	// Scope is whose limit has the smallest part of it left.
	Scope factory.Scope
	// Held is what was booked of each budget.
	Held billing.Cash
	// Refused is set when the request may not pass.
	Refused *Refused
}

// Quota is one limit within a standing.
type Quota struct {
	Scope            factory.Scope
	Limit, Remaining int64
	Reset            time.Duration // until nothing is booked any more
}

// Refused says which limit kept a request out.
type Refused struct {
	Claim Claim
	// After is how long to wait until the request fits, if nobody else comes in between;
	// zero when waiting does not help.
	After time.Duration
	// Left is what a window has free.
	Left int64
	// Spent is what a budget has paid for, in this period, which ends at Resets.
	Spent  billing.Cash
	Resets time.Time
}

// worse reports whether a refusal outweighs another: waiting is no help, or takes
// longer.
func (r *Refused) worse(than *Refused) bool {
	switch {
	case than == nil:
		return true
	case than.After == 0 || r.After == 0:
		return than.After != 0
	}
	return r.After > than.After
}

// countOf is what a limit counts of usage.
func countOf(kind factory.LimitKind, t factory.Tokens) int64 {
	switch kind {
	case factory.LimitTokens:
		return t.PromptTokens + t.CompletionTokens
	case factory.LimitInputTokens:
		return t.PromptTokens
	case factory.LimitOutputTokens:
		return t.CompletionTokens
	}
	return t.Requests
}
