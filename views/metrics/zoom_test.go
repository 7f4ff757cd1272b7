package metrics

import (
	"strings"
	"testing"
	"time"
)

func TestPieceIsAnIntervalWithBothEnds(t *testing.T) {
	for zoom, want := range map[string]time.Duration{
		"2026-11-30T12:00:00Z/2026-11-30T12:05:00Z":      5 * time.Minute,
		"2026-11-30T12:00:00Z/2026-11-30T14:00:00+01:00": time.Hour,
		"2026-11-30T12:05:00Z/2026-11-30T12:00:00Z":      0,
		"2026-11-30T12:00:00Z/2026-11-30T12:00:00Z":      0,
		"2026-11-30T12:00:00Z":                           0,
		"yesterday/today":                                0,
		"/":                                              0,
		"":                                               0,
	} {
		from, to, ok := Query{Zoom: zoom}.Piece()
		if ok != (want > 0) || (ok && to.Sub(from) != want) {
			t.Errorf("%q: %s to %s, %v", zoom, from, to, ok)
		}
	}
}

func TestZoomStaysInAddressesUntilAnotherRangeIsChosen(t *testing.T) {
	q := Query{Range: "6h", Zoom: "2026-11-30T12:00:00Z/2026-11-30T12:05:00Z"}
	for _, address := range []string{q.url("d"), q.csv("d"), q.views("d")[1].Href, q.comparisons("d")[1].Href} {
		if !strings.Contains(address, "zoom=2026-11-30T12%3A00%3A00Z%2F2026-11-30T12%3A05%3A00Z") {
			t.Errorf("%s lost the zoom", address)
		}
	}
	for _, l := range q.ranges("d") {
		if strings.Contains(l.Href, "zoom=") {
			t.Errorf("%s keeps the zoom", l.Href)
		}
	}
	if got := q.whole("d"); got != "/deployments/d/metrics?range=6h" {
		t.Error(got)
	}
	if q.refresh() == "" {
		t.Error("a zoom ends the refreshing")
	}
}
