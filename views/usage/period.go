// Package usage is how usage and its cost look: to operators, and to the members of
// one tenant.
package usage

import (
	"net/url"
	"strings"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Query is what the address of a usage page says: a named range, or first and last
// day. Operators may look at one tenant, everybody at one key.
type Query struct {
	Range  string `query:"range"`
	From   string `query:"from"`
	To     string `query:"to"`
	Tenant string `query:"tenant"`
	Key    string `query:"key"` // id of the one key to look at
	Cursor string `query:"cursor"`

	Errors factory.FieldErrors `query:"-"`
}

// DefaultRange is shown when the address names none.
const DefaultRange = "7d"

var ranges = []struct{ name, label string }{
	{"today", "Today"}, {"7d", "7 days"}, {"30d", "30 days"}, {"month", "This month"}, {"last-month", "Last month"},
}

// maxDays bounds a range: a chart of more days cannot be read.
const maxDays = 400

// Period is a range of whole days of the viewer: From ≤ t < To.
type Period struct {
	From, To time.Time
	Zone     *time.Location
	Label    string
}

// Read turns a query into the period that it means. What is wrong with it is left in
// q.Errors, and the default range is shown instead.
func (q *Query) Read(now time.Time, zone *time.Location) Period {
	q.Errors = factory.FieldErrors{}
	q.Range, q.From, q.To = strings.TrimSpace(q.Range), strings.TrimSpace(q.From), strings.TrimSpace(q.To)
	if q.Range == "" && (q.From != "" || q.To != "") {
		if p, ok := q.days(now, zone); ok {
			return p
		}
		return named(DefaultRange, now, zone)
	}
	if q.Range == "" {
		q.Range = DefaultRange
	}
	p := named(q.Range, now, zone)
	if p.Label == "" {
		q.Errors.Add("range", "There is no range “"+q.Range+"”. Choose one of those below.")
		q.Range = DefaultRange
		return named(DefaultRange, now, zone)
	}
	q.From, q.To = "", ""
	return p
}

func named(name string, now time.Time, zone *time.Location) Period {
	local := now.In(zone)
	y, m, d := local.Date()
	p := Period{Zone: zone, To: billing.DayStart(y, m, d+1, zone)}
	switch name {
	case "today":
		p.From, p.Label = billing.DayStart(y, m, d, zone), "today"
	case "7d":
		p.From, p.Label = billing.DayStart(y, m, d-6, zone), "last 7 days"
	case "30d":
		p.From, p.Label = billing.DayStart(y, m, d-29, zone), "last 30 days"
	case "month":
		p.From, p.Label = billing.DayStart(y, m, 1, zone), local.Format("January 2006")
	case "last-month":
		p.From, p.To = billing.DayStart(y, m-1, 1, zone), billing.DayStart(y, m, 1, zone)
		p.Label = p.From.Format("January 2006")
	}
	return p
}

// days reads first and last day; one that is missing is today, or the first day of
// the last day's month.
func (q *Query) days(now time.Time, zone *time.Location) (Period, bool) {
	day := func(field, text string) time.Time {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil || t.Year() < 2000 || t.Year() > 9999 {
			q.Errors.Add(field, "Write a day such as "+now.In(zone).Format(time.DateOnly)+".")
		}
		return t
	}
	if q.To == "" {
		q.To = now.In(zone).Format(time.DateOnly)
	}
	last := day("to", q.To)
	if q.From == "" {
		q.From = last.Format("2006-01") + "-01"
	}
	first := day("from", q.From)
	if len(q.Errors) == 0 && last.Before(first) {
		q.Errors.Add("to", "The last day lies before the first. Swap them.")
	}
	if len(q.Errors) == 0 && last.Sub(first) >= maxDays*24*time.Hour {
		q.Errors.Add("from", "These are more than 400 days. Choose a later first day.")
	}
	if len(q.Errors) > 0 {
		return Period{}, false
	}
	return Period{
		From: billing.DayStart(first.Year(), first.Month(), first.Day(), zone),
		To:   billing.DayStart(last.Year(), last.Month(), last.Day()+1, zone),
		Zone: zone, Label: dayRange(first, last),
	}, true
}

func dayRange(first, last time.Time) string {
	const full = "2 Jan 2006"
	switch {
	case first.Equal(last):
		return last.Format(full)
	case first.Year() == last.Year():
		return first.Format("2 Jan") + " – " + last.Format(full)
	}
	return first.Format(full) + " – " + last.Format(full)
}

// FirstDay and LastDay are the period's ends as date inputs take them.
func (p Period) FirstDay() string { return p.From.In(p.Zone).Format(time.DateOnly) }
func (p Period) LastDay() string {
	return p.To.Add(-time.Microsecond).In(p.Zone).Format(time.DateOnly)
}

// values are the query without its cursor, for links that keep what is looked at.
func (q Query) values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Range != DefaultRange {
		set("range", q.Range)
	}
	set("from", q.From)
	set("to", q.To)
	set("tenant", q.Tenant)
	set("key", q.Key)
	return v
}

// Of is another page for the same time, tenant and key.
func (q Query) Of(path string) string { return paths.With(path, q.values()) }

// at is the same page for a named range.
func (q Query) at(path, name string) string {
	q.Range, q.From, q.To = name, "", ""
	return q.Of(path)
}

// OfTenant is the same page for one tenant; empty means all.
func (q Query) OfTenant(path, tenant string) string {
	q.Tenant, q.Key = tenant, ""
	return q.Of(path)
}

// OfKey is the same page for one key; empty means all.
func (q Query) OfKey(path, key string) string {
	q.Key = key
	return q.Of(path)
}

func (q Query) older(path, cursor string) string {
	v := q.values()
	v.Set("cursor", cursor)
	return paths.With(path, v)
}

func (q Query) segments(path string) []ui.Link {
	links := make([]ui.Link, len(ranges))
	for i, r := range ranges {
		links[i] = ui.Link{Label: r.label, Href: q.at(path, r.name), Current: q.Range == r.name && len(q.Errors) == 0}
	}
	return links
}
