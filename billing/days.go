package billing

import "time"

// DayStart is the first moment of a day in a zone. Where clocks go forward at
// midnight a day begins later than that, and time.Date may answer with the evening
// before. Months and days outside their range are carried over.
func DayStart(year int, month time.Month, day int, zone *time.Location) time.Time {
	noon := time.Date(year, month, day, 12, 0, 0, 0, zone)
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	for t.Day() != noon.Day() {
		t = t.Add(15 * time.Minute)
	}
	return t
}

// DayOf is the first moment of the day that t falls on in a zone.
func DayOf(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return DayStart(t.Year(), t.Month(), t.Day(), zone)
}

// DayAfter is the first moment of the day after t's. A day has 23, 24 or 25 hours.
func DayAfter(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return DayStart(t.Year(), t.Month(), t.Day()+1, zone)
}

// Days lists the first moments of the days that from ≤ t < to touches.
func Days(from, to time.Time, zone *time.Location) []time.Time {
	var days []time.Time
	for t := DayOf(from, zone); t.Before(to); t = DayAfter(t, zone) {
		days = append(days, t)
	}
	return days
}
