// Package limits is how limits look: the fields that set them, how far each is used,
// and what they kept out.
package limits

import (
	"regexp"
	"strconv"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// Form is limits as typed; forms of keys, tenants and deployments embed it. Field names
// are those of documents.
type Form struct {
	RequestsPerMinute     string `form:"requests_per_minute" query:"requests_per_minute"`
	TokensPerMinute       string `form:"tokens_per_minute" query:"tokens_per_minute"`
	InputTokensPerMinute  string `form:"input_tokens_per_minute" query:"input_tokens_per_minute"`
	OutputTokensPerMinute string `form:"output_tokens_per_minute" query:"output_tokens_per_minute"`
	ConcurrentRequests    string `form:"concurrent_requests" query:"concurrent_requests"`
	Budget                string `form:"budget" query:"budget"`
	BudgetCurrency        string `form:"budget_currency" query:"budget_currency"`
	BudgetPeriod          string `form:"budget_period" query:"budget_period"`
}

// FormOf fills the form from limits.
func FormOf(l factory.Limits) Form {
	return Form{
		RequestsPerMinute: optional(int64(l.RequestsPerMinute)), TokensPerMinute: optional(l.TokensPerMinute),
		InputTokensPerMinute: optional(l.InputTokensPerMinute), OutputTokensPerMinute: optional(l.OutputTokensPerMinute),
		ConcurrentRequests: optional(int64(l.ConcurrentRequests)),
		Budget:             l.Budget, BudgetCurrency: l.BudgetCurrency, BudgetPeriod: string(l.BudgetPeriod),
	}
}

func optional(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Limits reads what was typed; text that is no number is reported at its field. Without
// an amount there is no budget, whatever stands beside it.
func (f Form) Limits(errs factory.FieldErrors) factory.Limits {
	tokens := func(field, text string) int64 { return int64(errs.Whole(field, text, 0)) }
	l := factory.Limits{
		RequestsPerMinute:     errs.Whole("requests_per_minute", f.RequestsPerMinute, 0),
		TokensPerMinute:       tokens("tokens_per_minute", f.TokensPerMinute),
		InputTokensPerMinute:  tokens("input_tokens_per_minute", f.InputTokensPerMinute),
		OutputTokensPerMinute: tokens("output_tokens_per_minute", f.OutputTokensPerMinute),
		ConcurrentRequests:    errs.Whole("concurrent_requests", f.ConcurrentRequests, 0),
		Budget:                amount(f.Budget),
	}
	if l.Budget != "" {
		l.BudgetCurrency = strings.ToUpper(strings.TrimSpace(f.BudgetCurrency))
		l.BudgetPeriod = factory.Period(f.BudgetPeriod)
	}
	return l.WithDefaults()
}

// Amounts may come grouped as people paste them: 1,250.50.
var groupedAmount = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)

func amount(text string) string {
	text = strings.TrimSpace(text)
	if groupedAmount.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	return text
}

// Set reports whether anything is typed that limits.
func (f Form) Set() bool {
	for _, text := range []string{f.RequestsPerMinute, f.TokensPerMinute, f.InputTokensPerMinute, f.OutputTokensPerMinute, f.ConcurrentRequests, f.Budget} {
		if strings.TrimSpace(text) != "" {
			return true
		}
	}
	return false
}

func (f Form) currency() string {
	if f.BudgetCurrency == "" {
		return "USD"
	}
	return f.BudgetCurrency
}

func (f Form) period() string {
	if f.BudgetPeriod == "" {
		return string(factory.Month)
	}
	return f.BudgetPeriod
}

var periods = []ui.Option{
	{Value: string(factory.Day), Label: "day"},
	{Value: string(factory.Week), Label: "week"},
	{Value: string(factory.Month), Label: "month"},
}
