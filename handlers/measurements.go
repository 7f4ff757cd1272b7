package handlers

import (
	"context"
	"slices"
	"time"

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

// readBuckets reads what fills the steps of a window.
func readBuckets(ctx context.Context, s *store.Store, deploymentID string, names []metrics.Name, w metrics.Window, now time.Time) ([]metrics.Bucket, error) {
	return s.Buckets(ctx, deploymentID, metrics.Base(w.Step, now.Sub(w.From)), names, w.From, w.To)
}

// replicasIn are the replicas that buckets are of.
func replicasIn(buckets []metrics.Bucket) map[string]bool {
	out := map[string]bool{}
	for _, b := range buckets {
		if b.ReplicaID != "" {
			out[b.ReplicaID] = true
		}
	}
	return out
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
	out := make(map[metrics.Name]metrics.Series, len(names))
	for _, name := range names {
		series, err := metrics.SeriesOf(name, w, byName[name])
		if err != nil {
			return nil, err
		}
		out[name] = series
	}
	return out, nil
}

// readSummaries reads what the metrics with a card were over a whole range, from the
// coarsest buckets that fill it.
func readSummaries(ctx context.Context, s *store.Store, deploymentID, replica string, w metrics.Window) (map[metrics.Name]metrics.Summary, error) {
	var buckets []metrics.Bucket
	for _, piece := range metrics.Cover(w.From, w.To) {
		part, err := s.Buckets(ctx, deploymentID, piece.Step, cardNames, piece.From, piece.To)
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, part...)
	}
	series, err := seriesOf(cardNames, metrics.Window{From: w.From, To: w.To, Step: w.To.Sub(w.From)}, ofReplica(buckets, replica))
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
func readMedians(ctx context.Context, s *store.Store, deploymentID, replica string, w metrics.Window, now time.Time) (map[metrics.Name][]*float64, error) {
	before := metrics.Window{From: w.From.Add(-time.Duration(w.Points()) * w.Step), To: w.From, Step: w.Step}
	names := []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E}
	out := map[metrics.Name][]*float64{}
	if metrics.Base(w.Step, now.Sub(before.From)) == 0 {
		return out, nil
	}
	buckets, err := readBuckets(ctx, s, deploymentID, names, before, now)
	if err != nil {
		return nil, err
	}
	series, err := seriesOf(names, before, ofReplica(buckets, replica))
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
