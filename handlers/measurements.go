package handlers

import (
	"context"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
)

// chartNames are the metrics with a card and a chart, in the order of the page.
var chartNames = []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E, metrics.KVCache}

// readSeries reads what the charted metrics were over the steps of a window.
func readSeries(ctx context.Context, s *store.Store, deploymentID string, w metrics.Window, now time.Time) (map[metrics.Name]metrics.Series, error) {
	buckets, err := s.Buckets(ctx, deploymentID, metrics.Base(w.Step, now.Sub(w.From)), chartNames, w.From, w.To)
	if err != nil {
		return nil, err
	}
	out := make(map[metrics.Name]metrics.Series, len(chartNames))
	for _, name := range chartNames {
		if out[name], err = metrics.SeriesOf(name, w, buckets); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readSummaries reads what the charted metrics were over a whole range, from the
// coarsest buckets that fill it.
func readSummaries(ctx context.Context, s *store.Store, deploymentID string, w metrics.Window) (map[metrics.Name]metrics.Summary, error) {
	var buckets []metrics.Bucket
	for _, piece := range metrics.Cover(w.From, w.To) {
		part, err := s.Buckets(ctx, deploymentID, piece.Step, chartNames, piece.From, piece.To)
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, part...)
	}
	whole := metrics.Window{From: w.From, To: w.To, Step: w.To.Sub(w.From)}
	out := make(map[metrics.Name]metrics.Summary, len(chartNames))
	for _, name := range chartNames {
		series, err := metrics.SeriesOf(name, whole, buckets)
		if err != nil {
			return nil, err
		}
		out[name] = series.Summary
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
