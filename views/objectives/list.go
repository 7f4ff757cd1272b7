package objectives

import (
	"net/url"
	"strconv"
	"strings"

	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Filter is what the list shows; it is in the address.
type Filter struct {
	Text  string // in names and models
	Show  string // all, alerting, overspent, idle
	After string // the last row of the page before
}

func (f Filter) path(show, after string) string {
	return paths.With(paths.Objectives, url.Values{"q": {f.Text}, "show": {show}, "after": {after}})
}

// Finds reports whether the text that is looked for is in an objective.
func (f Filter) Finds(o Objective) bool {
	text := strings.ToLower(f.Text)
	for _, s := range []string{o.Name, o.PublicName, o.Model} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

// choice is one of the views of the list.
type choice struct {
	show, label string
	has         func(Objective) bool
}

var choices = []choice{
	{"", "All", func(Objective) bool { return true }},
	{"alerting", "Alerting", func(o Objective) bool { return o.Alert != "" }},
	{"overspent", "Overspent", func(o Objective) bool { return o.Left != nil && *o.Left <= 0 }},
	{"idle", "No data", func(o Objective) bool { return o.Left == nil }},
}

// List is one page of the objectives that match.
type List struct {
	Rows   []Objective
	Total  int // of all objectives, before the filter
	Filter Filter
	Next   string // where the next page begins; empty at the end
	counts map[string]int
}

// rowsOfPage is how many objectives a page of the list has.
const rowsOfPage = 100

// ListOf cuts one page out of all objectives, which are in order.
func ListOf(all []Objective, f Filter) List {
	l := List{Total: len(all), Filter: f, counts: map[string]int{}}
	for _, o := range all {
		if !f.Finds(o) {
			continue
		}
		for _, c := range choices {
			if !c.has(o) {
				continue
			}
			l.counts[c.show]++
			if c.show == f.Show {
				l.Rows = append(l.Rows, o)
			}
		}
	}
	if last, ok := placeOf(f.After); ok {
		for len(l.Rows) > 0 && l.Rows[0].Compare(last) <= 0 {
			l.Rows = l.Rows[1:]
		}
	}
	if len(l.Rows) > rowsOfPage {
		l.Rows = l.Rows[:rowsOfPage]
		l.Next = l.Rows[rowsOfPage-1].place()
	}
	return l
}

// place is where a row stands in the order, not its number: a row that comes or goes
// moves nothing else.
func (o Objective) place() string {
	if o.Left == nil {
		return "~" + o.Name
	}
	return strconv.FormatFloat(*o.Left, 'g', -1, 64) + "~" + o.Name
}

func placeOf(text string) (o Objective, ok bool) {
	left, name, ok := strings.Cut(text, "~")
	o.Name = name
	if left == "" {
		return o, ok
	}
	v, err := strconv.ParseFloat(left, 64)
	o.Left = &v
	return o, ok && err == nil
}

func (l List) segments() []ui.Link {
	var out []ui.Link
	for _, c := range choices {
		out = append(out, ui.Link{Label: c.label + " " + ui.Count(l.counts[c.show]), Href: l.Filter.path(c.show, ""), Current: l.Filter.Show == c.show})
	}
	return out
}
