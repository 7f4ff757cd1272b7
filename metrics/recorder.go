package metrics

import (
	"math"
	"sync"
	"time"
)

// Recorder gathers observations in memory until they are flushed as buckets. It
// is safe for concurrent use; a cell has its own lock, so that busy deployments
// do not wait for each other.
type Recorder struct {
	mu    sync.RWMutex
	cells map[cellKey]*cell
}

type cellKey struct {
	deployment, replica string
	tenant, key         string
	name                Name
	start               int64 // unix seconds of the finest step
}

// Of says whose an observation is: of which replica of which deployment, and, when it
// is kept for one key, of whose.
type Of struct {
	Deployment, Replica string
	Tenant, Key         string
}

func (o Of) at(name Name, start time.Time) cellKey {
	return cellKey{o.Deployment, o.Replica, o.Tenant, o.Key, name, start.Unix()}
}

type cell struct {
	mu     sync.Mutex
	bucket Bucket
	sketch *Sketch // nil unless the metric is a distribution
	// histogram is an engine's, when the metric is one.
	histogram Histogram
	// flushed is set when the cell was handed out: an observation that found it
	// before and comes after must take a new one, or it would be lost.
	flushed bool
}

// Observe records value n times at time t. For latencies the value is in
// milliseconds; for counters it is the increase.
func (r *Recorder) Observe(t time.Time, deployment, replica string, name Name, value float64, n int) {
	r.ObserveOf(t, Of{Deployment: deployment, Replica: replica}, name, value, n)
}

// ObserveOf is Observe of one key's requests.
func (r *Recorder) ObserveOf(t time.Time, of Of, name Name, value float64, n int) {
	if n < 1 {
		return
	}
	r.into(t, of, name, func(c *cell) { c.add(value, n) })
}

// Line is one metric of one request, or of anything else that observes often. It
// remembers the cell it found last, so that each token does not look for it again. It
// is not safe for concurrent use.
type Line struct {
	of   Of
	name Name
	cell *cell
}

// NewLine begins a line of observations.
func NewLine(of Of, name Name) Line { return Line{of: of, name: name} }

// ObserveLine is ObserveOf along a line.
func (r *Recorder) ObserveLine(t time.Time, l *Line, value float64, n int) {
	if n < 1 {
		return
	}
	step := Resolutions[0].Step
	start := t.UTC().Truncate(step)
	for {
		if c := l.cell; c != nil && c.bucket.Start.Equal(start) {
			c.mu.Lock()
			open := !c.flushed
			if open {
				c.add(value, n)
			}
			c.mu.Unlock()
			if open {
				return
			}
		}
		l.cell = r.cell(l.of.at(l.name, start), start, step)
	}
}

// ObservePeak is Observe of a gauge whose parts, such as an engine's ranks, differ:
// their average, and the highest.
func (r *Recorder) ObservePeak(t time.Time, of Of, name Name, average, peak float64) {
	r.into(t, of, name, func(c *cell) {
		if math.IsNaN(peak) || math.IsInf(peak, 0) {
			peak = average
		}
		if c.add(average, 1) && peak > c.bucket.Max {
			c.bucket.Max = peak
		}
	})
}

// ObserveHistogram records what an engine's histogram grew by, in milliseconds.
func (r *Recorder) ObserveHistogram(t time.Time, of Of, name Name, grown Histogram) {
	if !(grown.Count > 0) || !amount(grown.Sum) || ShapeOf(name) != Bucketed {
		return
	}
	r.into(t, of, name, func(c *cell) {
		if c.bucket.Count > 0 {
			grown = c.histogram.Add(grown)
		}
		c.histogram, c.bucket.Count, c.bucket.Sum = grown, grown.Count, grown.Sum
	})
}

// into finds the cell of an observation and fills it under its lock.
func (r *Recorder) into(t time.Time, of Of, name Name, fill func(*cell)) {
	step := Resolutions[0].Step
	start := t.UTC().Truncate(step)
	k := of.at(name, start)
	for {
		c := r.cell(k, start, step)
		c.mu.Lock()
		if !c.flushed {
			fill(c)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// add reports false for a value that is none.
func (c *cell) add(value float64, n int) bool {
	// One NaN would make the sum of the whole bucket NaN.
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return false
	}
	if c.sketch != nil && c.sketch.Add(value, float64(n)) != nil {
		return false // not a duration
	}
	if c.bucket.Count == 0 || value > c.bucket.Max {
		c.bucket.Max = value
	}
	c.bucket.Count += float64(n)
	c.bucket.Sum += value * float64(n)
	return true
}

func (r *Recorder) cell(k cellKey, start time.Time, step time.Duration) *cell {
	r.mu.RLock()
	c := r.cells[k]
	r.mu.RUnlock()
	if c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c = r.cells[k]; c != nil {
		return c
	}
	c = &cell{bucket: Bucket{DeploymentID: k.deployment, ReplicaID: k.replica, TenantID: k.tenant, KeyID: k.key, Name: k.name, Step: step, Start: start}}
	if ShapeOf(k.name) == Distribution {
		c.sketch = NewSketch()
	}
	if r.cells == nil {
		r.cells = map[cellKey]*cell{}
	}
	r.cells[k] = c
	return c
}

// Flush hands out everything recorded since the last flush, as buckets of the
// finest resolution.
func (r *Recorder) Flush() []Bucket {
	r.mu.Lock()
	cells := r.cells
	r.cells = nil
	r.mu.Unlock()
	out := make([]Bucket, 0, len(cells))
	for _, c := range cells {
		c.mu.Lock()
		c.flushed = true
		if c.bucket.Count > 0 {
			b := c.bucket
			switch {
			case c.sketch != nil:
				b.Sketch = c.sketch.Encode()
			case ShapeOf(b.Name) == Bucketed:
				b.Sketch = c.histogram.Encode()
			}
			out = append(out, b)
		}
		c.mu.Unlock()
	}
	return out
}
