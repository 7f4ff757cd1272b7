package handlers

import (
	"context"
	"slices"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
)

// book is what was used in a range of time, with the prices and names that it needs.
// Pages, API and exports all tell the same book apart, so their totals agree.
type book struct {
	items []billing.Item
	terms billing.Terms
	names names
}

// names are what ids are called, also of things that were deleted since.
type names struct {
	tenants, keys, deployments, models map[string]string
}

// nameOf is an id's name, or the id itself: a row of history is never without one.
func nameOf(names map[string]string, id string) string {
	if name := names[id]; name != "" {
		return name
	}
	return id
}

// readBook reads the usage of one tenant or, with an empty id, of all.
func readBook(ctx context.Context, s *store.Store, tenantID string, from, to time.Time, zone *time.Location) (book, error) {
	sums, err := s.UsageOfDays(ctx, tenantID, from, to, billing.Days(from, to, zone))
	if err != nil {
		return book{}, err
	}
	prices, err := s.Prices(ctx)
	if err != nil {
		return book{}, err
	}
	n, err := readNames(ctx, s)
	if err != nil {
		return book{}, err
	}
	items := make([]billing.Item, len(sums))
	for i, x := range sums {
		items[i] = billing.Item(x)
	}
	model := func(deployment string) string { return nameOf(n.models, deployment) }
	return book{billing.Compact(items, zone), billing.Terms{Zone: zone, Prices: prices, Model: model}, n}, nil
}

func readNames(ctx context.Context, s *store.Store) (names, error) {
	var n names
	var err error
	if n.tenants, err = s.TenantNames(ctx); err != nil {
		return n, err
	}
	if n.keys, err = s.KeyNames(ctx); err != nil {
		return n, err
	}
	if n.deployments, err = s.DeploymentNames(ctx); err != nil {
		return n, err
	}
	if n.models, err = s.PublicNames(ctx); err != nil {
		return n, err
	}
	gone, err := s.Gone(ctx)
	mark(n.tenants, gone.Tenants, "deleted")
	mark(n.keys, gone.Keys, "revoked")
	mark(n.deployments, gone.Deployments, "deleted")
	mark(n.models, gone.Deployments, "deleted")
	return n, err
}

// mark says of names that what had them is there no more. It tells them apart from what
// has the name now, which does not inherit what was used before.
func mark(names map[string]string, gone map[string]bool, word string) {
	for id := range gone {
		if name := names[id]; name != "" {
			names[id] = name + " (" + word + ")"
		}
	}
}

// ofKey is the part of the book that is about one key; an empty id means all of it.
func (b book) ofKey(id string) book {
	if id != "" {
		b.items = slices.DeleteFunc(slices.Clone(b.items), func(i billing.Item) bool { return i.KeyID != id })
	}
	return b
}

// by tells the book apart.
func (b book) by(dimensions ...billing.Dimension) (billing.Statement, error) {
	terms := b.terms
	terms.By = dimensions
	return terms.Make(b.items)
}

// entry is a row of the ledger with its cost and the names of what it is about.
type entry struct {
	factory.Usage
	billing.Amount
	tenant, key, deployment string
}

// readLedger reads a page of the ledger and what each request cost.
func readLedger(ctx context.Context, s *store.Store, filter store.UsageFilter) ([]entry, string, error) {
	rows, next, err := s.UsageRows(ctx, filter)
	if err != nil {
		return nil, "", err
	}
	prices, err := s.Prices(ctx)
	if err != nil {
		return nil, "", err
	}
	n, err := readNames(ctx, s)
	if err != nil {
		return nil, "", err
	}
	entries := make([]entry, len(rows))
	for i, u := range rows {
		e := entry{Usage: u, tenant: nameOf(n.tenants, u.TenantID), key: nameOf(n.keys, u.KeyID), deployment: nameOf(n.deployments, u.DeploymentID)}
		if p, known := prices[u.PriceID]; known {
			tokens := factory.Tokens{Requests: 1, PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens}
			e.Currency = p.Currency
			if e.Cost, err = billing.Rate(p, tokens); err != nil {
				return nil, "", err
			}
		}
		entries[i] = e
	}
	return entries, next, nil
}

// line is a line of a statement with the names of what it is about.
type line struct {
	billing.Line
	tenant, key, deployment, model string
}

// named gives lines their names; what they are not told apart by stays empty.
func (b book) named(lines []billing.Line) []line {
	name := func(names map[string]string, id string) string {
		if id == "" {
			return ""
		}
		return nameOf(names, id)
	}
	out := make([]line, len(lines))
	for i, l := range lines {
		out[i] = line{
			Line: l, tenant: name(b.names.tenants, l.TenantID), key: name(b.names.keys, l.KeyID),
			deployment: name(b.names.deployments, l.DeploymentID), model: l.Model,
		}
		if l.DeploymentID != "" && l.Model == "" {
			out[i].model = name(b.names.models, l.DeploymentID)
		}
	}
	return out
}
