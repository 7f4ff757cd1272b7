package billing

import (
	"strings"
	"testing"
	"time"
)

func TestDaysBeginWhenTheyDoAlsoWhenClocksChange(t *testing.T) {
	for _, c := range []struct {
		zone  string
		day   string
		start string // UTC
		hours float64
	}{
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", 23},
		{"Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", 25},
		{"Europe/Berlin", "2026-12-01", "2026-11-30T23:00:00Z", 24},
		// Clocks went from midnight to one o'clock: the day began at one.
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", 23},
		{"Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z", 23},
		{"Asia/Kathmandu", "2026-12-01", "2026-11-30T18:15:00Z", 24},
		{"UTC", "2026-12-01", "2026-12-01T00:00:00Z", 24},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, c.day)
		if err != nil {
			t.Fatal(err)
		}
		start := DayStart(day.Year(), day.Month(), day.Day(), zone)
		if got := start.UTC().Format(time.RFC3339); got != c.start {
			t.Errorf("%s in %s begins at %s, want %s", c.day, c.zone, got, c.start)
		}
		next := DayAfter(start, zone)
		if hours := next.Sub(start).Hours(); hours != c.hours {
			t.Errorf("%s in %s has %v hours, want %v", c.day, c.zone, hours, c.hours)
		}
		if again := DayOf(next.Add(-time.Microsecond), zone); !again.Equal(start) {
			t.Errorf("the last moment of %s in %s belongs to the day of %s", c.day, c.zone, again)
		}
	}
}

func TestEveryDayOfARangeIsListedOnce(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from, to := DayStart(2026, 10, 23, zone), DayStart(2026, 10, 27, zone)
	dates := func(from, to time.Time) []string {
		var out []string
		for _, d := range Days(from, to, zone) {
			out = append(out, d.In(zone).Format(time.DateOnly))
		}
		return out
	}
	if got := strings.Join(dates(from, to), " "); got != "2026-10-23 2026-10-24 2026-10-25 2026-10-26" {
		t.Errorf("got %s", got)
	}
	if got := dates(to, to); len(got) != 0 {
		t.Errorf("an empty range has days %v", got)
	}
	if got := dates(from.Add(30*time.Hour), from.Add(31*time.Hour)); len(got) != 1 || got[0] != "2026-10-24" {
		t.Errorf("an hour is on %v", got)
	}
}
