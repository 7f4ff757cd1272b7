// Package metrics draws a deployment's Metrics tab: what to look at, four cards, and
// four charts with their reading guide, or the same numbers as tables.
package metrics

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Range is a choice of the range picker: a length of time up to now.
type Range struct {
	Value string // as in the address
	Label string
	Span  time.Duration
	// Refresh is how often the tab reads itself anew: about as often as the picture changes.
	Refresh string
}

// Ranges are the choices, shortest first.
var Ranges = []Range{
	{"15m", "15 min", 15 * time.Minute, "5s"},
	{"1h", "1 h", time.Hour, "5s"},
	{"6h", "6 h", 6 * time.Hour, "10s"},
	{"24h", "24 h", 24 * time.Hour, "10s"},
	{"7d", "7 d", 7 * 24 * time.Hour, "10s"},
	{"30d", "30 d", 30 * 24 * time.Hour, "10s"},
}

// DefaultRange is what a bare address shows.
const DefaultRange = "1h"

// FindRange finds a choice by its value.
func FindRange(value string) (Range, bool) {
	for _, r := range Ranges {
		if r.Value == value {
			return r, true
		}
	}
	return Range{}, false
}

// Query is the tab's state, all of it from the address.
type Query struct {
	Range string `query:"range"`
	From  string `query:"from"` // of a custom range, in the viewer's zone
	To    string `query:"to"`
	View  string `query:"view"` // "table" or empty
	Hide  string `query:"hide"` // lines that were switched off, kept by the page's script
	// Replica narrows the page down to one replica; empty is all of them, merged.
	Replica string `query:"replica"`
	Compare string `query:"compare"` // "previous" or empty
	// Tenant narrows the page down to what one tenant did, and Key to one of its keys.
	Tenant string `query:"tenant"`
	Key    string `query:"key"`
	// Places are set on a tenant's own page.
	Places Places `query:"-"`
	// Zoom is a piece of the range that is looked at closely; see Piece. The range stays
	// beside it, so that leaving the zoom leads back.
	Zoom string `query:"zoom"`
	// Whole is the length of the range, whatever piece of it is shown.
	Whole time.Duration `query:"-"`
	// Errors are about From and To.
	Errors factory.FieldErrors `query:"-"`
}

// Places are the addresses of a tenant's own page and of its file. On the operators' tab
// they are empty.
type Places struct{ Page, CSV string }

// Own reports whether the page is a tenant's own.
func (q Query) Own() bool { return q.Places.Page != "" }

// LeastStep is the finest step that what is asked for is kept in; zero is the finest of all.
func (q Query) LeastStep() time.Duration {
	if q.Tenant != "" {
		return metrics.KeyStep
	}
	return 0
}

// Custom reports whether the range is one with fixed ends.
func (q Query) Custom() bool { return q.From != "" || q.To != "" }

// Table reports whether tables are asked for.
func (q Query) Table() bool { return q.View == "table" }

// Compared reports whether the window before is drawn under this one.
func (q Query) Compared() bool { return q.Compare == "previous" }

func (q Query) url(deploymentID string) string {
	return paths.With(q.page(deploymentID), q.values())
}

// page is the address without a query, which forms are sent to.
func (q Query) page(deploymentID string) string {
	if q.Own() {
		return q.Places.Page
	}
	return paths.DeploymentMetrics(deploymentID)
}

// csv is where the same numbers are as a file.
func (q Query) csv(deploymentID string) string {
	q.View, q.Hide, q.Compare = "", "", ""
	file := paths.DeploymentMetricsCSV(deploymentID)
	if q.Own() {
		file = q.Places.CSV
	}
	return paths.With(file, q.values())
}

func (q Query) values() url.Values {
	v := url.Values{"view": {q.View}, "hide": {q.Hide}, "replica": {q.Replica}, "compare": {q.Compare}, "zoom": {q.Zoom}, "key": {q.Key}}
	if !q.Own() {
		v["tenant"] = []string{q.Tenant}
	}
	if q.Custom() {
		v["from"], v["to"] = []string{q.From}, []string{q.To}
	} else if q.Range != DefaultRange {
		v["range"] = []string{q.Range}
	}
	return v
}

func (q Query) ranges(deploymentID string) []ui.Link {
	var out []ui.Link
	for _, r := range Ranges {
		next := q
		next.Range, next.From, next.To, next.Zoom = r.Value, "", "", ""
		out = append(out, ui.Link{Label: r.Label, Href: next.url(deploymentID), Current: !q.Custom() && q.Range == r.Value})
	}
	return out
}

func (q Query) views(deploymentID string) []ui.Link {
	chart, table := q, q
	chart.View, table.View = "", "table"
	return []ui.Link{
		{Label: "Charts", Href: chart.url(deploymentID), Current: !q.Table()},
		{Label: "Table", Href: table.url(deploymentID), Current: q.Table()},
	}
}

func (q Query) comparisons(deploymentID string) []ui.Link {
	alone, compared := q, q
	alone.Compare, compared.Compare = "", "previous"
	return []ui.Link{
		{Label: "This range", Href: alone.url(deploymentID), Current: !q.Compared()},
		{Label: "With the one before", Href: compared.url(deploymentID), Current: q.Compared()},
	}
}

// wider is the page without the last thing that it is narrowed down to: on a tenant's own
// page the key, on the operators' tab the tenant.
func (q Query) wider() Query {
	q.Key = ""
	if !q.Own() {
		q.Tenant = ""
	}
	return q
}

// refresh is how often the tab reads itself anew; empty for a range that is over.
func (q Query) refresh() string {
	if q.Custom() {
		return ""
	}
	r, _ := FindRange(q.Range)
	return r.Refresh
}

// hidden are the choices that a form keeps, by name: all but those that it makes.
func (q Query) hidden(but ...string) []ui.Option {
	var out []ui.Option
	for name, values := range q.values() {
		if values[0] != "" && !slices.Contains(but, name) {
			out = append(out, ui.Option{Value: name, Label: values[0]})
		}
	}
	slices.SortFunc(out, func(a, b ui.Option) int { return strings.Compare(a.Value, b.Value) })
	return out
}
