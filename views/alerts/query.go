package alerts

import (
	"net/url"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Query is what a list of alerts shows; all of it is in the address.
type Query struct {
	State      factory.AlertState `query:"state"`
	Rule       factory.Rule       `query:"rule"`
	Deployment string             `query:"deployment"` // an id
	Cursor     string             `query:"cursor"`
}

// Clean leaves out what there is not.
func (q *Query) Clean() {
	if !KnownState(q.State) {
		q.State = ""
	}
	if !KnownRule(q.Rule) {
		q.Rule = ""
	}
}

func (q Query) values() url.Values {
	return url.Values{"state": {string(q.State)}, "rule": {string(q.Rule)}, "deployment": {q.Deployment}, "cursor": {q.Cursor}}
}

func (q Query) url() string { return paths.With(paths.Alerts, q.values()) }

// csv is the same list as a file, all pages of it.
func (q Query) csv() string {
	q.Cursor = ""
	return paths.With(paths.API+"/alerts.csv", q.values())
}

func (q Query) at(cursor string) string {
	q.Cursor = cursor
	return q.url()
}

// filtered reports whether something may be left out.
func (q Query) filtered() bool { return q.State != "" || q.Rule != "" || q.Deployment != "" }

func (q Query) states() []ui.Link {
	q.Cursor = ""
	out := []ui.Link{}
	for _, s := range []struct {
		state factory.AlertState
		word  string
	}{{"", "All"}, {factory.AlertFiring, "Firing"}, {factory.AlertPending, "Pending"}, {factory.AlertResolved, "Resolved"}} {
		other := q
		other.State = s.state
		out = append(out, ui.Link{Label: s.word, Href: other.url(), Current: s.state == q.State})
	}
	return out
}

// List is a page of alerts.
type List struct {
	Query
	// Open are those that fire, then those that are pending, on the first page of all states.
	Open []Alert
	// MoreOpen are so many that are open and not on the page.
	MoreOpen int
	// Rest are in the order of time, the newest first.
	Rest        []Alert
	Next        string // cursor of the page that follows
	Deployments []ui.Option
	Channels    int // how many there are that are switched on
}

func (l List) all() []Alert { return append(append([]Alert{}, l.Open...), l.Rest...) }

func (l List) newest() string {
	if l.Cursor == "" {
		return ""
	}
	return l.at("")
}

func (l List) older() string {
	if l.Next == "" {
		return ""
	}
	return l.at(l.Next)
}

// firingOnly is the list of all that fire, page by page.
func (l List) firingOnly() string {
	q := l.Query
	q.State, q.Cursor = factory.AlertFiring, ""
	return q.url()
}

func anyRule() []ui.Option {
	return append([]ui.Option{{Label: "All rules"}}, Rules...)
}
