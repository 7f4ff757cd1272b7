package handlers

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	views "tokenfactory/views/usage"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Usage is what was used and what it cost: the operators' pages over all tenants, a
// tenant's own, and the same for programs.
type Usage struct {
	Store *store.Store
	Now   func() time.Time
	Spool func() layout.Spool // nil where nobody can tell
}

// How many requests a usage page and a page of requests show.
const (
	recentRequests = 15
	requestsPage   = 50
)

// audience is for whom a page is: an empty tenantID sees everybody.
type audience struct {
	operator bool
	tenantID string
	title    string      // of the one tenant that an operator looks at
	key      factory.Key // the one key that is looked at
	slug     string      // for file names
	places   views.Places
}

// operators is the audience of the pages over all tenants, or of the one that the
// address names.
func (h *Usage) operators(c echo.Context, q views.Query) (audience, error) {
	a := audience{operator: true, slug: "usage", places: views.Places{Page: paths.Usage, CSV: paths.UsageCSV, Requests: paths.Requests}}
	if q.Tenant != "" {
		t, err := findTenant(c.Request().Context(), h.Store, q.Tenant)
		if err != nil {
			return a, err
		}
		a.tenantID, a.title, a.slug = t.ID, t.Title, "usage-"+t.Name
	}
	return h.ofKey(c, a, q)
}

// ofKey narrows an audience down to the key that the address names. Of another tenant
// than the audience's there is none.
func (h *Usage) ofKey(c echo.Context, a audience, q views.Query) (audience, error) {
	if q.Key == "" {
		return a, nil
	}
	var err error
	if a.tenantID != "" {
		a.key, err = h.Store.Key(c.Request().Context(), a.tenantID, q.Key)
	} else {
		a.key, err = anyKey(c.Request().Context(), h.Store, q.Key)
	}
	a.slug += "-" + a.key.Name
	return a, err
}

// anyKey finds a key of any tenant; for operators.
func anyKey(ctx context.Context, s *store.Store, id string) (factory.Key, error) {
	keys, err := s.AllKeys(ctx)
	if err != nil {
		return factory.Key{}, err
	}
	for _, k := range keys {
		if k.ID == id {
			return k, nil
		}
	}
	return factory.Key{}, factory.Errorf(factory.NotFound, "There is no such key.")
}

// own is the audience of a tenant's own pages. Without a tenant there is none:
// an empty id would mean everybody's usage.
func (h *Usage) own(c echo.Context, q views.Query) (audience, error) {
	t := session.Tenant(c)
	if t.TenantID == "" {
		return audience{}, factory.Errorf(factory.NotFound, "There is no such tenant.")
	}
	return h.ofKey(c, audience{
		tenantID: t.TenantID, slug: "usage-" + t.TenantName,
		places: views.Places{Page: paths.OwnUsage(t.TenantName), CSV: paths.OwnUsageCSV(t.TenantName), Requests: paths.OwnRequests(t.TenantName)},
	}, q)
}

// findTenant finds a tenant by id or name. Of one that was deleted the id still leads
// to its usage.
func findTenant(ctx context.Context, s *store.Store, ref string) (factory.Tenant, error) {
	for _, read := range []func(context.Context, string) (factory.Tenant, error){s.Tenant, s.TenantByName} {
		t, err := read(ctx, ref)
		if exists, err := found(err); exists || err != nil {
			return t, err
		}
	}
	deleted, err := s.TenantNames(ctx)
	if err != nil {
		return factory.Tenant{}, err
	}
	if name, ok := deleted[ref]; ok {
		return factory.Tenant{ID: ref, Name: name, Title: name}, nil
	}
	return factory.Tenant{}, factory.Errorf(factory.NotFound, "There is no tenant “%s”.", ref)
}

// query reads the address of a usage page.
func (h *Usage) query(c echo.Context, operator bool) (views.Query, views.Period, error) {
	var q views.Query
	if err := (&echo.DefaultBinder{}).BindQueryParams(c, &q); err != nil {
		return q, views.Period{}, err
	}
	if !operator {
		q.Tenant = ""
	}
	period := q.Read(h.Now(), session.Zone(c))
	return q, period, nil
}

