package handlers

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// usageJSON is what GET /api/v1/usage answers.
type usageJSON struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Zone  string    `json:"tz"`
	Rows  []sumJSON `json:"rows"`
	Total totalJSON `json:"total"`
}

// figuresJSON are the counts of a row or a total.
type figuresJSON struct {
	Requests         int64 `json:"requests"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Estimated        int64 `json:"estimated"`
	Aborted          int64 `json:"aborted"`
}

// moneyJSON is a cost as decimal text. Both are null where there is no price, and
// where a total has several currencies.
type moneyJSON struct {
	Cost     *string `json:"cost"`
	Currency *string `json:"currency"`
}

// sumJSON is a row of a statement. Ids tell apart what has the same name.
type sumJSON struct {
	Day          string `json:"day,omitempty"`
	Tenant       string `json:"tenant,omitempty"`
	TenantID     string `json:"tenant_id,omitempty"`
	Key          string `json:"key,omitempty"`
	KeyID        string `json:"key_id,omitempty"`
	Deployment   string `json:"deployment,omitempty"`
	DeploymentID string `json:"deployment_id,omitempty"`
	Model        string `json:"model,omitempty"`
	figuresJSON
	moneyJSON
}

type totalJSON struct {
	figuresJSON
	moneyJSON
	Costs []moneyJSON `json:"costs"` // one for each currency
}

// apiScope is the tenant that a program is limited to; empty for operators.
func (h *Usage) apiScope(c echo.Context) (string, error) {
	p := session.Person(c)
	if !p.Known() {
		return "", factory.Errorf(factory.Unauthenticated, "Send a management token or a key of scope management as “Authorization: Bearer …”.")
	}
	scope, err := session.Scope(c)
	if err != nil {
		return "", err
	}
	if p.Operator() && scope != "" {
		t, err := findTenant(c.Request().Context(), h.Store, scope)
		return t.ID, err
	}
	if !p.Operator() && scope == "" {
		return "", factory.Errorf(factory.Forbidden, "You belong to no tenant.")
	}
	return scope, nil
}

// SumsJSON is GET /api/v1/usage.
func (h *Usage) SumsJSON(c echo.Context) error {
	scope, err := h.apiScope(c)
	if err != nil {
		return err
	}
	q, err := h.apiQuery(c, defaultAPIDays)
	if err != nil {
		return err
	}
	by, err := grouping(c.QueryParam("group"))
	if err != nil {
		return err
	}
	b, err := readBook(c.Request().Context(), h.Store, scope, q.from, q.to, q.zone)
	if err != nil {
		return err
	}
	s, err := b.by(by...)
	if err != nil {
		return err
	}
	out := usageJSON{From: q.from.UTC(), To: q.to.UTC(), Zone: q.zone.String(), Rows: make([]sumJSON, len(s.Lines))}
	for i, l := range b.named(s.Lines) {
		out.Rows[i] = sumJSON{
			Day: l.Day, Tenant: l.tenant, TenantID: l.TenantID, Key: l.key, KeyID: l.KeyID,
			Deployment: l.deployment, DeploymentID: l.DeploymentID, Model: l.model,
			figuresJSON: figuresOf(l.Tokens, l.Estimated, l.Aborted), moneyJSON: moneyOf(l.Amount),
		}
	}
	out.Total = totalOf(s.Total)
	return respond.JSON(c, http.StatusOK, out)
}

func figuresOf(t factory.Tokens, estimated, aborted int64) figuresJSON {
	return figuresJSON{t.Requests, t.PromptTokens, t.CachedTokens, t.CompletionTokens, estimated, aborted}
}

func moneyOf(a billing.Amount) moneyJSON {
	if a.Currency == "" {
		return moneyJSON{}
	}
	cost := billing.Text(a.Cost)
	return moneyJSON{&cost, &a.Currency}
}

func totalOf(t billing.Total) totalJSON {
	out := totalJSON{figuresJSON: figuresOf(t.Tokens, t.Estimated, t.Aborted), Costs: make([]moneyJSON, len(t.Costs))}
	for i, a := range t.Costs {
		out.Costs[i] = moneyOf(a)
	}
	switch {
	case len(out.Costs) == 1:
		out.moneyJSON = out.Costs[0]
	case t.Requests == 0:
		zero := "0"
		out.Cost = &zero
	}
	return out
}

// grouping reads group=day,tenant,…; without one, usage is told apart by day.
func grouping(text string) ([]billing.Dimension, error) {
	if text == "" {
		return []billing.Dimension{billing.ByDay}, nil
	}
	var by []billing.Dimension
	for part := range strings.SplitSeq(text, ",") {
		d := billing.Dimension(strings.TrimSpace(part))
		if !slices.Contains(billing.Dimensions, d) {
			return nil, factory.Errorf(factory.Invalid, "Parameter group: there is no “%s”. Use any of day, tenant, key, deployment, model, separated by commas.", d)
		}
		by = append(by, d)
	}
	return by, nil
}
