// Package metrics draws a deployment's Metrics tab: what to look at, four cards, and
// four charts with their reading guide, or the same numbers as tables.
package metrics

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
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
	// Errors are about From and To.
	Errors factory.FieldErrors `query:"-"`
}

// Custom reports whether the range is one with fixed ends.
func (q Query) Custom() bool { return q.From != "" || q.To != "" }

// Table reports whether tables are asked for.
func (q Query) Table() bool { return q.View == "table" }

// Compared reports whether the window before is drawn under this one.
func (q Query) Compared() bool { return q.Compare == "previous" }

func (q Query) url(deploymentID string) string {
	return paths.With(paths.DeploymentMetrics(deploymentID), q.values())
}

// csv is where the same numbers are as a file.
func (q Query) csv(deploymentID string) string {
	q.View, q.Hide, q.Compare = "", "", ""
	return paths.With(paths.DeploymentMetricsCSV(deploymentID), q.values())
}

func (q Query) values() url.Values {
	v := url.Values{"view": {q.View}, "hide": {q.Hide}, "replica": {q.Replica}, "compare": {q.Compare}}
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
		next.Range, next.From, next.To = r.Value, "", ""
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

// refresh is how often the tab reads itself anew; empty for a range that is over.
func (q Query) refresh() string {
	if q.Custom() {
		return ""
	}
	r, _ := FindRange(q.Range)
	return r.Refresh
}

// hidden are the choices that the form of replicas keeps, by name.
func (q Query) hidden() []ui.Option {
	q.Replica = ""
	var out []ui.Option
	for name, values := range q.values() {
		if values[0] != "" {
			out = append(out, ui.Option{Value: name, Label: values[0]})
		}
	}
	slices.SortFunc(out, func(a, b ui.Option) int { return strings.Compare(a.Value, b.Value) })
	return out
}
