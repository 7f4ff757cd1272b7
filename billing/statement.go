package billing

import (
	"cmp"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"tokenfactory/factory"
)

// Item is usage of one key of one deployment under one version of its price, by
// requests that began in a quarter of an hour: the finest that statements are
// made of. Every time zone's days are whole quarters.
type Item struct {
	QuarterStart time.Time
	TenantID     string
	KeyID        string
	DeploymentID string
	PriceID      string
	factory.Tokens
	Estimated int64 // requests whose tokens were counted, because the engine said none
	Aborted   int64 // requests whose client left
}

// Dimension is what lines of a statement may be told apart by.
type Dimension string

const (
	ByDay        Dimension = "day"
	ByTenant     Dimension = "tenant"
	ByKey        Dimension = "key"
	ByDeployment Dimension = "deployment"
	ByModel      Dimension = "model" // the name that clients send
)

// Dimensions in the order in which lines are sorted by them.
var Dimensions = []Dimension{ByDay, ByTenant, ByKey, ByDeployment, ByModel}

// Group says what a line is about. Fields that lines are not told apart by are empty.
type Group struct {
	Day          string // 2026-12-01, in the statement's zone
	TenantID     string
	KeyID        string
	DeploymentID string
	Model        string
}

// Line is what one group used, and what that costs in one currency. Usage without a
// known price has no currency.
type Line struct {
	Group
	factory.Tokens
	Estimated int64
	Aborted   int64
	Amount
}

// Total is the sum of a statement's lines. Costs has an entry for each currency.
type Total struct {
	factory.Tokens
	Estimated int64
	Aborted   int64
	Costs     []Amount
}

// Statement is usage with its cost. The total is the exact sum of the lines.
type Statement struct {
	Lines []Line
	Total Total
}

// Terms are how a statement is made.
type Terms struct {
	By     []Dimension
	Zone   *time.Location                 // of days; UTC when nil
	Prices map[string]factory.Price       // by id, all versions
	Model  func(deployment string) string // the name that clients send; needed for ByModel
}

// Make adds items up into lines, sorted by group and then currency.
func (t Terms) Make(items []Item) (Statement, error) {
	if t.Zone == nil {
		t.Zone = time.UTC
	}
	lines := map[Group]map[purse]*Line{}
	rates := map[string]Rates{}
	for _, it := range items {
		r, err := t.rates(rates, it.PriceID)
		if err != nil {
			return Statement{}, err
		}
		g := t.group(it)
		p := purse{r.Currency, r.Free}
		if lines[g] == nil {
			lines[g] = map[purse]*Line{}
		}
		l := lines[g][p]
		if l == nil {
			l = &Line{Group: g, Amount: Amount{Currency: r.Currency}}
			lines[g][p] = l
		}
		l.add(it.Tokens, it.Estimated, it.Aborted, r.Cost(it.Tokens))
	}
	return finish(lines), nil
}

// rates reads each price once. A price that is not known costs nothing and has no
// currency, which is how a line tells it from free.
func (t Terms) rates(known map[string]Rates, priceID string) (Rates, error) {
	if r, ok := known[priceID]; ok {
		return r, nil
	}
	var r Rates
	if p, ok := t.Prices[priceID]; ok {
		var err error
		if r, err = RatesOf(p); err != nil {
			return r, err
		}
	}
	known[priceID] = r
	return r, nil
}

func (t Terms) group(it Item) Group {
	var g Group
	for _, d := range t.By {
		switch d {
		case ByDay:
			g.Day = it.QuarterStart.In(t.Zone).Format(time.DateOnly)
		case ByTenant:
			g.TenantID = it.TenantID
		case ByKey:
			g.KeyID = it.KeyID
		case ByDeployment:
			g.DeploymentID = it.DeploymentID
		case ByModel:
			g.Model = t.Model(it.DeploymentID)
		}
	}
	return g
}

// purse keeps free usage apart until a line's currencies are known.
type purse struct {
	currency string
	free     bool
}

func (l *Line) add(t factory.Tokens, estimated, aborted int64, cost decimal.Decimal) {
	l.Tokens = plus(l.Tokens, t)
	l.Estimated += estimated
	l.Aborted += aborted
	l.Cost = l.Cost.Add(cost)
}

// finish sorts the lines and adds them up. Free usage has a currency in name only,
// so it joins what else its group paid: nobody wants a second line of 0 USD beside
// their euros.
func finish(lines map[Group]map[purse]*Line) Statement {
	var s Statement
	paid := map[string]bool{}
	for _, purses := range lines {
		for p := range purses {
			paid[p.currency] = paid[p.currency] || p.currency != "" && !p.free
		}
	}
	home := firstPaid(paid)
	for _, purses := range lines {
		merged := map[string]*Line{}
		for p, l := range purses {
			if !p.free {
				merged[p.currency] = l
			}
		}
		own := map[string]bool{}
		for currency := range merged {
			own[currency] = currency != ""
		}
		for p, l := range purses {
			if p.free {
				join(merged, l, cmp.Or(firstPaid(own), home, p.currency))
			}
		}
		for _, l := range merged {
			s.Lines = append(s.Lines, *l)
		}
	}
	slices.SortFunc(s.Lines, func(a, b Line) int { return cmp.Or(a.compare(b.Group), cmp.Compare(a.Currency, b.Currency)) })
	s.Total = totalOf(s.Lines)
	return s
}

func join(merged map[string]*Line, free *Line, currency string) {
	l := merged[currency]
	if l == nil {
		free.Currency = currency
		merged[currency] = free
		return
	}
	l.add(free.Tokens, free.Estimated, free.Aborted, free.Cost)
}

func firstPaid(currencies map[string]bool) string {
	first := ""
	for c, paid := range currencies {
		if paid && (first == "" || c < first) {
			first = c
		}
	}
	return first
}

func (g Group) compare(h Group) int {
	return cmp.Or(cmp.Compare(g.Day, h.Day), cmp.Compare(g.TenantID, h.TenantID), cmp.Compare(g.KeyID, h.KeyID),
		cmp.Compare(g.DeploymentID, h.DeploymentID), cmp.Compare(g.Model, h.Model))
}

func totalOf(lines []Line) Total {
	var t Total
	amounts := make([]Amount, 0, len(lines))
	for _, l := range lines {
		t.Tokens = plus(t.Tokens, l.Tokens)
		t.Estimated += l.Estimated
		t.Aborted += l.Aborted
		if l.Currency != "" {
			amounts = append(amounts, l.Amount)
		}
	}
	t.Costs = Sum(amounts...)
	return t
}
