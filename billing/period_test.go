package billing

import (
	"testing"
	"time"

	"tokenfactory/factory"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// A budget that is set on the last of January begins anew with every month, not
// every 30 days.
func TestLM07ABudgetFollowsTheCalendar(t *testing.T) {
	at := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		period factory.Period
		resets []string
	}{
		{factory.Month, []string{"2026-02-01", "2026-03-01", "2026-04-01", "2026-05-01"}},
		{"", []string{"2026-02-01", "2026-03-01"}},
		{factory.Week, []string{"2026-02-02", "2026-02-09", "2026-02-16"}}, // Mondays
		{factory.Day, []string{"2026-02-01", "2026-02-02"}},
	} {
		now := at
		for _, want := range c.resets {
			from, to := PeriodOf(c.period, now, time.UTC)
			if got := to.Format(time.RFC3339); got != want+"T00:00:00Z" {
				t.Errorf("%s: at %v the budget begins anew at %s, want %s", c.period, now, got, want)
			}
			if from.After(now) || !to.After(now) {
				t.Errorf("%s: %v is not in %v to %v", c.period, now, from, to)
			}
			now = to
		}
	}
}

// "30 days" of a key's life are 30 days, whatever month they end in.
func TestLM07AnExpiryIsNotMovedToTheEndOfAMonth(t *testing.T) {
	expiry, err := factory.KeySpec{ExpiresAt: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC).AddDate(0, 0, 30).Format(time.RFC3339)}.Expiry()
	if err != nil || !expiry.Equal(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("%v %v", expiry, err)
	}
}

func TestLM07PeriodsAreThoseOfTheBillingZone(t *testing.T) {
	for _, c := range []struct {
		zone     string
		period   factory.Period
		at       string
		from, to string // UTC
	}{
		// Late on the 31st in New York is the 1st in UTC.
		{"America/New_York", factory.Month, "2026-02-01T03:00:00Z", "2026-01-01T05:00:00Z", "2026-02-01T05:00:00Z"},
		{"Asia/Tokyo", factory.Day, "2026-05-09T15:00:00Z", "2026-05-09T15:00:00Z", "2026-05-10T15:00:00Z"},
		{"Asia/Tokyo", factory.Day, "2026-05-09T14:59:59.999999999Z", "2026-05-08T15:00:00Z", "2026-05-09T15:00:00Z"},
		// Days of 23 and 25 hours.
		{"Europe/Berlin", factory.Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"Europe/Berlin", factory.Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		// Sunday belongs to the week that began on Monday; weeks pass over the new year.
		{"UTC", factory.Week, "2026-01-04T23:59:59Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"UTC", factory.Week, "2026-01-05T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"},
		{"UTC", factory.Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", factory.Month, "2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		// Where clocks go forward at midnight the day begins at one.
		{"America/Santiago", factory.Day, "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		from, to := PeriodOf(c.period, at, zone(t, c.zone))
		if f, u := from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339); f != c.from || u != c.to {
			t.Errorf("the %s of %s in %s is %s to %s, want %s to %s", c.period, c.at, c.zone, f, u, c.from, c.to)
		}
	}
}

// Every moment is in exactly one period, and periods follow each other without a gap.
func TestLM07PeriodsCoverTime(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		z := zone(t, name)
		for _, p := range []factory.Period{factory.Day, factory.Week, factory.Month} {
			_, at := PeriodOf(p, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), z)
			for range 400 {
				from, to := PeriodOf(p, at, z)
				last, _ := PeriodOf(p, to.Add(-1), z)
				if !from.Equal(at) || !to.After(from) || !last.Equal(from) {
					t.Fatalf("%s in %s: at %v it is %v to %v", p, name, at, from, to)
				}
				at = to
			}
		}
	}
}
