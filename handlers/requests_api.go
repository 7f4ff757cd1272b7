package handlers

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// requestJSON is a row of the ledger as GET /api/v1/requests writes it.
type requestJSON struct {
	ID               string    `json:"id"`
	Time             time.Time `json:"time"`
	Tenant           string    `json:"tenant"`
	TenantID         string    `json:"tenant_id"`
	Key              string    `json:"key"`
	KeyID            string    `json:"key_id"`
	Deployment       string    `json:"deployment"`
	DeploymentID     string    `json:"deployment_id"`
	Endpoint         string    `json:"endpoint"` // chat.completions, completions, embeddings
	ModelAsked       string    `json:"model_asked"`
	ModelServed      string    `json:"model_served"`
	Status           int       `json:"status"`
	Flags            string    `json:"flags"` // comma-separated; empty for a request that completed as it should
	Stream           bool      `json:"stream"`
	PromptTokens     int64     `json:"prompt_tokens"`
	CachedTokens     int64     `json:"cached_tokens"`
	CompletionTokens int64     `json:"completion_tokens"`
	moneyJSON
	Attempts int      `json:"attempts"`
	QueueMS  *float64 `json:"queue_ms"`
	TTFTMS   *float64 `json:"ttft_ms"`
	E2EMS    *float64 `json:"e2e_ms"`
}

type requestsJSON struct {
	Rows []requestJSON `json:"rows"`
	Next string        `json:"next"` // cursor of the next page; empty at the end
}

// A page of the ledger.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// RequestsJSON is GET /api/v1/requests.
func (h *Usage) RequestsJSON(c echo.Context) error {
	scope, err := h.apiScope(c)
	if err != nil {
		return err
	}
	q, err := h.apiQuery(c, 0)
	if err != nil {
		return err
	}
	limit := defaultLimit
	if text := c.QueryParam("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxLimit {
			return factory.Errorf(factory.Invalid, "Parameter limit: write a whole number from 1 to 1000.")
		}
	}
	list, next, err := readLedger(c.Request().Context(), h.Store, store.UsageFilter{
		TenantID: scope, From: q.from, To: q.to, Limit: limit, Cursor: c.QueryParam("cursor"),
	})
	if factory.KindOf(err) == factory.Invalid {
		return factory.Errorf(factory.Invalid, "Parameter cursor: send what “next” of the page before said, or nothing to begin again.")
	}
	if err != nil {
		return err
	}
	out := requestsJSON{Rows: make([]requestJSON, len(list)), Next: next}
	for i, e := range list {
		out.Rows[i] = requestJSON{
			ID: e.ID, Time: e.StartedAt, Tenant: e.tenant, TenantID: e.TenantID, Key: e.key, KeyID: e.KeyID,
			Deployment: e.deployment, DeploymentID: e.DeploymentID, Endpoint: e.Endpoint, ModelAsked: e.ModelAsked, ModelServed: e.ModelServed,
			Status: e.Status, Flags: e.Flags, Stream: e.Stream,
			PromptTokens: e.PromptTokens, CachedTokens: e.CachedTokens, CompletionTokens: e.CompletionTokens, moneyJSON: moneyOf(e.Amount),
			Attempts: e.Attempts, QueueMS: e.QueueMS, TTFTMS: e.TTFTMS, E2EMS: e.E2EMS,
		}
	}
	return respond.JSON(c, http.StatusOK, out)
}

// apiRange is the range of time that a program asks for: from ≤ t < to.
type apiRange struct {
	from, to time.Time
	zone     *time.Location
}

// Without a first day, usage goes back this far; with both, a range has an end.
const (
	defaultAPIDays = 30
	maxAPIDays     = 400
)

// apiQuery reads from, to and tz. Both ends are moments, or days of the zone, which
// belong to the range as a whole. With days it has defaults and a greatest length;
// without, ends that are not given stay open.
func (h *Usage) apiQuery(c echo.Context, days int) (apiRange, error) {
	q := apiRange{zone: session.Zone(c)}
	if name := c.QueryParam("tz"); name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" {
			return q, factory.Errorf(factory.Invalid, "Parameter tz: there is no time zone “%s”. Write one such as Europe/Berlin, or UTC.", name)
		}
		q.zone = zone
	}
	var err error
	if q.from, err = q.moment("from", c.QueryParam("from"), false); err != nil {
		return q, err
	}
	if q.to, err = q.moment("to", c.QueryParam("to"), true); err != nil {
		return q, err
	}
	if days > 0 {
		if q.to.IsZero() {
			q.to = h.Now()
		}
		if q.from.IsZero() {
			q.from = q.to.AddDate(0, 0, -days)
		}
		if q.to.Sub(q.from) > (maxAPIDays+1)*24*time.Hour {
			return q, factory.Errorf(factory.Invalid, "Parameter from: ask for at most 400 days at once.")
		}
	}
	if !q.from.IsZero() && !q.to.IsZero() && q.to.Before(q.from) {
		return q, factory.Errorf(factory.Invalid, "Parameter to: the end lies before the beginning.")
	}
	return q, nil
}

func (q apiRange) moment(name, text string, end bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	// A plus sign in an address reads as a blank.
	t, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+"))
	if err != nil {
		var day time.Time
		if day, err = time.Parse(time.DateOnly, text); err == nil {
			if end {
				day = day.AddDate(0, 0, 1)
			}
			t = billing.DayStart(day.Year(), day.Month(), day.Day(), q.zone)
		}
	}
	// Years outside these cannot be written as microseconds.
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return t, factory.Errorf(factory.Invalid, "Parameter %s: write a time such as 2026-12-01T00:00:00Z, or a day such as 2026-12-01.", name)
	}
	return t, nil
}
