package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/store"
	views "tokenfactory/views/alerts"
	"tokenfactory/web/respond"
)

// alertJSON is an alert in the API. What it is about has the name that it has now, or had
// last.
type alertJSON struct {
	ID         string             `json:"id"`
	Subject    string             `json:"subject"`
	State      factory.AlertState `json:"state"`
	Severity   factory.Severity   `json:"severity"`
	Rule       factory.Rule       `json:"rule"`
	Title      string             `json:"title"`
	Deployment *alertPlaceJSON    `json:"deployment"`
	Node       *alertPlaceJSON    `json:"node"`
	Tenant     *alertPlaceJSON    `json:"tenant"`
	Silenced   bool               `json:"silenced"` // now
	PendingAt  time.Time          `json:"pending_at"`
	FiringAt   *time.Time         `json:"firing_at"`
	BelowAt    *time.Time         `json:"below_at"` // right again since, while it fires
	ResolvedAt *time.Time         `json:"resolved_at"`
	Detail     json.RawMessage    `json:"detail"` // as the webhook sends it
}

type alertPlaceJSON struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
}

func placeJSON(p views.Place) *alertPlaceJSON {
	if p.ID == "" {
		return nil
	}
	return &alertPlaceJSON{p.ID, p.Name, p.Href == ""}
}

func jsonOfAlert(a views.Alert) alertJSON {
	return alertJSON{
		ID: a.ID, Subject: a.Subject, State: a.Alert.State, Severity: a.Severity, Rule: a.Rule, Title: a.Title,
		Deployment: placeJSON(a.Deployment), Node: placeJSON(a.Node), Tenant: placeJSON(a.Tenant), Silenced: a.Silence != nil,
		PendingAt: a.PendingAt, FiringAt: a.FiringAt, BelowAt: a.BelowAt, ResolvedAt: a.ResolvedAt, Detail: a.Detail,
	}
}

// apiFilter reads what a program asks for. A deployment is named by id, name or public
// name; one that was deleted by its id.
func (h *Alerts) apiFilter(c echo.Context) (store.AlertFilter, error) {
	f := store.AlertFilter{
		State: factory.AlertState(c.QueryParam("state")), Rule: factory.Rule(c.QueryParam("rule")), Cursor: c.QueryParam("cursor"),
	}
	if f.State != "" && !views.KnownState(f.State) {
		return f, factory.Errorf(factory.Invalid, "Parameter state: write firing, pending or resolved.")
	}
	if f.Rule != "" && !views.KnownRule(f.Rule) {
		return f, factory.Errorf(factory.Invalid, "Parameter rule: write burn, absent, offline, drift or budget.")
	}
	var err error
	f.DeploymentID, err = deploymentID(c.Request().Context(), h.Store, c.QueryParam("deployment"))
	return f, err
}

// deploymentID finds a deployment by what people and programs call it; nothing stays nothing.
func deploymentID(ctx context.Context, s *store.Store, ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	names, err := s.DeploymentNames(ctx)
	if err != nil || names[ref] != "" {
		return ref, err
	}
	d, err := s.FindDeployment(ctx, ref)
	return d.ID, err
}

// ListJSON is a page of alerts, the newest first.
func (h *Alerts) ListJSON(c echo.Context) error {
	f, err := h.apiFilter(c)
	if err != nil {
		return err
	}
	limit := defaultLimit
	if text := c.QueryParam("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxLimit {
			return factory.Errorf(factory.Invalid, "Parameter limit: write a whole number from 1 to 1000.")
		}
	}
	ctx := c.Request().Context()
	p, err := readAlertPlaces(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	list, next, err := h.Store.Alerts(ctx, f, limit)
	if err != nil {
		return err
	}
	out := make([]alertJSON, len(list))
	for i, a := range p.alerts(list) {
		out[i] = jsonOfAlert(a)
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"alerts": out, "next": next})
}

// deliveryJSON is one thing that was told, or is still to be.
type deliveryJSON struct {
	ID        string                `json:"id"`
	ChannelID string                `json:"channel_id"`
	Channel   string                `json:"channel"`
	Change    factory.Change        `json:"change"`
	State     factory.DeliveryState `json:"state"`
	Attempts  int                   `json:"attempts"`
	NextAt    *time.Time            `json:"next_at"` // while it waits
	Answer    string                `json:"answer"`
	CreatedAt time.Time             `json:"created_at"`
	DoneAt    *time.Time            `json:"done_at"`
}

func jsonOfDelivery(d factory.Delivery, channel string) deliveryJSON {
	out := deliveryJSON{
		ID: d.ID, ChannelID: d.ChannelID, Channel: channel, Change: d.Change, State: d.State, Attempts: d.Attempts, Answer: d.Answer,
		CreatedAt: d.CreatedAt, DoneAt: d.DoneAt,
	}
	if d.State == factory.DeliveryWaiting {
		out.NextAt = &d.NextAt
	}
	return out
}

// ShowJSON is one alert with who was told of it.
func (h *Alerts) ShowJSON(c echo.Context) error {
	ctx := c.Request().Context()
	a, err := h.Store.Alert(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	p, err := readAlertPlaces(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	told, err := h.Store.AlertDeliveries(ctx, a.ID)
	if err != nil {
		return err
	}
	list, err := h.Store.Channels(ctx)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, ch := range list {
		names[ch.ID] = ch.Name
	}
	out := struct {
		alertJSON
		Deliveries []deliveryJSON `json:"deliveries"`
	}{jsonOfAlert(p.alert(a)), []deliveryJSON{}}
	for _, d := range told {
		out.Deliveries = append(out.Deliveries, jsonOfDelivery(d, names[d.ChannelID]))
	}
	return respond.JSON(c, http.StatusOK, out)
}

// CSV is all alerts that match as a file, the newest first.
func (h *Alerts) CSV(c echo.Context) error {
	f, err := h.apiFilter(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	p, err := readAlertPlaces(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	var rows [][]string
	for more := true; more; more = f.Cursor != "" {
		var list []factory.Alert
		if list, f.Cursor, err = h.Store.Alerts(ctx, f, maxLimit); err != nil {
			return err
		}
		for _, a := range p.alerts(list) {
			rows = append(rows, alertRow(a))
		}
	}
	header := []string{"id", "state", "severity", "rule", "title", "deployment", "deployment_id", "node", "tenant", "pending_at", "firing_at", "resolved_at", "signature"}
	return respond.CSV(c, "alerts.csv", header, rows)
}

func alertRow(a views.Alert) []string {
	moment := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	var signature slo.Signature
	if d := a.Seen.Diagnosis; d != nil {
		signature = d.Signature
	}
	return []string{
		a.ID, string(a.Alert.State), string(a.Severity), string(a.Rule), a.Title, a.Deployment.Name, a.DeploymentID, a.Node.Name, a.Tenant.Name,
		moment(&a.PendingAt), moment(a.FiringAt), moment(a.ResolvedAt), string(signature),
	}
}
