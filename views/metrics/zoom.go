package metrics

import (
	"strings"
	"time"
)

// Piece reads the zoom: an ISO 8601 interval with both ends, such as
// 2026-11-30T12:00:00Z/2026-11-30T12:05:00Z.
func (q Query) Piece() (from, to time.Time, ok bool) {
	begin, end, cut := strings.Cut(q.Zoom, "/")
	if !cut {
		return from, to, false
	}
	from, err := time.Parse(time.RFC3339, begin)
	if err != nil {
		return from, to, false
	}
	to, err = time.Parse(time.RFC3339, end)
	return from, to, err == nil && from.Before(to)
}

// zoomed reports whether a piece of the range is shown.
func (q Query) zoomed() bool { return q.Zoom != "" }

// whole is where the same page shows the whole range.
func (q Query) whole(deploymentID string) string {
	q.Zoom = ""
	return q.url(deploymentID)
}