// Show is the usage of all tenants.
func (h *Usage) Show(c echo.Context) error {
	q, period, err := h.query(c, true)
	if err != nil {
		return err
	}
	a, err := h.operators(c, q)
	if err != nil {
		return err
	}
	return h.show(c, a, q, period)
}

// Own is the usage of the tenant in the address.
func (h *Usage) Own(c echo.Context) error {
	q, period, err := h.query(c, false)
	if err != nil {
		return err
	}
	a, err := h.own(c, q)
	if err != nil {
		return err
	}
	return h.show(c, a, q, period)
}

func (h *Usage) show(c echo.Context, a audience, q views.Query, period views.Period) error {
	ctx := c.Request().Context()
	b, err := readBook(ctx, h.Store, a.tenantID, period.From, period.To, period.Zone)
	if err != nil {
		return err
	}
	b = b.ofKey(a.key.ID)
	p := views.Page{Query: q, Period: period, Places: a.places, Operator: a.operator, Tenant: a.title, KeyName: a.key.Name}
	if a.operator && h.Spool != nil {
		state := h.Spool()
		p.Spool = &state
	}
	if err := b.fill(&p); err != nil {
		return err
	}
	recent, _, err := readLedger(ctx, h.Store, store.UsageFilter{TenantID: a.tenantID, KeyID: a.key.ID, From: period.From, To: period.To, Limit: recentRequests})
	if err != nil {
		return err
	}
	p.Recent = requestsOf(recent)
	lede := "What was used and what it costs, exact to the token. A request shows up within a second."
	if a.operator {
		lede = "What tenants used and what it costs, exact to the token. A request shows up within a second."
	}
	return h.answer(c, q, respond.View{
		Title: "Usage", Active: layout.NavUsage, Lede: lede, Charts: true,
		Actions: []ui.Action{{Label: "Download CSV", Icon: "download", Href: q.Of(a.places.CSV), Download: true}},
		Body:    views.View(p),
	})
}

// answer is 422 for an address that means no range.
func (h *Usage) answer(c echo.Context, q views.Query, v respond.View) error {
	if len(q.Errors) > 0 {
		return respond.Invalid(c, v)
	}
	return respond.Page(c, v)
}

// fill tells the book apart in all the ways that a page shows.
func (b book) fill(p *views.Page) error {
	days, err := b.by(billing.ByDay)
	if err != nil {
		return err
	}
	p.Total, p.ByDay = days.Total, views.Days(days.Lines, p.Period)
	keys, err := b.by(billing.ByTenant, billing.ByKey)
	if err != nil {
		return err
	}
	models := billing.ByModel
	if p.Operator {
		models = billing.ByDeployment
		tenants, err := b.by(billing.ByTenant)
		if err != nil {
			return err
		}
		for _, l := range tenants.Lines {
			name := nameOf(b.names.tenants, l.TenantID)
			p.ByTenant = append(p.ByTenant, views.Row{Line: l, Name: name, Href: p.Query.OfTenant(p.Places.Page, l.TenantID)})
		}
		views.Busiest(p.ByTenant)
	}
	served, err := b.by(models)
	if err != nil {
		return err
	}
	for _, l := range served.Lines {
		row := views.Row{Line: l, Name: l.Model}
		if p.Operator {
			row.Name, row.Sub = nameOf(b.names.models, l.DeploymentID), "deployment "+nameOf(b.names.deployments, l.DeploymentID)
		}
		p.ByModel = append(p.ByModel, row)
	}
	for _, l := range keys.Lines {
		row := views.Row{Line: l, Name: nameOf(b.names.keys, l.KeyID)}
		if p.KeyName == "" {
			row.Href = p.Query.OfKey(p.Places.Page, l.KeyID)
		}
		if p.Operator {
			row.Sub = nameOf(b.names.tenants, l.TenantID)
		}
		p.ByKey = append(p.ByKey, row)
	}
	views.Busiest(p.ByModel)
	views.Busiest(p.ByKey)
	return nil
}

func requestsOf(entries []entry) []views.Request {
	out := make([]views.Request, len(entries))
	for i, e := range entries {
		out[i] = views.Request{Usage: e.Usage, Amount: e.Amount, TenantName: e.tenant, KeyName: e.key}
	}
	return out
}
