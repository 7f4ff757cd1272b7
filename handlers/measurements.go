package handlers

import (
	"context"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
)

// cardNames are the metrics with a card, in the order of the page.
var cardNames = []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E, metrics.KVCache}

// namesOf are the metrics of the catalogue in some layers.
func namesOf(layers ...metrics.Layer) []metrics.Name {
	var out []metrics.Name
	for _, m := range metrics.Catalogue {
		if slices.Contains(layers, m.Layer) {
			out = append(out, m.Name)
		}
	}
	return out
}

// ofDeployments are the metrics whose buckets are a deployment's.
var ofDeployments = namesOf(metrics.UserLayer, metrics.WorkloadLayer, metrics.InfrastructureLayer)

// traffic is whose requests are looked at: everybody's when it is empty, those that one
// replica answered, or those of a tenant, or of one of its keys.
type traffic struct{ ReplicaID, TenantID, KeyID string }

// leastStep is the finest that is kept of it; zero is the finest of all.
func (of traffic) leastStep() time.Duration {
	if of.TenantID != "" {
		return metrics.KeyStep
	}
	return 0
}

// read reads the buckets of one kept resolution.
func (of traffic) read(ctx context.Context, s *store.Store, deploymentID string, step time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	if of.TenantID != "" {
		return s.TenantBuckets(ctx, of.TenantID, deploymentID, of.KeyID, step, names, from, to)
	}
	buckets, err := s.Buckets(ctx, deploymentID, step, names, from, to)
	return ofReplica(buckets, of.ReplicaID), err
}

// fills reads what fills the steps of a window.
func (of traffic) fills(ctx context.Context, s *store.Store, deploymentID string, names []metrics.Name, w metrics.Window, now time.Time) ([]metrics.Bucket, error) {
	base := metrics.Base(w.Step, now.Sub(w.From))
	if of.TenantID != "" {
		return of.read(ctx, s, deploymentID, base, names, w.From, w.To)
	}
	return s.MergedBuckets(ctx, deploymentID, of.ReplicaID, w.Step, base, names, w.From, w.To)
}

// replicasIn are the replicas that were measured in a window.
func replicasIn(ctx context.Context, s *store.Store, deploymentID string, w metrics.Window, now time.Time) (map[string]bool, error) {
	ids, err := s.ReplicasMeasured(ctx, deploymentID, metrics.Base(w.Step, now.Sub(w.From)), w.From, w.To)
	out := map[string]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out, err
}

// ofReplica keeps one replica's buckets; an empty id keeps all.
func ofReplica(buckets []metrics.Bucket, id string) []metrics.Bucket {
	if id == "" {
		return buckets
	}
	return slices.DeleteFunc(slices.Clone(buckets), func(b metrics.Bucket) bool { return b.ReplicaID != id })
}

// seriesOf makes the series of the metrics named.
func seriesOf(names []metrics.Name, w metrics.Window, buckets []metrics.Bucket) (map[metrics.Name]metrics.Series, error) {
	byName := map[metrics.Name][]metrics.Bucket{}
	for _, b := range buckets {
		byName[b.Name] = append(byName[b.Name], b)
	}
	series := make([]metrics.Series, len(names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // thousands of sketches, and each metric is by itself
	for i, name := range names {
		group.Go(func() (err error) {
			series[i], err = metrics.SeriesOf(name, w, byName[name])
			return err
		})
	}
	err := group.Wait()
	out := make(map[metrics.Name]metrics.Series, len(names))
	for i, name := range names {
		out[name] = series[i]
	}
	return out, err
}

// readSummaries reads what the metrics with a card were over a whole range, from the
// coarsest buckets that fill it.
func readSummaries(ctx context.Context, s *store.Store, deploymentID string, of traffic, w metrics.Window) (map[metrics.Name]metrics.Summary, error) {
	var buckets []metrics.Bucket
	from, to := w.From, w.To
	if least := of.leastStep(); least > 0 { // a piece finer than what is kept would be empty
		from, to = from.Truncate(least), to.Truncate(least)
	}
	for _, piece := range metrics.Cover(from, to) {
		part, err := of.read(ctx, s, deploymentID, piece.Step, cardNames, piece.From, piece.To)
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, part...)
	}
	series, err := seriesOf(cardNames, metrics.Window{From: from, To: to, Step: max(to.Sub(from), time.Second)}, buckets)
	if err != nil {
		return nil, err
	}
	out := make(map[metrics.Name]metrics.Summary, len(cardNames))
	for name, x := range series {
		out[name] = x.Summary
	}
	return out, nil
}

// readMedians reads the medians of the window before, step for step beside this one's. Where
// its steps are no longer kept there are none.
func readMedians(ctx context.Context, s *store.Store, deploymentID string, of traffic, w metrics.Window, now time.Time) (map[metrics.Name][]*float64, error) {
	before := metrics.Window{From: w.From.Add(-time.Duration(w.Points()) * w.Step), To: w.From, Step: w.Step}
	names := []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E}
	out := map[metrics.Name][]*float64{}
	if metrics.Base(w.Step, now.Sub(before.From)) == 0 {
		return out, nil
	}
	buckets, err := of.fills(ctx, s, deploymentID, names, before, now)
	if err != nil {
		return nil, err
	}
	series, err := seriesOf(names, before, buckets)
	if err != nil {
		return nil, err
	}
	for name, x := range series {
		out[name] = x.Q[0]
	}
	return out, nil
}

// lastAt is when a metric was last measured; nil when it never was.
func lastAt(ctx context.Context, s *store.Store, deploymentID string, name metrics.Name) (*time.Time, error) {
	t, err := s.LastBucketAt(ctx, deploymentID, name)
	if factory.KindOf(err) == factory.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}
