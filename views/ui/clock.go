package ui

import (
	"context"
	"time"
)

func fullTime(ctx context.Context, t time.Time) string {
	return t.In(From(ctx).Zone).Format("Mon 2 Jan 2006, 15:04:05 MST")
}

// shortTime leaves out what is the same as now: the year, and today's date.
func shortTime(ctx context.Context, t time.Time) string {
	r := From(ctx)
	local, now := t.In(r.Zone), r.Now.In(r.Zone)
	switch {
	case local.Year() != now.Year():
		return local.Format("2 Jan 2006, 15:04")
	case local.YearDay() != now.YearDay():
		return local.Format("2 Jan, 15:04")
	default:
		return local.Format("15:04:05")
	}
}
