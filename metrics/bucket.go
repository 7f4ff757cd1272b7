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
// time. Distributions fill Sketch; gauges fill Count, Sum and Max; counters Sum. Of a
// machine's metrics the deployment is the node and the replica the GPU.
type Bucket struct {
	DeploymentID string `json:"deployment_id"`
	ReplicaID    string `json:"replica_id"`
	// TenantID and KeyID are empty in buckets of everybody's requests. What one key did
	// is in buckets of its own beside those, never added to them.
	TenantID string        `json:"tenant_id,omitempty"`
	KeyID    string        `json:"key_id,omitempty"`
	Name     Name          `json:"name"`
	Step     time.Duration `json:"step"`
	Start    time.Time     `json:"start"`
	Count    float64       `json:"count"`
	Sum      float64       `json:"sum"`
	Max      float64       `json:"max"`
	// Sketch is the distribution's sketch or the histogram, encoded.
	Sketch []byte `json:"sketch,omitempty"`
}

// Place identifies a bucket among all.
type Place struct {
	DeploymentID, TenantID string
	Step                   time.Duration
	Name                   Name
	Start                  int64 // microseconds
	KeyID, ReplicaID       string
}

// Place is where the bucket is kept.
func (b Bucket) Place() Place {
	return Place{b.DeploymentID, b.TenantID, b.Step, b.Name, b.Start.UnixMicro(), b.KeyID, b.ReplicaID}
}

// Compare orders places as they are kept. Everybody who writes locks in this order.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(p.DeploymentID, o.DeploymentID), cmp.Compare(p.TenantID, o.TenantID), cmp.Compare(p.Step, o.Step), cmp.Compare(p.Name, o.Name),
		cmp.Compare(p.Start, o.Start), cmp.Compare(p.KeyID, o.KeyID), cmp.Compare(p.ReplicaID, o.ReplicaID))
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
	case ShapeOf(b.Name) == Bucketed:
		kept, err := DecodeHistogram(b.Sketch)
		if err != nil {
			return fmt.Errorf("read kept histogram: %w", err)
		}
		more, err := DecodeHistogram(o.Sketch)
		if err != nil {
			return fmt.Errorf("read new histogram: %w", err)
		}
		b.Sketch = kept.Add(more).Encode()
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
	at := map[Place]int{}
	var out []Bucket
	for _, b := range fine {
		for _, r := range Resolutions {
			if r.Step < b.Step || (b.KeyID != "" && r.Step < KeyStep) {
				continue
			}
			c := b.At(r.Step)
			i, seen := at[c.Place()]
			if !seen {
				at[c.Place()] = len(out)
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

// KeyStep is the finest that is kept of single keys: there may be thousands.
const KeyStep = time.Minute

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
	case encoded(b.Name) != (len(b.Sketch) > 0):
		return fmt.Errorf("bucket of %s with %d bytes of sketch", b.Name, len(b.Sketch))
	case (b.TenantID == "") != (b.KeyID == ""):
		return fmt.Errorf("bucket of tenant %q and key %q", b.TenantID, b.KeyID)
	}
	return b.CheckSketch()
}

// CheckSketch reports why a bucket's sketch or histogram cannot be read.
func (b Bucket) CheckSketch() error {
	if ShapeOf(b.Name) == Bucketed && len(b.Sketch) > 0 {
		_, err := DecodeHistogram(b.Sketch)
		return err
	}
	return checkEncoded(b.Sketch)
}

// encoded reports whether a metric's buckets carry more than numbers.
func encoded(n Name) bool {
	shape := ShapeOf(n)
	return shape == Distribution || shape == Bucketed
}
