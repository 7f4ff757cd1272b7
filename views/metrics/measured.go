package metrics

import (
	"time"

	"tokenfactory/metrics"
)

// Measured is what was measured of a deployment in a window.
type Measured struct {
	Window metrics.Window
	Now    time.Time
	Series map[metrics.Name]metrics.Series
	// OneTenant says that the series are of one tenant's requests, which engines do not
	// tell apart.
	OneTenant bool
	// Machines are the GPUs of the nodes that its replicas run on.
	Machines []Machine
	// Budget is the error budget; nil where it is not shown.
	Budget *Budget
}

// Machine is what one GPU said of itself in the window.
type Machine struct {
	Node string
	GPU  string
	// Held says that a replica that is looked at runs on it.
	Held   bool
	Series map[metrics.Name]metrics.Series
}

func (m Measured) any(names ...metrics.Name) bool {
	for _, n := range names {
		if m.Series[n].Summary.N > 0 {
			return true
		}
	}
	return false
}

func (m Measured) summary(n metrics.Name) metrics.Summary { return m.Series[n].Summary }

func (m Measured) traffic() bool { return m.any(metrics.Requests, metrics.E2E, metrics.TTFT) }

// sums are a counter's increases. Where a sibling was counted and it was not, there was
// none of it: a step with requests and without failures had zero failures. Anywhere
// else a step without a bucket is a gap.
func (m Measured) sums(n, sibling metrics.Name) []*float64 {
	own, beside := m.Series[n].Sum, m.Series[sibling].Sum
	out := make([]*float64, m.Window.Points())
	for i := range out {
		switch {
		case i < len(own) && own[i] != nil:
			out[i] = own[i]
		case i < len(beside) && beside[i] != nil:
			out[i] = new(float64)
		}
	}
	return out
}

// perSecond turns increases into rates. A step that is not over yet has none: what is
// still to come would make it look like a fall.
func (m Measured) perSecond(sums []*float64) []*float64 {
	out := make([]*float64, len(sums))
	for i, v := range sums {
		if v != nil && m.over(i) {
			r := *v / m.Window.Step.Seconds()
			out[i] = &r
		}
	}
	return out
}

// over reports whether a step lies in the window with its whole length.
func (m Measured) over(i int) bool {
	end := m.Window.From.Add(time.Duration(i+1) * m.Window.Step)
	return !end.After(m.Window.To) && !end.After(m.Now)
}

// rate is a counter's average over the window, per second of the time that has passed.
func (m Measured) rate(n metrics.Name) float64 {
	end := m.Window.To
	if m.Now.Before(end) {
		end = m.Now
	}
	seconds := end.Sub(m.Window.From).Seconds()
	if seconds <= 0 {
		return 0
	}
	return m.summary(n).Sum / seconds
}

// shares are parts of wholes in percent; a whole of nothing has no share.
func shares(parts, wholes []*float64) []*float64 {
	out := make([]*float64, len(parts))
	for i := range parts {
		if parts[i] != nil && i < len(wholes) && wholes[i] != nil && *wholes[i] > 0 {
			s := 100 * *parts[i] / *wholes[i]
			out[i] = &s
		}
	}
	return out
}

func added(a, b []*float64) []*float64 {
	out := make([]*float64, len(a))
	for i := range a {
		if a[i] != nil && b[i] != nil {
			s := *a[i] + *b[i]
			out[i] = &s
		}
	}
	return out
}

func scaled(values []*float64, by float64) []*float64 {
	out := make([]*float64, len(values))
	for i, v := range values {
		if v != nil {
			s := *v * by
			out[i] = &s
		}
	}
	return out
}
