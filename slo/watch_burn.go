package slo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

var judged = []metrics.Name{metrics.Good, metrics.Bad}

// burn looks at the error budget of a deployment. Nearly all are fine nearly always, so it
// reads the few hourly sums first and the exact windows only when those have enough bad
// requests for any rule.
func (r *round) burn(ctx context.Context, d factory.Deployment) error {
	longest := Windows[len(Windows)-1].Long
	rough, err := r.counts(ctx, d.ID, metrics.Piece{From: r.now.Add(-longest).Truncate(time.Hour), To: r.now, Step: time.Hour})
	if err != nil {
		return err
	}
	exact := map[time.Duration]Counts{}
	if rough.Bad >= LeastBad {
		for _, w := range Windows {
			for _, length := range []time.Duration{w.Long, w.Short} {
				if _, read := exact[length]; read {
					continue
				}
				if exact[length], err = r.counts(ctx, d.ID, metrics.Cover(r.edge(length), r.now)...); err != nil {
					return err
				}
			}
		}
	}
	share := d.ObjectiveShare()
	for _, s := range Evaluate(share, func(window time.Duration) Counts { return exact[window] }) {
		r.sights = append(r.sights, r.burning(d, share, s))
	}
	return nil
}

// edge is where a window that ends now begins. Tens of seconds are soon forgotten, and
// matter to short windows only.
func (r *round) edge(length time.Duration) time.Time {
	from := r.now.Add(-length)
	if length > time.Hour {
		return from.Truncate(time.Minute)
	}
	return from
}

func (r *round) counts(ctx context.Context, deploymentID string, pieces ...metrics.Piece) (Counts, error) {
	var c Counts
	for _, p := range pieces {
		buckets, err := r.Store.Buckets(ctx, deploymentID, p.Step, judged, p.From, p.To)
		if err != nil {
			return Counts{}, err
		}
		for _, b := range buckets {
			if b.Name == metrics.Good {
				c.Good += b.Sum
			} else {
				c.Bad += b.Sum
			}
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
	from, to := r.edge(w.Long), r.now
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
	month, err := r.counts(ctx, d.ID, metrics.Piece{From: r.now.Add(-factory.ObjectiveWindow).Truncate(time.Hour), To: r.now, Step: time.Hour})
	if err != nil {
		return p, err
	}
	p.Figures["budget_left"] = known(BudgetLeft(month, share))
	was, err := r.figures(ctx, d, r.now.Add(-w.Long-24*time.Hour).Truncate(time.Hour), r.now.Add(-w.Long).Truncate(time.Hour))
	if err != nil {
		return p, err
	}
	for _, length := range []time.Duration{w.Short, w.Long} {
		from := r.edge(length)
		now, err := r.figures(ctx, d, from, r.now)
		if err != nil {
			return p, err
		}
		found := Diagnose(now, was, PromisesOf(d.DeploymentSpec))
		seen := r.ofDeployment(d, from, r.now)
		p.Diagnosis, p.URL, p.From, p.To = &found, seen.URL, seen.From, seen.To
		if found.Signature != NotEnough {
			break
		}
	}
	return p, nil
}

// figures reads what the diagnosis needs of a range: the deployment's metrics, and those of
// the GPUs that its replicas hold.
func (r *round) figures(ctx context.Context, d factory.Deployment, from, to time.Time) (Figures, error) {
	var buckets []metrics.Bucket
	for _, p := range metrics.Cover(from, to) {
		part, err := r.Store.Buckets(ctx, d.ID, p.Step, Diagnosed, p.From, p.To)
		if err != nil {
			return Figures{}, err
		}
		buckets = append(buckets, part...)
		for _, x := range r.replicas[d.ID] {
			if len(x.GPUUUIDs) == 0 {
				continue
			}
			if part, err = r.Store.Buckets(ctx, x.NodeID, p.Step, DiagnosedOfGPUs, p.From, p.To); err != nil {
				return Figures{}, err
			}
			buckets = append(buckets, slices.DeleteFunc(part, func(b metrics.Bucket) bool { return !slices.Contains(x.GPUUUIDs, b.ReplicaID) })...)
		}
	}
	of := map[metrics.Name]metrics.Summary{}
	whole := metrics.Window{From: from.Truncate(metrics.Resolutions[0].Step), To: to, Step: to.Sub(from) + time.Hour}
	for _, name := range slices.Concat(Diagnosed, DiagnosedOfGPUs) {
		s, err := metrics.SeriesOf(name, whole, buckets)
		if err != nil {
			return Figures{}, err
		}
		of[name] = s.Summary
	}
	f := FiguresOf(of)
	for _, x := range r.replicas[d.ID] {
		if x.ReadyAt != nil && !x.ReadyAt.Before(from) && x.ReadyAt.Before(to) {
			f.Started++
		}
	}
	return f, nil
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
