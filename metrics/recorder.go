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
	name                Name
	start               int64 // unix seconds of the finest step
}

type cell struct {
	mu     sync.Mutex
	bucket Bucket
	sketch *Sketch // nil unless the metric is a latency
	// flushed is set when the cell was handed out: an observation that found it
	// before and comes after must take a new one, or it would be lost.
	flushed bool
}

// Observe records value n times at time t. For latencies the value is in
// milliseconds; for counters it is the increase.
func (r *Recorder) Observe(t time.Time, deployment, replica string, name Name, value float64, n int) {
	if n < 1 {
		return
	}
	step := Resolutions[0].Step
	start := t.UTC().Truncate(step)
	k := cellKey{deployment, replica, name, start.Unix()}
	for !r.cell(k, start, step).add(value, n) {
	}
}

// add reports false when the cell was flushed and the observation has to go elsewhere.
func (c *cell) add(value float64, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flushed {
		return false
	}
	// Refused, not retried: one NaN would make the sum of the whole bucket NaN.
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return true
	}
	if c.sketch != nil && c.sketch.Add(value, float64(n)) != nil {
		return true // not a duration
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
	c = &cell{bucket: Bucket{DeploymentID: k.deployment, ReplicaID: k.replica, Name: k.name, Step: step, Start: start}}
	if ShapeOf(k.name) == Latency {
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
			if c.sketch != nil {
				b.Sketch = c.sketch.Encode()
			}
			out = append(out, b)
		}
		c.mu.Unlock()
	}
	return out
}
