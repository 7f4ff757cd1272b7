package billing

import (
	"time"

	"tokenfactory/factory"
)

// PeriodOf is the period of a budget that t falls in: its first moment and that of
// the next one. Periods are those of the calendar in a zone, never a number of days
// from when a budget was set. An empty period is a month.
func PeriodOf(p factory.Period, t time.Time, zone *time.Location) (from, to time.Time) {
	t = t.In(zone)
	year, month, day := t.Date()
	switch p {
	case factory.Day:
		return DayStart(year, month, day, zone), DayStart(year, month, day+1, zone)
	case factory.Week:
		monday := day - (int(t.Weekday())+6)%7
		return DayStart(year, month, monday, zone), DayStart(year, month, monday+7, zone)
	}
	return DayStart(year, month, 1, zone), DayStart(year, month+1, 1, zone)
}
