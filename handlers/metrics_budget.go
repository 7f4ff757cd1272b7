package handlers

import (
	"context"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	tab "tokenfactory/views/metrics"
)

// budget is the error budget of a deployment over a window, of which the buckets are read
// already, and how fast it is used up now. What came before the window is read in hours.
func (h *Metrics) budget(ctx context.Context, d factory.Deployment, w metrics.Window, buckets []metrics.Bucket, now time.Time) (*tab.Budget, error) {
	reach := slo.BudgetReach(w.From)
	var judged []metrics.Bucket
	for _, p := range metrics.Cover(reach, w.From) {
		part, err := h.Store.PlainBuckets(ctx, d.ID, p.Step, p.Step, slo.Judged, p.From, p.To)
		if err != nil {
			return nil, err
		}
		judged = append(judged, part...)
	}
	for _, b := range buckets {
		if slices.Contains(slo.Judged, b.Name) {
			judged = append(judged, b)
		}
	}
	counts, err := burnCounts(ctx, h.Store, now, d.ID)
	if err != nil {
		return nil, err
	}
	share := d.ObjectiveShare()
	out := &tab.Budget{
		Share: share, Left: slo.BudgetOver(share, w, judged, now),
		Burns: slo.Evaluate(share, func(window time.Duration) slo.Counts { return counts[window][d.ID] }),
	}
	if d.TargetsAt.After(d.CreatedAt) && d.TargetsAt.After(reach) {
		out.TargetsAt = &d.TargetsAt
	}
	return out, nil
}
