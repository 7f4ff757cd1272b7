package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Bucket holds what was observed of one metric of one replica in one step of
// time. Latencies fill Sketch; gauges fill Count, Sum and Max; counters Sum.
type Bucket struct {
	DeploymentID string        `json:"deployment_id"`
	ReplicaID    string        `json:"replica_id"`
	Name         Name          `json:"name"`
	Step         time.Duration `json:"step"`
	Start        time.Time     `json:"start"`
	Count        float64       `json:"count"`
	Sum          float64       `json:"sum"`
	Max          float64       `json:"max"`
	Sketch       []byte        `json:"sketch,omitempty"`
}

// Merge adds what o observed to b; both must be of the same metric.
func (b *Bucket) Merge(o Bucket) error {
	if b.Name != o.Name {
		return fmt.Errorf("merge %s into %s", o.Name, b.Name)
	}
	// The sketches first: when one cannot be read, b stays as it was.
	switch {
	case len(o.Sketch) == 0:
	case len(b.Sketch) == 0:
		b.Sketch = o.Sketch
	default:
		s := NewSketch()
		if err := s.MergeEncoded(b.Sketch); err != nil {
			return fmt.Errorf("read kept sketch: %w", err)
		}
		if err := s.MergeEncoded(o.Sketch); err != nil {
			return fmt.Errorf("read new sketch: %w", err)
		}
		b.Sketch = s.Encode()
	}
	if o.Count > 0 && (b.Count == 0 || o.Max > b.Max) {
		b.Max = o.Max
	}
	b.Count += o.Count
	b.Sum += o.Sum
	return nil
}

// At returns b as it belongs into a coarser resolution.
func (b Bucket) At(step time.Duration) Bucket {
	b.Step, b.Start = step, b.Start.Truncate(step)
	return b
}

// Spread returns fine buckets as one list with every kept resolution in it, equal
// places merged: what a store has to write.
func Spread(fine []Bucket) ([]Bucket, error) {
	type place struct {
		deployment, replica string
		name                Name
		step                time.Duration
		start               int64
	}
	at := map[place]int{}
	var out []Bucket
	for _, b := range fine {
		for _, r := range Resolutions {
			if r.Step < b.Step {
				continue
			}
			c := b.At(r.Step)
			p := place{c.DeploymentID, c.ReplicaID, c.Name, c.Step, c.Start.UnixMicro()}
			i, seen := at[p]
			if !seen {
				at[p] = len(out)
				out = append(out, c)
				continue
			}
			if err := out[i].Merge(c); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Check reports why a bucket must not be kept. Buckets come from agents over the
// network, and one with a broken sketch would break every chart it is in.
func (b Bucket) Check() error {
	_, known := slices.BinarySearchFunc(Resolutions, b.Step, func(r Resolution, step time.Duration) int { return cmp.Compare(r.Step, step) })
	switch {
	case b.DeploymentID == "" || b.Name == "":
		return errors.New("bucket without a deployment or a name")
	case !known || !b.Start.Equal(b.Start.Truncate(b.Step)):
		return fmt.Errorf("bucket of %s at %s is none that is kept", b.Step, b.Start)
	case !(b.Count > 0) || math.IsInf(b.Count, 0) || math.IsNaN(b.Sum) || math.IsInf(b.Sum, 0) || math.IsNaN(b.Max) || math.IsInf(b.Max, 0):
		return fmt.Errorf("bucket of %s with count %v, sum %v and peak %v", b.Name, b.Count, b.Sum, b.Max)
	case (ShapeOf(b.Name) == Latency) != (len(b.Sketch) > 0):
		return fmt.Errorf("bucket of %s with %d bytes of sketch", b.Name, len(b.Sketch))
	}
	return checkEncoded(b.Sketch)
}
