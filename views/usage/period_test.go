package usage

import (
	"strings"
	"testing"
	"time"
)

func TestRangesAreWholeDaysOfTheViewer(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 25, 23, 30, 0, 0, time.UTC) // already the 26th in Berlin, the day after clocks went back
	for _, c := range []struct {
		query    Query
		zone     *time.Location
		from, to string
	}{
		{Query{}, berlin, "2026-10-20 00:00 CEST", "2026-10-27 00:00 CET"},
		{Query{Range: "today"}, berlin, "2026-10-26 00:00 CET", "2026-10-27 00:00 CET"},
		{Query{Range: "today"}, time.UTC, "2026-10-25 00:00 UTC", "2026-10-26 00:00 UTC"},
		{Query{Range: "30d"}, berlin, "2026-09-27 00:00 CEST", "2026-10-27 00:00 CET"},
		{Query{Range: "month"}, berlin, "2026-10-01 00:00 CEST", "2026-10-27 00:00 CET"},
		{Query{Range: "last-month"}, berlin, "2026-09-01 00:00 CEST", "2026-10-01 00:00 CEST"},
		{Query{From: "2026-10-25", To: "2026-10-25"}, berlin, "2026-10-25 00:00 CEST", "2026-10-26 00:00 CET"},
		{Query{From: "2026-10-01"}, berlin, "2026-10-01 00:00 CEST", "2026-10-27 00:00 CET"},
		{Query{To: "2026-02-10"}, time.UTC, "2026-02-01 00:00 UTC", "2026-02-11 00:00 UTC"},
	} {
		q := c.query
		p := q.Read(now, c.zone)
		const layout = "2006-01-02 15:04 MST"
		if got, to := p.From.Format(layout), p.To.Format(layout); got != c.from || to != c.to || len(q.Errors) > 0 {
			t.Errorf("%+v: from %s to %s %v, want %s to %s", c.query, got, to, q.Errors, c.from, c.to)
		}
	}
}

func TestAWrongRangeIsReportedAndTheDefaultShown(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for field, q := range map[string]Query{
		"range": {Range: "forever"},
		"from":  {From: "yesterday", To: "2026-12-01"},
		"to":    {From: "2026-12-01", To: "2026-11-30"},
	} {
		typed := q
		p := q.Read(now, time.UTC)
		if q.Errors[field] == "" || p.FirstDay() != "2026-11-25" || p.LastDay() != "2026-12-01" {
			t.Errorf("%+v: %v, shows %s to %s", typed, q.Errors, p.FirstDay(), p.LastDay())
		}
		if q.From != typed.From || q.To != typed.To {
			t.Errorf("%+v: what was typed is lost: %+v", typed, q)
		}
	}
	long := Query{From: "2020-01-01", To: "2026-11-30"}
	if long.Read(now, time.UTC); !strings.Contains(long.Errors["from"], "400 days") {
		t.Errorf("a range of years: %v", long.Errors)
	}
}

func TestLinksKeepWhatIsLookedAt(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	q := Query{From: "2026-11-01", To: "2026-11-30", Tenant: "acme", Cursor: "abc"}
	q.Read(now, time.UTC)
	for got, want := range map[string]string{
		q.Of("/usage.csv"):          "/usage.csv?from=2026-11-01&tenant=acme&to=2026-11-30",
		q.at("/usage", "30d"):       "/usage?range=30d&tenant=acme",
		q.at("/usage", "7d"):        "/usage?tenant=acme",
		q.OfTenant("/usage", ""):    "/usage?from=2026-11-01&to=2026-11-30",
		q.older("/usage", "n e=xt"): "/usage?cursor=n+e%3Dxt&from=2026-11-01&tenant=acme&to=2026-11-30",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
