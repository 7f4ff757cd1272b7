package metrics

import (
	"strings"
	"testing"
	"time"

	"tokenfactory/slo"
)

func TestBudgetChartSaysWhatIsLeftAndReachesBelowZero(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	changed := start
	m := Measured{Window: window, Now: window.To, Budget: &Budget{
		Share: 0.95, Left: []*float64{nil, v(0.4), v(-0.234), nil}, TargetsAt: &changed, Narrowed: true,
		Burns: slo.Evaluate(0.95, func(time.Duration) slo.Counts { return slo.Counts{Good: 10, Bad: 90} }),
	}}
	c := m.budget()
	if values := c.Lines[0].Values; values[0] != nil || !near(values[1], 40) || values[3] != nil || c.Plot.Floor != -30 || c.Facts[0].Figure != "-23.4" {
		t.Errorf("%+v", c)
	}
	if len(c.Notes) != 2 || c.After == nil {
		t.Errorf("%+v", c.Notes)
	}
	m.Budget.Left = []*float64{nil, nil, nil, nil}
	if c = m.budget(); !strings.Contains(c.reason(), "nothing is known") || len(c.Facts) != 0 {
		t.Errorf("nothing was judged: %+v", c)
	}
}

func TestARuleSaysWhichWindowBurns(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	rule := slo.Windows[0]
	for _, c := range []struct {
		state slo.BurnState
		share float64
		want  string
	}{
		{slo.BurnState{Long: v(20), Short: v(20), Firing: true}, 0.99, "Too fast"},
		{slo.BurnState{Long: v(20), Short: v(20)}, 0.99, "Few bad"},
		{slo.BurnState{Long: v(20), Short: v(1)}, 0.99, "Slowing"},
		{slo.BurnState{Long: v(20)}, 0.99, "Slowing"},
		{slo.BurnState{Long: v(1), Short: v(20)}, 0.99, "Rising"},
		{slo.BurnState{Long: v(1), Short: v(1)}, 0.99, "Within"},
		{slo.BurnState{}, 0.99, "No data"},
		{slo.BurnState{Long: v(5), Short: v(5)}, 0.90, "Cannot fire"},
	} {
		c.state.Window = rule
		if _, got := burnLook(c.state, c.share); got != c.want {
			t.Errorf("%+v: %s, want %s", c.state, got, c.want)
		}
	}
}
