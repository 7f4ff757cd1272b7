package slo

import (
	"math"
	"time"

	"tokenfactory/factory"
)

// Counts are the requests of a window that were judged. Counts of several windows or
// replicas are added before anything is divided: a quiet night of two bad requests
// must not weigh as much as a busy day.
type Counts struct {
	Good float64 `json:"good"`
	Bad  float64 `json:"bad"`
}

// Plus adds what another window or replica counted.
func (c Counts) Plus(o Counts) Counts { return Counts{c.Good + o.Good, c.Bad + o.Bad} }

// Total is how many were judged.
func (c Counts) Total() float64 { return c.Good + c.Bad }

// BadRatio is the share of bad requests, 0 to 1; false without requests.
func (c Counts) BadRatio() (float64, bool) {
	if !(c.Total() > 0) {
		return 0, false
	}
	return c.Bad / c.Total(), true
}

// Burn is how many times faster than planned the error budget is used up: 1 uses it up
// exactly at the end of the objective's window. False without requests.
func Burn(c Counts, share float64) (float64, bool) {
	ratio, ok := c.BadRatio()
	allowed := allowance(share)
	if !ok || !(allowed > 0) {
		return 0, false
	}
	return ratio / allowed, true
}

// allowance is the share of requests that may be bad. 1 - 0.9 is a little less than 0.1
// in binary, which would make an unreachable factor look reachable.
func allowance(share float64) float64 { return math.Round((1-share)*1e12) / 1e12 }

// BurnWindow is one rule: both windows have to burn faster than the factor. The long one
// says that it matters, the short one that it is not over yet.
type BurnWindow struct {
	Severity factory.Severity `json:"severity"`
	Factor   float64          `json:"factor"`
	Long     time.Duration    `json:"-"`
	Short    time.Duration    `json:"-"`
}

// Windows are the rules that every objective has, the most urgent first.
var Windows = []BurnWindow{
	{factory.Page, 14.4, time.Hour, 5 * time.Minute},
	{factory.Page, 6, 6 * time.Hour, 30 * time.Minute},
	{factory.Ticket, 3, 24 * time.Hour, 2 * time.Hour},
	{factory.Ticket, 1, 72 * time.Hour, 6 * time.Hour},
}

// LeastBad is how many bad requests the long window has to have: with a handful of
// requests an hour a single mishap would burn at any factor and wake somebody up.
const LeastBad = 5

// BurnState is how one rule stands. A burn is nil when its window had no requests.
type BurnState struct {
	Window BurnWindow
	Long   *float64
	Short  *float64
	Counts Counts // of the long window
	Firing bool
}

// Evaluate reads the counts of every window that ends now and says how each rule stands.
func Evaluate(share float64, counts func(window time.Duration) Counts) []BurnState {
	out := make([]BurnState, 0, len(Windows))
	for _, w := range Windows {
		long := counts(w.Long)
		s := BurnState{Window: w, Counts: long, Long: known(Burn(long, share)), Short: known(Burn(counts(w.Short), share))}
		s.Firing = s.Long != nil && s.Short != nil && *s.Long > w.Factor && *s.Short > w.Factor && long.Bad >= LeastBad
		out = append(out, s)
	}
	return out
}

// Finding is what the rule says about an alert. A short window without requests proves
// nothing while the long one still burns; once that has nothing either there is nothing
// to warn of, so that an alert of a stopped deployment ends.
func (s BurnState) Finding() Finding {
	switch {
	case s.Firing:
		return Wrong
	case s.Long != nil && *s.Long > s.Window.Factor && s.Counts.Bad >= LeastBad && s.Short == nil:
		return Unknown
	}
	return Right
}

// Reachable reports whether an objective can burn faster than a factor at all: one of
// 90 % burns ten times as fast as planned when every request is bad, and no faster.
func Reachable(share, factor float64) bool {
	allowed := allowance(share)
	return allowed > 0 && 1/allowed > factor
}

// BudgetLeft is the part of the error budget that is left after these requests of
// the objective's window: 1 is all of it, and it is negative once more than all was used
// up. Without requests all of it is left, and false says that nothing was judged.
func BudgetLeft(c Counts, share float64) (float64, bool) {
	burn, ok := Burn(c, share)
	if !ok {
		return 1, false
	}
	return 1 - burn, true
}

func known(v float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &v
}
