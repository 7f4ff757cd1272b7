package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/views/charts"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
)

// Places are the addresses of one audience's usage pages.
type Places struct {
	Page, CSV, Requests string
}

// Page is what a usage page shows. Everything on it is the same usage, told apart in
// several ways, so every table adds up to Total.
type Page struct {
	Query    Query
	Period   Period
	Places   Places
	Operator bool
	// Tenant is the title of the one tenant that an operator looks at.
	Tenant string
	// KeyName is that of the one key that is looked at.
	KeyName string
	Total   billing.Total

	// Spool is told to operators, where it is known.
	Spool *layout.Spool

	ByDay    []Day
	ByTenant []Row // operators only
	ByModel  []Row
	ByKey    []Row
	Recent   []Request
}

// Row is one line of a table, with the names of what it is about.
type Row struct {
	billing.Line
	Name string
	Sub  string // a second line: whose it is, or what it serves
	Href string
}

// Day is one day with what was used on it, in one line for each currency.
type Day struct {
	Date  time.Time // first moment, in the viewer's zone
	Lines []billing.Line
}

// shownRows bounds the tables of a page; the CSV has all rows.
const shownRows = 25

// Busiest sorts rows by tokens, most first, and then by name.
func Busiest(rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(tokensOf(b.Tokens), tokensOf(a.Tokens)), cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
}

func tokensOf(t factory.Tokens) int64 { return t.PromptTokens + t.CompletionTokens }

// Days spreads lines told apart by day over all days of a period: a day on which
// nothing was used is a day of zero, not a gap.
func Days(lines []billing.Line, p Period) []Day {
	of := map[string][]billing.Line{}
	for _, l := range lines {
		of[l.Day] = append(of[l.Day], l)
	}
	var days []Day
	for _, t := range billing.Days(p.From, p.To, p.Zone) {
		days = append(days, Day{Date: t, Lines: of[t.In(p.Zone).Format(time.DateOnly)]})
	}
	return days
}

func (d Day) tokens() factory.Tokens {
	var t factory.Tokens
	for _, l := range d.Lines {
		t.Requests += l.Requests
		t.PromptTokens += l.PromptTokens
		t.CachedTokens += l.CachedTokens
		t.CompletionTokens += l.CompletionTokens
	}
	return t
}

func (p Page) chart() charts.Option {
	b := charts.Bars{Unit: "tokens", Series: []charts.BarSeries{{Name: "Input"}, {Name: "Cached input"}, {Name: "Output"}}}
	for _, d := range p.ByDay {
		t := d.tokens()
		b.Categories = append(b.Categories, d.Date.In(p.Period.Zone).Format("2 Jan"))
		for i, n := range []int64{t.PromptTokens - t.CachedTokens, t.CachedTokens, t.CompletionTokens} {
			b.Series[i].Values = append(b.Series[i].Values, float64(n))
		}
	}
	return charts.Columns(b)
}

func (p Page) chartLabel() string {
	return "Tokens by day, " + p.Period.Label + ": columns of input, cached input and output tokens. The table below has the same numbers."
}

// Request is one row of the ledger with the names of what it is about.
type Request struct {
	factory.Usage
	billing.Amount
	TenantName string
	KeyName    string
}

// model is what the client asked for; served is what answered, where that has
// another name.
func (r Request) model() string {
	if r.ModelAsked != "" {
		return r.ModelAsked
	}
	return r.ModelServed
}

func (r Request) served() string {
	if r.ModelServed != "" && r.ModelServed != r.model() {
		return r.ModelServed
	}
	return ""
}

// commonCurrency is the currency of all requests, or empty when they have several.
func commonCurrency(list []Request) string {
	currency := ""
	for _, r := range list {
		switch {
		case r.Currency == "" || currency == r.Currency:
		case currency == "":
			currency = r.Currency
		default:
			return ""
		}
	}
	return currency
}

// flag is one thing to know about how a request ended.
type flag struct {
	name, word, about string
	tone              ui.Tone
}

// flags in the order in which they are explained.
var flags = []flag{
	{factory.FlagEstimated, "Estimated", "The engine did not say how many tokens it used, so the parts of the answer were counted.", ui.Warn},
	{factory.FlagAborted, "Aborted", "The client left in the middle of the answer. The prompt and the tokens made until then are charged.", ui.Plain},
	{factory.FlagAbortedPrefill, "Aborted early", "The client left before the first token. Nothing is charged.", ui.Plain},
	{factory.FlagAbortedQueue, "Aborted in queue", "The client left while the request waited. Nothing is charged.", ui.Plain},
	{factory.FlagTruncated, "Truncated", "The engine broke off in the middle of the answer. What was delivered is charged.", ui.Bad},
	{factory.FlagFailed, "Failed", "The engine failed before the first token. Nothing is charged.", ui.Bad},
}

func (r Request) flags() []flag {
	var out []flag
	for name := range strings.SplitSeq(r.Flags, ",") {
		i := slices.IndexFunc(flags, func(f flag) bool { return f.name == name })
		switch {
		case i >= 0:
			out = append(out, flags[i])
		case name != "":
			out = append(out, flag{name: name, word: name, tone: ui.Plain})
		}
	}
	if len(out) == 0 && r.Status >= 400 {
		out = append(out, flag{word: "Refused", tone: ui.Bad})
	}
	return out
}

// explained are the flags that these requests carry, each once.
func explained(requests []Request) []flag {
	var out []flag
	for _, f := range flags {
		if slices.ContainsFunc(requests, func(r Request) bool {
			return slices.ContainsFunc(r.flags(), func(g flag) bool { return g.name == f.name })
		}) {
			out = append(out, f)
		}
	}
	return out
}

// unpriced reports whether some usage has no known price.
func (p Page) unpriced() bool {
	return slices.ContainsFunc(p.ByModel, func(r Row) bool { return r.Currency == "" })
}
