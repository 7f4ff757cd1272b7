package handlers_test

import (
	"strings"
	"testing"
	"time"

	"tokenfactory/metrics"
)

// judgedBefore measures requests that were judged some time ago.
func (s *site) judgedBefore(ago time.Duration, good, bad int) {
	s.t.Helper()
	s.measure(func(r *metrics.Recorder) {
		at := s.now.Add(-ago)
		r.Observe(at, "d-acme", "r1", metrics.E2E, 100, good+bad)
		r.Observe(at, "d-acme", "r1", metrics.Good, 1, good)
		if bad > 0 {
			r.Observe(at, "d-acme", "r2", metrics.Bad, 1, bad)
		}
	})
}

func TestBudgetOfTheWindowRestsOnThirtyDays(t *testing.T) {
	s := newSite(t)
	s.now = s.now.Add(17*time.Minute + 40*time.Second)
	s.judgedBefore(31*24*time.Hour, 0, 5000)
	s.judgedBefore(20*24*time.Hour, 9900, 0)
	s.judgedBefore(62*time.Minute, 50, 0) // just before the window
	s.judgedBefore(20*time.Minute, 0, 50)
	got, _ := s.verdictOf("", "")
	left := got.Budget.Left
	first, last := left[0], left[len(left)-1]
	if !is(first, 1) || !is(last, 1-50.0/10000/0.05) || got.Budget.Share != 0.95 {
		t.Errorf("from %v to %v", *first, *last)
	}
	hour := got.Budget.Windows[0]
	if hour.Factor != 14.4 || !is(hour.LongBurn, 20) || hour.ShortBurn != nil || hour.TooFast {
		t.Errorf("%+v: nothing was judged in the last five minutes", hour)
	}
	chart := s.seen("/deployments/d-acme/metrics").Find(`[data-figure-of="budget"]`)
	if text := words(chart.Text()); !strings.Contains(text, "left 90 %") || !strings.Contains(text, "1h and 5m 14.4 × 20.0 × no data") || strings.Contains(text, "Targets count since") {
		t.Error(text)
	}
	if href, _ := chart.Find(".metrics-burns a").Attr("href"); href != "/objectives" {
		t.Errorf("%q", href)
	}
}

func TestBudgetOfNobodyIsUnknown(t *testing.T) {
	s := newSite(t)
	s.judgedBefore(31*24*time.Hour, 500, 0)
	got, _ := s.verdictOf("", "?from="+s.now.Add(-15*time.Minute).Format(time.RFC3339))
	for _, v := range got.Budget.Left {
		if v != nil {
			t.Fatalf("%v is left of what nobody used", *v)
		}
	}
}

func TestAChangeOfTargetsIsSaidBesideTheBudget(t *testing.T) {
	s := newSite(t)
	s.judgedBefore(20*time.Minute, 100, 0)
	d, err := s.store.Deployment(t.Context(), "d-acme")
	s.must(err)
	d.TargetsAt, d.UpdatedAt = s.now.Add(time.Minute), s.now.Add(time.Minute)
	s.must(s.store.SaveDeployment(t.Context(), d))
	s.now = s.now.Add(2 * time.Minute)
	if page := words(s.signIn("olga@factory.example").page("/deployments/d-acme/metrics")); !strings.Contains(page, "Targets count since") {
		t.Error("the page does not say that targets changed")
	}
}
