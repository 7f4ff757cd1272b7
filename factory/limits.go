package factory

import (
	"regexp"
	"strings"
	"time"
)

// Limits bound what a key, a tenant or a deployment may use. Of several that hold
// for a request, the tightest wins. Zero or empty is no limit.
type Limits struct {
	RequestsPerMinute     int   `json:"requests_per_minute,omitempty"`
	TokensPerMinute       int64 `json:"tokens_per_minute,omitempty"` // input and output together
	InputTokensPerMinute  int64 `json:"input_tokens_per_minute,omitempty"`
	OutputTokensPerMinute int64 `json:"output_tokens_per_minute,omitempty"`
	ConcurrentRequests    int   `json:"concurrent_requests,omitempty"`

	// Budget is the money that may be spent in each period, as decimal text; "0" lets
	// nothing through that costs anything.
	Budget         string `json:"budget,omitempty"`
	BudgetCurrency string `json:"budget_currency,omitempty"` // default USD
	BudgetPeriod   Period `json:"budget_period,omitempty"`   // default month
}

// Period is how long a budget lasts before it begins anew. Periods are those of
// the calendar, in the billing zone: days begin at midnight, weeks on Monday,
// months on the first.
type Period string

const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Scope is what a limit belongs to.
type Scope string

const (
	ScopeKey        Scope = "key"
	ScopeTenant     Scope = "tenant"
	ScopeDeployment Scope = "deployment"
)

// LimitKind names one of the limits, as documents and the API spell it.
type LimitKind string

const (
	LimitRequests     LimitKind = "requests_per_minute"
	LimitTokens       LimitKind = "tokens_per_minute"
	LimitInputTokens  LimitKind = "input_tokens_per_minute"
	LimitOutputTokens LimitKind = "output_tokens_per_minute"
	LimitConcurrency  LimitKind = "concurrent_requests"
	LimitBudget       LimitKind = "budget"
)

// LimitUse is how one limit stands at this moment. Figures are decimal text, so
// that money and counts read the same.
type LimitUse struct {
	Kind     LimitKind  `json:"kind"`
	Limit    string     `json:"limit"`
	Used     string     `json:"used"` // counted for good
	Held     string     `json:"held"` // booked by requests that are still open
	Currency string     `json:"currency,omitempty"`
	ResetsAt *time.Time `json:"resets_at,omitempty"` // of budgets
	// Unknown says that nobody could be asked what was spent; requests are refused until
	// that is over.
	Unknown bool `json:"unknown,omitempty"`
}

// Refusals counts requests that one limit kept out, in one quarter of an hour.
type Refusals struct {
	QuarterStart time.Time
	TenantID     string
	KeyID        string
	DeploymentID string
	Scope        Scope     // whose limit it was
	Kind         LimitKind // which limit
	Count        int64
}

// Most per minute that a form takes: one typing mistake more than anybody needs.
const maxPerMinute = 1_000_000_000

var budgetPattern = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,9})?$`)

// Validate checks limits that stand alone.
func (l Limits) Validate() FieldErrors {
	errs := FieldErrors{}
	l.validate(errs)
	return errs
}

// validate adds what is wrong to errs, under the names that documents use.
func (l Limits) validate(errs FieldErrors) {
	checkRange(errs, "requests_per_minute", l.RequestsPerMinute, 0, 10_000_000)
	checkRange(errs, "tokens_per_minute", int(l.TokensPerMinute), 0, maxPerMinute)
	checkRange(errs, "input_tokens_per_minute", int(l.InputTokensPerMinute), 0, maxPerMinute)
	checkRange(errs, "output_tokens_per_minute", int(l.OutputTokensPerMinute), 0, maxPerMinute)
	checkRange(errs, "concurrent_requests", l.ConcurrentRequests, 0, 1_000_000)
	if l.Budget == "" {
		if l.BudgetCurrency != "" || l.BudgetPeriod != "" {
			errs.Add("budget", "Give an amount, or leave currency and period out.")
		}
		return
	}
	if !budgetPattern.MatchString(l.Budget) {
		errs.Add("budget", "Write an amount such as 250 or 99.50, without a currency sign.")
	}
	if l.BudgetCurrency != "" && !currencyPattern.MatchString(l.BudgetCurrency) {
		errs.Add("budget_currency", "Write a three-letter currency code such as USD.")
	}
	switch l.BudgetPeriod {
	case "", Day, Week, Month:
	default:
		errs.Add("budget_period", "Choose day, week or month.")
	}
}

// WithDefaults fills in what a budget leaves out, so that equal limits are equal
// values.
func (l Limits) WithDefaults() Limits {
	if l.Budget == "" {
		l.BudgetCurrency, l.BudgetPeriod = "", ""
		return l
	}
	if strings.Contains(l.Budget, ".") {
		l.Budget = strings.TrimRight(strings.TrimRight(l.Budget, "0"), ".")
	}
	if l.BudgetCurrency == "" {
		l.BudgetCurrency = defaultCurrency
	}
	if l.BudgetPeriod == "" {
		l.BudgetPeriod = Month
	}
	return l
}

// None reports whether nothing is limited.
func (l Limits) None() bool { return l == Limits{} }
