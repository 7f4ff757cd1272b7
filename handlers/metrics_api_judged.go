package handlers

import (
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	tab "tokenfactory/views/metrics"
	"tokenfactory/web/session"
)

// apiBudget is the error budget of a deployment as a whole. What is left is a share, 1 is
// all of it, at the end of each step of t; null where nothing was judged in the
// objective's window. Windows of burn rules are those that end now.
type apiBudget struct {
	Share         float64    `json:"share"` // of the requests that have to be good
	WindowSeconds int64      `json:"window_seconds"`
	TargetsAt     time.Time  `json:"targets_at"`
	Left          []*float64 `json:"left"`
	Windows       []burnJSON `json:"windows"`
}

// judged adds the diagnosis and the error budget to the answer. They are about the
// deployment, its engines and machines, so that they are for operators, and no tenant's
// or key's part of it has one.
func (h *Metrics) judged(c echo.Context, out *apiMetrics, d factory.Deployment, of traffic, w metrics.Window, series map[metrics.Name]metrics.Series, now time.Time) error {
	if !session.Person(c).Operator() || of.TenantID != "" {
		return nil
	}
	ctx := c.Request().Context()
	at, err := readDeployment(ctx, h.Store, d.ID, now)
	if err != nil {
		return err
	}
	m := tab.Measured{Window: w, Now: now, Series: series}
	if m.Machines, err = h.machines(ctx, at, w, now, of.ReplicaID); err != nil {
		return err
	}
	verdict, err := h.verdict(ctx, at, m, of.ReplicaID)
	if err != nil {
		return err
	}
	buckets, err := (traffic{}).fills(ctx, h.Store, d.ID, slo.Judged, w, now)
	if err != nil {
		return err
	}
	budget, err := h.budget(ctx, d, w, buckets, now)
	if err != nil {
		return err
	}
	out.Diagnosis = &verdict.Diagnosis
	out.Budget = &apiBudget{
		Share: budget.Share, WindowSeconds: seconds(factory.ObjectiveWindow), TargetsAt: d.TargetsAt,
		Left: allRounded(budget.Left, 6), Windows: windowsOf(budget.Burns, budget.Share),
	}
	return nil
}
