package handlers

import (
	"testing"
	"time"

	tab "tokenfactory/views/metrics"
)

func TestZoomIsShownInTheFinestStepsThatAreKept(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 5, 0, time.UTC)
	for _, c := range []struct {
		name, shown, zoom string
		step, span        time.Duration // of the window; zero step: the zoom is dropped
	}{
		{"five minutes of six hours", "6h", "2026-11-30T11:00:00Z/2026-11-30T11:05:00Z", 10 * time.Second, 5 * time.Minute},
		{"an hour of the day before", "24h", "2026-11-29T13:00:00Z/2026-11-29T14:00:00Z", time.Minute, time.Hour},
		{"a day of last month", "30d", "2026-11-10T00:00:00Z/2026-11-11T00:00:00Z", time.Hour, 24 * time.Hour},
		{"outside of the range, which has moved on", "15m", "2026-11-30T11:00:00Z/2026-11-30T11:05:00Z", 10 * time.Second, 5 * time.Minute},
		{"too short to see anything", "1h", "2026-11-30T11:30:00Z/2026-11-30T11:30:10Z", 10 * time.Second, time.Minute},
		{"too short for what is kept", "30d", "2026-11-10T12:10:00Z/2026-11-10T12:20:00Z", time.Hour, 6 * time.Hour},
		{"into the future", "1h", "2026-11-30T11:50:00Z/2026-11-30T12:30:00Z", 10 * time.Second, 10*time.Minute + 5*time.Second},
		{"all of the range", "15m", "2026-11-30T11:40:00Z/2026-11-30T12:00:05Z", 0, 0},
		{"in the future", "15m", "2026-12-30T11:00:00Z/2026-12-30T11:05:00Z", 0, 0},
		{"older than anything kept", "30d", "2020-11-30T11:00:00Z/2020-11-30T11:05:00Z", 0, 0},
		{"no interval", "1h", "the last five minutes", 0, 0},
	} {
		q := tab.Query{Range: c.shown, Zoom: c.zoom}
		w, errs := windowOf(&q, now, time.UTC)
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs)
		}
		if dropped := q.Zoom == ""; dropped != (c.step == 0) {
			t.Errorf("%s: dropped %v", c.name, dropped)
			continue
		}
		if c.step == 0 {
			if r, _ := tab.FindRange(c.shown); w.To != now || w.To.Sub(w.From) < r.Span-w.Step {
				t.Errorf("%s: not the range, but %+v", c.name, w)
			}
			continue
		}
		if w.Step != c.step || w.To.Sub(w.From) != c.span {
			t.Errorf("%s: %s in steps of %s", c.name, w.To.Sub(w.From), w.Step)
		}
		if r, _ := tab.FindRange(c.shown); (q.Whole - r.Span).Abs() > 2*time.Hour {
			t.Errorf("%s: the range is %s long", c.name, q.Whole)
		}
	}
}
