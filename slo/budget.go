package slo

import (
	"cmp"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Judged are the metrics that count good and bad requests.
var Judged = []metrics.Name{metrics.Good, metrics.Bad}

// BudgetReach is where the counts begin that the budget at a time rests on. Its
// first hour counts whole, wherever in it the window begins.
func BudgetReach(at time.Time) time.Time {
	return at.UTC().Add(-factory.ObjectiveWindow).Truncate(time.Hour)
}

// BudgetOver is the error budget that is left at the end of each step of a window: of the
// objective's whole time that ends there. Buckets are of Judged, of any resolution,
// each moment in one of them; a step under way has what is known now, and one to come
// nothing. Where nothing was judged in all that time the budget is not known.
func BudgetOver(share float64, w metrics.Window, buckets []metrics.Bucket, now time.Time) []*float64 {
	buckets = slices.Clone(buckets)
	slices.SortFunc(buckets, func(a, b metrics.Bucket) int { return a.Start.Compare(b.Start) })
	out := make([]*float64, w.Points())
	var sum Counts
	first, next := 0, 0
	for i := range out {
		begins := w.From.Add(time.Duration(i) * w.Step)
		if !begins.Before(now) {
			break
		}
		ends := earliest(begins.Add(w.Step), w.To, now)
		for ; next < len(buckets) && buckets[next].Start.Before(ends); next++ {
			sum = sum.Plus(countsOf(buckets[next]))
		}
		for reach := BudgetReach(ends); first < next && buckets[first].Start.Before(reach); first++ {
			gone := countsOf(buckets[first])
			sum = sum.Plus(Counts{Good: -gone.Good, Bad: -gone.Bad})
		}
		out[i] = known(BudgetLeft(sum, share))
	}
	return out
}

func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

func countsOf(b metrics.Bucket) Counts {
	switch b.Name {
	case metrics.Good:
		return Counts{Good: b.Sum}
	case metrics.Bad:
		return Counts{Bad: b.Sum}
	}
	return Counts{}
}

// Edge is where a window that ends now begins. Tens of seconds are soon forgotten, and
// matter to short windows only.
func Edge(now time.Time, length time.Duration) time.Time {
	from := now.UTC().Add(-length)
	if length > time.Hour {
		return from.Truncate(time.Minute)
	}
	return from.Truncate(metrics.Resolutions[0].Step)
}

// BurnPieces are what the windows of all rules rest on that end now: each moment is in one
// piece, and no bucket of it reaches over the beginning of a window.
func BurnPieces(now time.Time) []metrics.Piece {
	edges := []time.Time{now.UTC()}
	for _, w := range Windows {
		edges = append(edges, Edge(now, w.Long), Edge(now, w.Short))
	}
	slices.SortFunc(edges, time.Time.Compare)
	var pieces []metrics.Piece
	for i, from := range edges[:len(edges)-1] {
		pieces = append(pieces, metrics.Cover(from, edges[i+1])...)
	}
	// Neighbours of one resolution are read at once.
	slices.SortFunc(pieces, func(a, b metrics.Piece) int { return cmp.Or(cmp.Compare(a.Step, b.Step), a.From.Compare(b.From)) })
	var out []metrics.Piece
	for _, p := range pieces {
		if n := len(out); n > 0 && out[n-1].Step == p.Step && out[n-1].To.Equal(p.From) {
			out[n-1].To = p.To
			continue
		}
		out = append(out, p)
	}
	return out
}

// BurnCounts are the counts of the windows that end now, for Evaluate, from what was read
// of BurnPieces.
func BurnCounts(buckets []metrics.Bucket, now time.Time) func(window time.Duration) Counts {
	return func(window time.Duration) Counts {
		var c Counts
		from := Edge(now, window)
		for _, b := range buckets {
			if !b.Start.Before(from) {
				c = c.Plus(countsOf(b))
			}
		}
		return c
	}
}
