package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/alerts"
	"tokenfactory/views/channels"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Alerts are the operators' pages of what is wrong, and was.
type Alerts struct {
	Store *store.Store
	Now   func() time.Time
}

// Alerts of a page; and of those that are open, which come before its first.
const (
	alertsPage = 50
	openMost   = 100
)

// List is the alerts that are open, and the history after them.
func (h *Alerts) List(c echo.Context) error {
	var q views.Query
	if err := c.Bind(&q); err != nil {
		return err
	}
	q.Clean()
	ctx := c.Request().Context()
	p, err := readAlertPlaces(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	l := views.List{Query: q, Deployments: p.options(q.Deployment, "All deployments")}
	if l.Channels, err = channelsOn(ctx, h.Store); err != nil {
		return err
	}
	f := store.AlertFilter{State: q.State, Rule: q.Rule, DeploymentID: q.Deployment, Cursor: q.Cursor}
	if q.State == "" {
		f.State = factory.AlertResolved
		if q.Cursor == "" {
			if err := h.open(ctx, &l, p); err != nil {
				return err
			}
		}
	}
	rest, next, err := h.Store.Alerts(ctx, f, alertsPage)
	if err != nil {
		return err
	}
	l.Rest, l.Next = p.alerts(rest), next
	return respond.Page(c, respond.View{
		Title: "Alerts", Active: layout.NavAlerts, Wide: true, Tabs: views.Tabs(paths.Alerts),
		Lede: "What is wrong now, and what was.", Body: views.ListView(l),
	})
}

// open puts what is open before the history: what fires before what is pending, what
// wakes people first, and the newest first among equals.
func (h *Alerts) open(ctx context.Context, l *views.List, p alertPlaces) error {
	open, err := h.Store.OpenAlerts(ctx)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(a factory.Alert) bool {
		return l.Rule != "" && a.Rule != l.Rule || l.Deployment != "" && a.DeploymentID != l.Deployment
	})
	slices.SortStableFunc(open, func(a, b factory.Alert) int {
		return cmp.Or(
			firstIf(a.State == factory.AlertFiring, b.State == factory.AlertFiring),
			firstIf(a.Severity == factory.Page, b.Severity == factory.Page),
			b.PendingAt.Compare(a.PendingAt))
	})
	shown := min(len(open), openMost)
	l.Open, l.MoreOpen = p.alerts(open[:shown]), len(open)-shown
	return nil
}

// firstIf compares by a property that comes first.
func firstIf(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Show is one alert.
func (h *Alerts) Show(c echo.Context) error {
	ctx := c.Request().Context()
	a, err := h.Store.Alert(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	p, err := readAlertPlaces(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	page := views.Page{Alert: p.alert(a)}
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
		if ch.Enabled {
			page.Channels++
		}
	}
	rows := make([]channels.Delivery, len(told))
	for i, d := range told {
		rows[i] = channels.Delivery{Delivery: d, Label: names[d.ChannelID], Href: paths.Channel(d.ChannelID)}
	}
	if len(rows) > 0 {
		page.Told = channels.Deliveries("Channel", rows)
	}
	v := respond.View{
		Title: a.Title, Active: layout.NavAlerts, Wide: true, State: views.State(page.Alert),
		Crumbs: []ui.Link{{Label: "Alerts", Href: paths.Alerts}}, Body: views.Show(page),
	}
	if a.ResolvedAt == nil {
		silence := page.SilenceActions()
		v.Actions, v.Menu = silence[:1], silence[1:]
	}
	return respond.Page(c, v)
}

// alertPlaces are the names of what alerts are about, and what of it is still there.
type alertPlaces struct {
	deployments, tenants map[string]string
	gone                 store.Gone
	nodes                map[string]factory.Node
	silences             []factory.Silence
	now                  time.Time
}

func readAlertPlaces(ctx context.Context, s *store.Store, now time.Time) (alertPlaces, error) {
	p := alertPlaces{nodes: map[string]factory.Node{}, now: now}
	var err error
	if p.deployments, err = s.DeploymentNames(ctx); err != nil {
		return p, err
	}
	if p.tenants, err = s.TenantNames(ctx); err != nil {
		return p, err
	}
	if p.gone, err = s.Gone(ctx); err != nil {
		return p, err
	}
	if p.silences, err = s.Silences(ctx, now); err != nil {
		return p, err
	}
	nodes, err := s.AllNodes(ctx)
	for _, n := range nodes {
		p.nodes[n.ID] = n
	}
	return p, err
}

func (p alertPlaces) alerts(list []factory.Alert) []views.Alert {
	out := make([]views.Alert, len(list))
	for i, a := range list {
		out[i] = p.alert(a)
	}
	return out
}

// alert is an alert with the names of what it is about. What was removed without a trace
// keeps the name that the alert itself remembers.
func (p alertPlaces) alert(a factory.Alert) views.Alert {
	out := views.Alert{Alert: a}
	// What an older version wrote may not read whole; the alert still shows.
	_ = json.Unmarshal(a.Detail, &out.Seen)
	if a.DeploymentID != "" {
		out.Deployment = p.deployment(a.DeploymentID)
		if r := out.Seen.Deployment; r != nil && p.deployments[a.DeploymentID] == "" {
			out.Deployment.Name = r.Name
		}
	}
	if a.NodeID != "" {
		out.Node = views.Place{ID: a.NodeID, Name: a.NodeID}
		if n, ok := p.nodes[a.NodeID]; ok {
			out.Node.Name, out.Node.Href = n.Name, paths.Node(n.ClusterID, n.ID)
		} else if r := out.Seen.Node; r != nil {
			out.Node.Name = r.Name
		}
	}
	if a.TenantID != "" {
		out.Tenant = views.Place{ID: a.TenantID, Name: cmp.Or(p.tenants[a.TenantID], a.TenantID)}
		if r := out.Seen.Tenant; r != nil && p.tenants[a.TenantID] == "" {
			out.Tenant.Name = r.Name
		} else if p.tenants[a.TenantID] != "" && !p.gone.Tenants[a.TenantID] {
			out.Tenant.Href = paths.Tenant(a.TenantID)
		}
	}
	for _, s := range p.silences {
		if s.Covers(a, p.now) {
			out.Silence = &s
		}
	}
	return out
}

// deployment is a deployment's name, with a link while it is there.
func (p alertPlaces) deployment(id string) views.Place {
	place := views.Place{ID: id, Name: cmp.Or(p.deployments[id], id)}
	if p.deployments[id] != "" && !p.gone.Deployments[id] {
		place.Href = paths.Deployment(id)
	}
	return place
}

// options are the deployments to choose from by name: those that are there, and the
// one that is chosen.
func (p alertPlaces) options(chosen, all string) []ui.Option {
	out := []ui.Option{}
	for id, name := range p.deployments {
		switch {
		case !p.gone.Deployments[id]:
			out = append(out, ui.Option{Value: id, Label: name})
		case id == chosen:
			out = append(out, ui.Option{Value: id, Label: name + " (deleted)"})
		}
	}
	slices.SortFunc(out, func(a, b ui.Option) int { return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.Value, b.Value)) })
	return append([]ui.Option{{Label: all}}, out...)
}

// channelsOn counts the channels that are told anything.
func channelsOn(ctx context.Context, s *store.Store) (int, error) {
	list, err := s.Channels(ctx)
	on := 0
	for _, c := range list {
		if c.Enabled && !c.Unreadable {
			on++
		}
	}
	return on, err
}
