package handlers

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"tokenfactory/billing"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	views "tokenfactory/views/usage"
	"tokenfactory/web/respond"
)

// Requests is the ledger of all tenants.
func (h *Usage) Requests(c echo.Context) error {
	q, period, err := h.query(c, true)
	if err != nil {
		return err
	}
	a, err := h.operators(c, q)
	if err != nil {
		return err
	}
	return h.requests(c, a, q, period)
}

// OwnRequests is the ledger of the tenant in the address.
func (h *Usage) OwnRequests(c echo.Context) error {
	q, period, err := h.query(c, false)
	if err != nil {
		return err
	}
	a, err := h.own(c, q)
	if err != nil {
		return err
	}
	return h.requests(c, a, q, period)
}

func (h *Usage) requests(c echo.Context, a audience, q views.Query, period views.Period) error {
	list, next, err := readLedger(c.Request().Context(), h.Store, store.UsageFilter{
		TenantID: a.tenantID, KeyID: a.key.ID, From: period.From, To: period.To, Limit: requestsPage, Cursor: q.Cursor,
	})
	if err != nil {
		return err
	}
	p := views.Page{Query: q, Period: period, Places: a.places, Operator: a.operator, Tenant: a.title, KeyName: a.key.Name, Recent: requestsOf(list)}
	return h.answer(c, q, respond.View{
		Title: "Requests", Active: layout.NavUsage, Wide: true,
		Crumbs: []ui.Link{{Label: "Usage", Href: q.Of(a.places.Page)}},
		Lede:   "Every request in the ledger, newest first: it is written once and never changed.",
		Body:   views.RequestsView(p, next),
	})
}

// CSV is the usage of all tenants as a file.
func (h *Usage) CSV(c echo.Context) error {
	q, period, err := h.query(c, true)
	if err != nil {
		return err
	}
	a, err := h.operators(c, q)
	if err != nil {
		return err
	}
	return h.csv(c, a, q, period)
}

// OwnCSV is the usage of the tenant in the address as a file.
func (h *Usage) OwnCSV(c echo.Context) error {
	q, period, err := h.query(c, false)
	if err != nil {
		return err
	}
	a, err := h.own(c, q)
	if err != nil {
		return err
	}
	return h.csv(c, a, q, period)
}

// csv tells usage apart by everything, so that any sum can be made from the file.
func (h *Usage) csv(c echo.Context, a audience, q views.Query, period views.Period) error {
	if err := q.Errors.Err(); err != nil {
		return err
	}
	b, err := readBook(c.Request().Context(), h.Store, a.tenantID, period.From, period.To, period.Zone)
	if err != nil {
		return err
	}
	s, err := b.ofKey(a.key.ID).by(billing.ByDay, billing.ByTenant, billing.ByKey, billing.ByDeployment)
	if err != nil {
		return err
	}
	header := []string{"day", "tenant", "key", "model", "deployment", "requests", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "currency", "estimated", "aborted"}
	rows := make([][]string, len(s.Lines))
	for i, l := range b.named(s.Lines) {
		cost := ""
		if l.Currency != "" {
			cost = billing.Text(l.Cost)
		}
		rows[i] = []string{
			l.Day, l.tenant, l.key, l.model, l.deployment,
			digits(l.Requests), digits(l.PromptTokens), digits(l.CachedTokens), digits(l.CompletionTokens), cost, l.Currency, digits(l.Estimated), digits(l.Aborted),
		}
	}
	return respond.CSV(c, a.slug+"-"+period.FirstDay()+"-"+period.LastDay()+".csv", header, rows)
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }
