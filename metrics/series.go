package metrics

import (
	"fmt"
	"time"
)

// Window is a range of time cut into steps for drawing.
type Window struct {
	From, To time.Time
	Step     time.Duration
}

// MaxPoints is the most that a chart gets: more cannot be told apart on a screen.
const MaxPoints = 360

var steps = []time.Duration{
	10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 96 * time.Hour,
}

// NewWindow cuts from..to into steps that the kept buckets can fill and a chart can
// hold. A wanted step is taken when it is possible; zero leaves the choice. now
// decides which resolutions still reach back to from.
func NewWindow(from, to, now time.Time, want time.Duration) (Window, error) {
	from, to = from.UTC(), to.UTC()
	if !from.Before(to) {
		return Window{}, fmt.Errorf("the range ends before it begins")
	}
	oldest := now.Sub(from)
	want = min(want, steps[len(steps)-1])
	for _, s := range steps {
		if s < want || to.Sub(from) > MaxPoints*s || Base(s, oldest) == 0 {
			continue
		}
		w := Window{From: from.Truncate(s), To: to, Step: s}
		if w.Points() > MaxPoints {
			w.From = w.From.Add(s) // the range began inside a step, which it shows only in part
		}
		return w, nil
	}
	return Window{}, fmt.Errorf("the range is longer than anything that is kept")
}

// Base is the coarsest kept resolution that can fill a step for data of that age,
// or zero when none can. The first step of a window may begin before what is kept.
func Base(step, age time.Duration) time.Duration {
	for i := len(Resolutions) - 1; i >= 0; i-- {
		r := Resolutions[i]
		if r.Step <= step && step%r.Step == 0 && age <= r.Keep+step {
			return r.Step
		}
	}
	return 0
}

// Points is how many steps the window has.
func (w Window) Points() int {
	return int((w.To.Sub(w.From) + w.Step - 1) / w.Step)
}

// Previous is the window of equal length right before, to compare with.
func (w Window) Previous() Window {
	d := w.To.Sub(w.From)
	return Window{From: w.From.Add(-d), To: w.From, Step: w.Step}
}

// Series is one metric over the steps of a window, and its summary over the whole.
// A step without samples has nil values: a gap, not a zero.
type Series struct {
	Name   Name
	Window Window
	Times  []time.Time // start of each step
	N      []float64
	Q      [][]*float64 // distributions: one row per entry of Percentiles
	// Estimates are an engine's histogram's, one row per entry of Percentiles.
	Estimates [][]Estimate
	Average   []*float64 // gauges; the mean of distributions and histograms
	Peak      []*float64
	Sum       []*float64 // counters
	Summary   Summary
}

// Summary is a metric over a whole window.
type Summary struct {
	N         float64
	Q         []*float64 // distributions: one per entry of Percentiles
	Estimates []Estimate // histograms: one per entry of Percentiles
	Average   *float64   // gauges; the mean of distributions and histograms
	Peak      *float64
	Sum       float64 // counters; of distributions and histograms the sum of all values
	sketch    *Sketch
	histogram Histogram
}

// Above is how many of the window's samples lie above a bound.
func (s Summary) Above(bound float64) float64 {
	if s.sketch == nil {
		return 0
	}
	return s.sketch.CountAbove(bound)
}

// Histogram is an engine's, over the whole window.
func (s Summary) Histogram() Histogram { return s.histogram }

// SeriesOf merges buckets, from any replicas and in any order, into the steps of
// a window. Percentiles come from merged sketches and are never averaged.
func SeriesOf(name Name, w Window, buckets []Bucket) (Series, error) {
	n := w.Points()
	s := Series{Name: name, Window: w, Times: make([]time.Time, n), N: make([]float64, n)}
	for i := range s.Times {
		s.Times[i] = w.From.Add(time.Duration(i) * w.Step)
	}
	merged := make([]Bucket, n)
	sketches := make([]*adder, n)
	histograms := make([]Histogram, n)
	whole := Bucket{Name: name}
	shape := ShapeOf(name)
	for _, b := range buckets {
		if b.Name != name || b.Start.Before(w.From) || !b.Start.Before(w.To) {
			continue
		}
		i := int(b.Start.Sub(w.From) / w.Step)
		if shape == Distribution {
			if sketches[i] == nil {
				sketches[i] = &adder{}
			}
			if err := sketches[i].addEncoded(b.Sketch); err != nil {
				return Series{}, fmt.Errorf("read sketch of %s at %s: %w", name, b.Start, err)
			}
		}
		if shape == Bucketed {
			if err := histograms[i].addEncoded(b.Sketch, merged[i].Count > 0); err != nil {
				return Series{}, fmt.Errorf("read histogram of %s at %s: %w", name, b.Start, err)
			}
		}
		b.Sketch = nil
		merged[i].Name = name
		if err := merged[i].Merge(b); err != nil {
			return Series{}, err
		}
		if err := whole.Merge(b); err != nil {
			return Series{}, err
		}
	}
	s.Summary.N, s.Summary.Sum = whole.Count, whole.Sum
	for i := range merged {
		s.N[i] = merged[i].Count
	}
	if shape != Counter {
		s.Average = make([]*float64, n)
		for i, b := range merged {
			s.Average[i] = mean(b)
		}
		s.Summary.Average = mean(whole)
	}
	switch shape {
	case Distribution:
		s.Q = make([][]*float64, len(Percentiles))
		for p := range s.Q {
			s.Q[p] = make([]*float64, n)
		}
		var all adder
		for i, b := range sketches {
			if b == nil {
				continue
			}
			for p, v := range b.quantiles(Percentiles) {
				s.Q[p][i] = &v
			}
			all.merge(b)
		}
		var err error
		if s.Summary.sketch, err = all.sketch(); err != nil {
			return Series{}, err
		}
		s.Summary.Q = make([]*float64, len(Percentiles))
		for p, v := range s.Summary.sketch.Quantiles(Percentiles) {
			s.Summary.Q[p] = &v
		}
	case Bucketed:
		s.estimate(histograms, merged)
	case Gauge:
		s.Peak = make([]*float64, n)
		for i, b := range merged {
			if b.Count > 0 {
				s.Peak[i] = ptr(b.Max)
			}
		}
		if whole.Count > 0 {
			s.Summary.Peak = ptr(whole.Max)
		}
	case Counter:
		s.Sum = make([]*float64, n)
		for i, b := range merged {
			if b.Count > 0 {
				s.Sum[i] = ptr(b.Sum)
			}
		}
	}
	return s, nil
}

// estimate reads the percentiles of histograms, of each step and of the sum of all.
func (s *Series) estimate(histograms []Histogram, merged []Bucket) {
	s.Estimates = make([][]Estimate, len(Percentiles))
	for p := range s.Estimates {
		s.Estimates[p] = make([]Estimate, len(histograms))
	}
	seen := false
	for i, h := range histograms {
		if merged[i].Count == 0 {
			continue
		}
		for p, q := range Percentiles {
			s.Estimates[p][i] = h.Quantile(q)
		}
		if seen {
			h = s.Summary.histogram.Add(h)
		}
		s.Summary.histogram, seen = h, true
	}
	s.Summary.Estimates = make([]Estimate, len(Percentiles))
	for p, q := range Percentiles {
		s.Summary.Estimates[p] = s.Summary.histogram.Quantile(q)
	}
}

func mean(b Bucket) *float64 {
	if b.Count > 0 {
		return ptr(b.Sum / b.Count)
	}
	return nil
}

func ptr(v float64) *float64 { return &v }
