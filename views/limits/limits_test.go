package limits

import (
	"testing"
	"time"

	"tokenfactory/factory"
)

func TestAFormKeepsWhatItWasFilledWith(t *testing.T) {
	for _, l := range []factory.Limits{
		{},
		{RequestsPerMinute: 1},
		{Budget: "0", BudgetCurrency: "USD", BudgetPeriod: factory.Month},
		{RequestsPerMinute: 60, TokensPerMinute: 5_000_000_000, InputTokensPerMinute: 3, OutputTokensPerMinute: 4, ConcurrentRequests: 5, Budget: "99.5", BudgetCurrency: "EUR", BudgetPeriod: factory.Day},
	} {
		errs := factory.FieldErrors{}
		if got := FormOf(l).Limits(errs); got != l || len(errs) > 0 {
			t.Errorf("%+v came back as %+v with %v", l, got, errs)
		}
		if FormOf(l).Set() == l.None() {
			t.Errorf("%+v: set is %v", l, FormOf(l).Set())
		}
	}
}

func TestWithoutAnAmountThereIsNoBudget(t *testing.T) {
	errs := factory.FieldErrors{}
	l := Form{Budget: " ", BudgetCurrency: "USD", BudgetPeriod: "day"}.Limits(errs)
	if !l.None() || len(errs) > 0 {
		t.Errorf("%+v %v", l, errs)
	}
}

func TestTheTightestLimitIsTheOneToLookAt(t *testing.T) {
	limits := factory.Limits{RequestsPerMinute: 100, TokensPerMinute: 1000, Budget: "10", BudgetCurrency: "USD", BudgetPeriod: factory.Day}
	use := func(budget, requests, tokens string, unknown bool) []factory.LimitUse {
		return []factory.LimitUse{
			{Kind: factory.LimitBudget, Limit: "10", Used: budget, Held: "0", Unknown: unknown},
			{Kind: factory.LimitRequests, Limit: "100", Used: requests, Held: "0"},
			{Kind: factory.LimitTokens, Limit: "1000", Used: "0", Held: tokens},
		}
	}
	for _, c := range []struct {
		use  []factory.LimitUse
		want factory.LimitKind
	}{
		{use("1", "50", "200", false), factory.LimitRequests},
		{use("1", "50", "700", false), factory.LimitTokens},
		{use("9.5", "50", "700", false), factory.LimitBudget},
		{use("", "99", "999", true), factory.LimitBudget}, // unknown spend refuses everything
	} {
		m, ok := Holder{Limits: limits, Use: c.use}.Tightest()
		if !ok || m.Kind != c.want {
			t.Errorf("%+v: %s, want %s", c.use, m.Kind, c.want)
		}
	}
	if _, ok := (Holder{}).Tightest(); ok {
		t.Error("no limits have a tightest")
	}
	if m, ok := (Holder{Limits: limits}).Tightest(); !ok || m.Known {
		t.Errorf("limits of unknown use: %+v %v", m, ok)
	}
}

// A bar is never longer than its box, and a limit of nothing is used up.
func TestSharesStayOnTheBar(t *testing.T) {
	for _, c := range []struct {
		limit, used, held string
		want              float64
	}{
		{"100", "25", "25", 0.5}, {"100", "90", "90", 1}, {"0", "0", "0", 1}, {"0.000001", "0.0000005", "0", 0.5}, {"100", "-5", "0", 0}, {"", "1", "1", 1},
	} {
		m := Meter{LimitUse: factory.LimitUse{Kind: factory.LimitBudget, Limit: c.limit, Used: c.used, Held: c.held}}
		if got := m.Share(); got != c.want {
			t.Errorf("%s + %s of %s is %v, want %v", c.used, c.held, c.limit, got, c.want)
		}
	}
}

func TestRefusalsAreSummedByLimit(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 7, 0, 0, time.UTC)
	row := func(ago time.Duration, scope factory.Scope, kind factory.LimitKind, key string, n int64) factory.Refusals {
		return factory.Refusals{QuarterStart: now.Add(-ago).Truncate(quarter), KeyID: key, Scope: scope, Kind: kind, Count: n}
	}
	rows := []factory.Refusals{
		row(0, factory.ScopeKey, factory.LimitRequests, "a", 1), row(23*time.Hour, factory.ScopeKey, factory.LimitRequests, "a", 2),
		row(6*24*time.Hour, factory.ScopeKey, factory.LimitRequests, "a", 4), row(29*24*time.Hour, factory.ScopeKey, factory.LimitRequests, "a", 8),
		row(31*24*time.Hour, factory.ScopeKey, factory.LimitRequests, "a", 16),
		row(time.Hour, factory.ScopeTenant, factory.LimitRequests, "a", 32), row(2*time.Hour, factory.ScopeKey, factory.LimitBudget, "b", 64),
	}
	got := RefusedOf(rows, now, func(r factory.Refusals) string { return r.KeyID })
	want := []Refused{
		{Scope: factory.ScopeKey, Kind: factory.LimitRequests, Name: "a", Day: 3, Week: 7, Month: 15, Last: now.Truncate(quarter)},
		{Scope: factory.ScopeTenant, Kind: factory.LimitRequests, Name: "a", Day: 32, Week: 32, Month: 32, Last: now.Add(-time.Hour).Truncate(quarter)},
		{Scope: factory.ScopeKey, Kind: factory.LimitBudget, Name: "b", Day: 64, Week: 64, Month: 64, Last: now.Add(-2 * time.Hour).Truncate(quarter)},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
