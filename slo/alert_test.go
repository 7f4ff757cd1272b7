package slo

import (
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// story steps an alert through looks, each so long after the one before, and collects
// what was told.
type story struct {
	now    time.Time
	open   *factory.Alert
	told   []factory.Change
	firing time.Time
}

func (s *story) look(after time.Duration, f Finding) {
	s.now = s.now.Add(after)
	next, changes := Step(s.open, Condition{Subject: "x", Rule: factory.RuleBurn, Severity: factory.Page, Title: "X.", Finding: f}, s.now)
	s.told = append(s.told, changes...)
	if len(changes) > 0 && changes[0] == factory.ChangeFiring {
		s.firing = s.now
	}
	if s.open = next; next != nil && next.State == factory.AlertResolved {
		s.open = nil
	}
}

func (s *story) saw(t *testing.T, want ...factory.Change) {
	t.Helper()
	if len(s.told) != len(want) {
		t.Fatalf("told %v, want %v", s.told, want)
	}
	for i := range want {
		if s.told[i] != want[i] {
			t.Fatalf("told %v, want %v", s.told, want)
		}
	}
}

const look = 30 * time.Second

func TestDA06ValueAroundItsLimitDoesNotFlap(t *testing.T) {
	s := &story{now: start}
	burn := func(v float64) {
		s.look(look, BurnState{
			Window: Windows[0], Long: &v, Short: &v, Counts: Counts{Bad: 1000},
			Firing: v > Windows[0].Factor,
		}.Finding())
	}
	for i := range 40 {
		burn([]float64{15, 13}[i%2])
	}
	s.saw(t, factory.ChangeFiring)
	for range 4 {
		burn(1)
	}
	s.look(look, Unknown)
	s.saw(t, factory.ChangeFiring)
	for range 40 {
		burn(1)
	}
	s.saw(t, factory.ChangeFiring, factory.ChangeResolved)
}

func TestDA06MissedScrapeDoesNotResolve(t *testing.T) {
	s := &story{now: start}
	for range 6 {
		s.look(look, Wrong)
	}
	for range 60 {
		s.look(look, Unknown)
	}
	s.saw(t, factory.ChangeFiring)
	if s.open == nil || s.open.State != factory.AlertFiring {
		t.Fatalf("after half an hour without a scrape: %+v", s.open)
	}
}

func TestAlertWaitsBeforeItFiresAndBeforeItIsResolved(t *testing.T) {
	s := &story{now: start}
	for range 4 {
		s.look(look, Wrong) // at 0:30, 1:00, 1:30, 2:00
	}
	s.saw(t)
	s.look(look, Wrong)
	s.saw(t, factory.ChangeFiring)
	for range 10 { // the first of them begins the five minutes
		s.look(look, Right)
	}
	s.saw(t, factory.ChangeFiring)
	s.look(look, Right)
	s.saw(t, factory.ChangeFiring, factory.ChangeResolved)
}

func TestShortMishapIsForgottenQuietly(t *testing.T) {
	s := &story{now: start}
	s.look(look, Wrong)
	for range 3 {
		s.look(look, Right)
	}
	if s.open != nil {
		t.Fatalf("still open: %+v", s.open)
	}
	s.look(look, Wrong)
	s.look(look, Wrong)
	s.saw(t)
}

func TestTimeThatNobodySawDoesNotCount(t *testing.T) {
	pending := &story{now: start}
	pending.look(look, Wrong)
	pending.look(3*time.Hour, Wrong)
	pending.saw(t) // two looks are no two minutes
	firing := &story{now: start}
	for range 5 {
		firing.look(look, Wrong)
	}
	firing.look(look, Right)
	firing.look(3*time.Hour, Right)
	firing.saw(t, factory.ChangeFiring)
	if !firing.open.FiringAt.Equal(firing.firing) {
		t.Errorf("it fired at %v and says %v", firing.firing, firing.open.FiringAt)
	}
	for range 10 {
		firing.look(look, Right)
	}
	firing.saw(t, factory.ChangeFiring, factory.ChangeResolved)
}

func TestEM07AlertBeyondTheLastBucketIsUnknown(t *testing.T) {
	tail := metrics.Histogram{Bounds: []float64{30_000, 60_000}, Counts: []float64{80, 90}, Count: 100}
	p99 := tail.Quantile(0.99)
	if got := Exceeds(p99, 90_000); got != Unknown {
		t.Fatalf("p99 over 90 s: %v, want unknown", got)
	}
	s := &story{now: start}
	for range 20 {
		s.look(look, Exceeds(p99, 90_000))
	}
	s.saw(t)
	for _, c := range []struct {
		q, bound float64
		want     Finding
	}{{0.99, 60_000, Wrong}, {0.99, 59_000, Wrong}, {0.5, 90_000, Right}, {0.85, 31_000, Wrong}, {0.5, 30_000, Right}, {0.5, 10_000, Unknown}} {
		if got := Exceeds(tail.Quantile(c.q), c.bound); got != c.want {
			t.Errorf("quantile %v over %v ms: %v, want %v", c.q, c.bound, got, c.want)
		}
	}
	if got := Exceeds(metrics.Estimate{}, 1); got != Unknown {
		t.Errorf("without samples: %v", got)
	}
}
