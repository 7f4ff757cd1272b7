package slo

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tokenfactory/factory"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestDA04BothWindowsHaveToBurn(t *testing.T) {
	for _, c := range []struct {
		name        string
		hour, short Counts
		long, five  float64
		page        bool
	}{
		{"a: trouble is over", Counts{16000, 4000}, Counts{297, 3}, 20, 1, false},
		{"b: trouble goes on", Counts{16000, 4000}, Counts{240, 60}, 20, 20, true},
		{"c: a blip", Counts{19980, 20}, Counts{240, 60}, 0.1, 20, false},
	} {
		s := Evaluate(0.99, func(window time.Duration) Counts {
			switch window {
			case time.Hour:
				return c.hour
			case 5 * time.Minute:
				return c.short
			}
			return Counts{}
		})[0]
		if s.Window.Severity != factory.Page || s.Window.Factor != 14.4 || s.Window.Long != time.Hour || s.Window.Short != 5*time.Minute {
			t.Fatalf("the first rule is %+v", s.Window)
		}
		if s.Long == nil || s.Short == nil || !near(*s.Long, c.long) || !near(*s.Short, c.five) {
			t.Errorf("%s: burns %v and %v, want %v and %v", c.name, show(s.Long), show(s.Short), c.long, c.five)
		}
		if s.Firing != c.page || (s.Finding() == Wrong) != c.page {
			t.Errorf("%s: firing %v, want %v", c.name, s.Firing, c.page)
		}
	}
}

func TestDA05IdleWindowsHaveNoWeight(t *testing.T) {
	var month Counts
	for _, window := range []Counts{{9980, 10}, {0, 10}, {}, {}} {
		month = month.Plus(window)
	}
	if ratio, ok := month.BadRatio(); !ok || !near(ratio, 0.002) {
		t.Errorf("bad ratio %v, want 0.002", ratio)
	}
	if left, ok := BudgetLeft(month, 0.99); !ok || !near(left, 0.8) {
		t.Errorf("budget left %v, want 0.8", left)
	}
	if left, ok := BudgetLeft(Counts{}, 0.99); ok || left != 1 {
		t.Errorf("without requests %v left and data %v, want all of it and none", left, ok)
	}
	for _, s := range Evaluate(0.99, func(time.Duration) Counts { return Counts{} }) {
		if s.Firing || s.Long != nil || s.Short != nil || s.Finding() != Right {
			t.Errorf("without requests: %+v", s)
		}
	}
}

func TestAFewBadRequestsWakeNobody(t *testing.T) {
	of := func(bad float64) BurnState {
		return Evaluate(0.99, func(time.Duration) Counts { return Counts{Bad: bad} })[0]
	}
	if of(LeastBad - 1).Firing {
		t.Errorf("%d bad requests page", LeastBad-1)
	}
	if !of(LeastBad).Firing {
		t.Errorf("%d bad requests out of %d do not page", LeastBad, LeastBad)
	}
}

func TestQuietShortWindowProvesNothing(t *testing.T) {
	counts := func(window time.Duration) Counts {
		if window >= time.Hour {
			return Counts{100, 100}
		}
		return Counts{}
	}
	if got := Evaluate(0.99, counts)[0].Finding(); got != Unknown {
		t.Errorf("finding %v while the hour burns and the last minutes are quiet, want unknown", got)
	}
}

func TestSomeFactorsCannotBeReached(t *testing.T) {
	for _, c := range []struct {
		share, factor float64
		want          bool
	}{{0.9, 14.4, false}, {0.9, 10, false}, {0.9, 6, true}, {0.95, 14.4, true}, {0.99, 14.4, true}, {0.5, 1, true}, {1, 1, false}} {
		if got := Reachable(c.share, c.factor); got != c.want {
			t.Errorf("%v at %v: reachable %v, want %v", c.share, c.factor, got, c.want)
		}
	}
}

// However requests are cut into windows, burn and budget come out the same, and lie
// between the extremes of the windows.
func TestBurnIsOfSumsNotOfRatios(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	for range 500 {
		share := 0.5 + rng.Float64()*0.499
		var whole Counts
		least, most := math.Inf(1), math.Inf(-1)
		for range 1 + rng.IntN(20) {
			part := Counts{float64(rng.IntN(1000)), float64(rng.IntN(100))}
			if rng.IntN(3) == 0 {
				part = Counts{}
			}
			whole = whole.Plus(part)
			if b, ok := Burn(part, share); ok {
				least, most = min(least, b), max(most, b)
			}
		}
		burn, ok := Burn(whole, share)
		left, judged := BudgetLeft(whole, share)
		if ok != (whole.Total() > 0) || ok != judged || math.IsNaN(burn) || math.IsNaN(left) {
			t.Fatalf("%+v at %v: burn %v %v, left %v %v", whole, share, burn, ok, left, judged)
		}
		if ok && (burn < least-1e-9 || burn > most+1e-9 || !near(left, 1-burn)) {
			t.Fatalf("%+v at %v: burn %v outside %v to %v, left %v", whole, share, burn, least, most, left)
		}
	}
}

func show(v *float64) any {
	if v == nil {
		return "none"
	}
	return *v
}
