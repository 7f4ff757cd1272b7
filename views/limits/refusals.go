package limits

import (
	"cmp"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// quarter is the grain in which refusals are counted.
const quarter = 15 * time.Minute

// RefusalsFor is how far back refusals are shown.
const RefusalsFor = 30 * 24 * time.Hour

// Refused is how often one limit kept requests out.
type Refused struct {
	Scope            factory.Scope
	Kind             factory.LimitKind
	Name             string    // of the key or deployment, where a page is about several
	Day, Week, Month int64     // last 24 hours, 7 days, 30 days
	Last             time.Time // beginning of the last quarter of an hour that had one
}

// RefusedOf sums refusals up by whose limit it was and which; name tells rows of one
// scope apart and may be nil. What was refused most lately comes first.
func RefusedOf(rows []factory.Refusals, now time.Time, name func(factory.Refusals) string) []Refused {
	type place struct {
		scope factory.Scope
		kind  factory.LimitKind
		name  string
	}
	at := map[place]int{}
	var out []Refused
	for _, r := range rows {
		age := now.Sub(r.QuarterStart.Add(quarter))
		if age >= RefusalsFor {
			continue
		}
		p := place{scope: r.Scope, kind: r.Kind}
		if name != nil {
			p.name = name(r)
		}
		i, known := at[p]
		if !known {
			i = len(out)
			at[p] = i
			out = append(out, Refused{Scope: p.scope, Kind: p.kind, Name: p.name})
		}
		x := &out[i]
		x.Month += r.Count
		if age < 7*24*time.Hour {
			x.Week += r.Count
		}
		if age < 24*time.Hour {
			x.Day += r.Count
		}
		if r.QuarterStart.After(x.Last) {
			x.Last = r.QuarterStart
		}
	}
	slices.SortStableFunc(out, func(a, b Refused) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.Month, a.Month), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// whose says whose limit it was, to the reader of a page about a key or a tenant.
func (r Refused) whose() string {
	switch r.Scope {
	case factory.ScopeKey:
		return "The key’s own"
	case factory.ScopeTenant:
		return "The tenant’s"
	case factory.ScopeDeployment:
		return "The model’s"
	}
	return string(r.Scope)
}

func refusedColumns() []ui.Column {
	return []ui.Column{
		{Label: "Limit"}, {Label: "Whose"}, {Label: "24 hours", Num: true}, {Label: "7 days", Num: true}, {Label: "30 days", Num: true}, {Label: "Last, within 15 min"},
	}
}
