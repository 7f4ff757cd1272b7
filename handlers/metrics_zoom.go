package handlers

import (
	"time"

	"tokenfactory/metrics"
	tab "tokenfactory/views/metrics"
)

// fewestPoints are the least that a zoom shows: with fewer there is no course to see.
const fewestPoints = 6

// pieceOf is the window of a query's zoom, in the finest steps that are kept of that time.
// One that cannot be shown, or is no smaller than the range, is dropped.
func pieceOf(q *tab.Query, whole metrics.Window, now time.Time) metrics.Window {
	from, to, ok := q.Piece()
	if to.After(now) {
		to = now
	}
	if !ok || !from.Before(to) || to.Sub(from) >= whole.To.Sub(whole.From) {
		q.Zoom = ""
		return whole
	}
	w, err := metrics.NewWindow(from, to, now, q.LeastStep())
	if err == nil && to.Sub(from) < fewestPoints*w.Step {
		w, err = widened(from, to, now, w.Step)
	}
	if err != nil {
		q.Zoom = ""
		return whole
	}
	return w
}

// widened lets a piece that is too short grow on both sides, and to the left only where it
// would reach into the future.
func widened(from, to, now time.Time, step time.Duration) (metrics.Window, error) {
	to = from.Add(to.Sub(from)/2 + fewestPoints*step/2).Truncate(step)
	if to.After(now) {
		to = now
	}
	return metrics.NewWindow(to.Add(-fewestPoints*step), to, now, step)
}
