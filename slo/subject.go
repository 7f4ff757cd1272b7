package slo

import (
	"context"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Source is where measurements are read.
type Source interface {
	Buckets(ctx context.Context, deploymentID string, step time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error)
}

// Subject is what a diagnosis is of. Alerts and the page ask the same questions of it, so
// that they come to the same verdict over the same window.
type Subject struct {
	Deployment factory.Deployment
	// Replicas are those that run it now, with the GPUs that they hold.
	Replicas []factory.Replica
	// Only is the one replica that is looked at; empty is all that the deployment does.
	Only string
}

// Figures reads what the diagnosis needs of a range: the subject's own metrics, and those
// of the GPUs that its replicas hold.
func (s Subject) Figures(ctx context.Context, src Source, from, to time.Time) (Figures, error) {
	var buckets []metrics.Bucket
	for _, p := range metrics.Cover(from, to) {
		part, err := src.Buckets(ctx, s.Deployment.ID, p.Step, Diagnosed, p.From, p.To)
		if err != nil {
			return Figures{}, err
		}
		if s.Only != "" {
			part = slices.DeleteFunc(part, func(b metrics.Bucket) bool { return b.ReplicaID != s.Only })
		}
		buckets = append(buckets, part...)
		for node, held := range s.held() {
			if part, err = src.Buckets(ctx, node, p.Step, DiagnosedOfGPUs, p.From, p.To); err != nil {
				return Figures{}, err
			}
			buckets = append(buckets, slices.DeleteFunc(part, func(b metrics.Bucket) bool { return !slices.Contains(held, b.ReplicaID) })...)
		}
	}
	of := map[metrics.Name]metrics.Summary{}
	whole := metrics.Window{From: from.Truncate(metrics.Resolutions[0].Step), To: to, Step: to.Sub(from) + time.Hour}
	for _, name := range slices.Concat(Diagnosed, DiagnosedOfGPUs) {
		x, err := metrics.SeriesOf(name, whole, buckets)
		if err != nil {
			return Figures{}, err
		}
		of[name] = x.Summary
	}
	f := FiguresOf(of)
	f.Started = s.Started(from, to)
	return f, nil
}

// held are the GPUs in use, by node.
func (s Subject) held() map[string][]string {
	out := map[string][]string{}
	for _, x := range s.Replicas {
		if len(x.GPUUUIDs) > 0 && (s.Only == "" || x.ID == s.Only) {
			out[x.NodeID] = append(out[x.NodeID], x.GPUUUIDs...)
		}
	}
	return out
}

// Holds reports whether a replica that is looked at runs on a GPU of a node.
func (s Subject) Holds(nodeID, uuid string) bool { return slices.Contains(s.held()[nodeID], uuid) }

// Started is how many replicas became ready in a range.
func (s Subject) Started(from, to time.Time) int {
	n := 0
	for _, x := range s.Replicas {
		if (s.Only == "" || x.ID == s.Only) && x.ReadyAt != nil && !x.ReadyAt.Before(from) && x.ReadyAt.Before(to) {
			n++
		}
	}
	return n
}

// Diagnose holds the figures of a range against its past, which it reads, and against what
// the deployment promises. Where nothing happened no past says more.
func (s Subject) Diagnose(ctx context.Context, src Source, now Figures, from, to time.Time) (Diagnosis, error) {
	var was Figures
	var past *Span
	if now.TTFT.N > 0 || now.Failures > 0 {
		for _, day := range Past(from, to) {
			found, err := s.Figures(ctx, src, day.From, day.To)
			if err != nil {
				return Diagnosis{}, err
			}
			if found.TTFT.N > 0 || found.Requests > 0 {
				was, past = found, &Span{day.From, day.To}
			}
			if found.TTFT.N >= leastSamples {
				break
			}
		}
	}
	d := Diagnose(now, was, PromisesOf(s.Deployment.DeploymentSpec))
	d.Past = past
	return d, nil
}

const (
	pastLength = 24 * time.Hour
	// shortPart is how many short windows of a burn rule its long window has.
	shortPart = 12
)

// Past is the day that a range is held against; where too little was measured then, the
// next is taken. The first keeps away from the range as far as a burn rule's long window
// reaches before its short one, since the trouble may have begun there. A deployment
// that is younger than that has only the day right before the range.
func Past(from, to time.Time) []Span {
	length := to.Sub(from)
	away := max(length, min(shortPart*length, Windows[len(Windows)-1].Long))
	out := []Span{dayUntil(to.Add(-away))}
	if near := dayUntil(from); near != out[0] {
		out = append(out, near)
	}
	return out
}

// dayUntil is a day in whole hours, of which a year is kept and a day is few rows.
func dayUntil(end time.Time) Span {
	end = end.UTC().Truncate(time.Hour)
	return Span{end.Add(-pastLength), end}
}
