package slo

import (
	"context"
	"fmt"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// burn looks at the error budget of a deployment. Nearly all are fine nearly always, so it
// reads the few hourly sums first and the exact windows only when those have enough bad
// requests for any rule.
func (r *round) burn(ctx context.Context, d factory.Deployment) error {
	longest := Windows[len(Windows)-1].Long
	rough, err := r.counts(ctx, d.ID, metrics.Piece{From: r.now.Add(-longest).Truncate(time.Hour), To: r.now, Step: time.Hour})
	if err != nil {
		return err
	}
	var exact []metrics.Bucket
	if rough.Bad >= LeastBad {
		for _, p := range BurnPieces(r.now) {
			part, err := r.Store.Buckets(ctx, d.ID, p.Step, Judged, p.From, p.To)
			if err != nil {
				return err
			}
			exact = append(exact, part...)
		}
	}
	share := d.ObjectiveShare()
	for _, s := range Evaluate(share, BurnCounts(exact, r.now)) {
		r.sights = append(r.sights, r.burning(d, share, s))
	}
	return nil
}

func (r *round) counts(ctx context.Context, deploymentID string, pieces ...metrics.Piece) (Counts, error) {
	var c Counts
	for _, p := range pieces {
		buckets, err := r.Store.Buckets(ctx, deploymentID, p.Step, Judged, p.From, p.To)
		if err != nil {
			return Counts{}, err
		}
		for _, b := range buckets {
			c = c.Plus(countsOf(b))
		}
	}
	return c, nil
}

func (r *round) burning(d factory.Deployment, share float64, b BurnState) sight {
	w := b.Window
	s := sight{Condition: Condition{
		Subject: fmt.Sprintf("burn/%s/%s/%s", w.Severity, WindowName(w.Long), d.ID), Rule: factory.RuleBurn, Severity: w.Severity,
		DeploymentID: d.ID, Finding: b.Finding(),
	}}
	s.Title = fmt.Sprintf("%s uses up its error budget more than %g times as fast as planned, over %s and over %s.", d.Name, w.Factor, WindowName(w.Long), WindowName(w.Short))
	from, to := Edge(r.now, w.Long), r.now
	s.payload = r.ofDeployment(d, from, to)
	s.payload.Figures = map[string]*float64{
		"burn_long": b.Long, "burn_short": b.Short, "burn_limit": &w.Factor, "objective": &share,
		"good": &b.Counts.Good, "bad": &b.Counts.Bad, "budget_left": nil,
	}
	s.diagnose = func(ctx context.Context) (Payload, error) { return r.blame(ctx, d, share, w, s.payload) }
	return s
}

// blame diagnoses the short window, which shows the trouble undiluted; the long one when
// the short has too few requests.
func (r *round) blame(ctx context.Context, d factory.Deployment, share float64, w BurnWindow, p Payload) (Payload, error) {
	month, err := r.counts(ctx, d.ID, metrics.Piece{From: BudgetReach(r.now), To: r.now, Step: time.Hour})
	if err != nil {
		return p, err
	}
	p.Figures["budget_left"] = known(BudgetLeft(month, share))
	subject := Subject{Deployment: d, Replicas: r.replicas[d.ID]}
	for _, length := range []time.Duration{w.Short, w.Long} {
		from := Edge(r.now, length)
		now, err := subject.Figures(ctx, r.Store, from, r.now)
		if err != nil {
			return p, err
		}
		found, err := subject.Diagnose(ctx, r.Store, now, from, r.now)
		if err != nil {
			return p, err
		}
		seen := r.ofDeployment(d, from, r.now)
		p.Diagnosis, p.URL, p.From, p.To = &found, seen.URL, seen.From, seen.To
		if found.Signature != NotEnough {
			break
		}
	}
	return p, nil
}

func (r *round) ofDeployment(d factory.Deployment, from, to time.Time) Payload {
	from, to = from.UTC(), to.UTC()
	p := Payload{Deployment: &Ref{d.ID, d.Name}, From: &from, To: &to}
	if r.Links.Deployment != nil {
		p.URL = r.Links.Deployment(d.ID, from, to)
	}
	return p
}

// WindowName writes a window's length as people do: 5m, 1h, 3d.
func WindowName(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}
