package handlers

import (
	"encoding/json"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/slo/notify"
	"tokenfactory/store"
	alerts "tokenfactory/views/alerts"
	views "tokenfactory/views/channels"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Channels are the operators' pages of where alerts are delivered. Whatever leaves here
// has its settings masked.
type Channels struct {
	Store     *store.Store
	Deliver   func() // has what is queued sent at once
	PublicURL string
	Now       func() time.Time

	secrets reveal
}

const deliveriesPage = 25

// masked is a channel as views get it.
func masked(c factory.Channel) views.Channel {
	c.Settings = notify.Mask(c.Settings)
	return views.Channel{Channel: c}
}

// List is every channel with the last thing that was told to it.
func (h *Channels) List(c echo.Context) error {
	list, err := h.list(c)
	if err != nil {
		return err
	}
	v := respond.View{
		Title: "Alerts", Active: layout.NavAlerts, Wide: true, Tabs: alerts.Tabs(paths.Channels),
		Lede: "Who is told of alerts, and how.", Body: views.List(list),
	}
	if len(list) > 0 {
		v.Actions = []ui.Action{{Label: "New channel", Icon: "plus", Href: paths.NewChannel, Primary: true}}
	}
	return respond.Page(c, v)
}

func (h *Channels) list(c echo.Context) ([]views.Channel, error) {
	ctx := c.Request().Context()
	list, err := h.Store.Channels(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]views.Channel, len(list))
	for i, ch := range list {
		out[i] = masked(ch)
		last, _, err := h.Store.DeliveriesOf(ctx, ch.ID, "", 1)
		if err != nil {
			return nil, err
		}
		if len(last) > 0 {
			out[i].Last = &views.Delivery{Delivery: last[0]}
		}
	}
	return out, nil
}

// Show is one channel: where it leads, and what was told to it.
func (h *Channels) Show(c echo.Context) error {
	ctx := c.Request().Context()
	ch, err := h.Store.Channel(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	p := views.Page{
		Channel: masked(ch), Cursor: c.QueryParam("cursor"),
		Headers: views.Headers{Delivery: notify.HeaderDelivery, Timestamp: notify.HeaderTimestamp, Signature: notify.HeaderSignature},
	}
	told, next, err := h.Store.DeliveriesOf(ctx, ch.ID, p.Cursor, deliveriesPage)
	if err != nil {
		return err
	}
	p.Next = next
	for _, d := range told {
		p.Deliveries = append(p.Deliveries, toldOf(d))
	}
	if p.Test, err = h.test(c, ch.ID); err != nil {
		return err
	}
	// Live parts of the page are no reading of the secret.
	if !respond.IsHTMX(c) {
		p.Made = h.secrets.take(ch.ID, h.Now())
	}
	v := respond.View{
		Title: ch.Name, Active: layout.NavAlerts, Wide: true, State: views.State(p.Channel), Crumbs: channelCrumbs(),
		Actions: []ui.Action{testAction(ch), {Label: "Change", Icon: "edit", Href: paths.EditChannel(ch.ID)}},
		Menu:    []ui.Action{switchAction(ch), removeAction(ch)}, Body: views.Show(p),
	}
	if p.Made != "" {
		return respond.Created(c, v)
	}
	return respond.Page(c, v)
}

func channelCrumbs() []ui.Link {
	return []ui.Link{{Label: "Alerts", Href: paths.Alerts}, {Label: "Channels", Href: paths.Channels}}
}

func testAction(ch factory.Channel) ui.Action {
	a := ui.Action{Label: "Send a test", Icon: "bell", Post: paths.TestChannel(ch.ID), Primary: true}
	if ch.Unreadable {
		a.Disabled = unreadable
	}
	return a
}

const unreadable = "The settings of this channel cannot be read. Write its address anew first."

func switchAction(ch factory.Channel) ui.Action {
	a := ui.Action{Label: "Switch off", Icon: "off", Post: paths.SwitchChannel(ch.ID), Fields: map[string]string{"enabled": ""}}
	if !ch.Enabled {
		a = ui.Action{Label: "Switch on", Icon: "play", Post: paths.SwitchChannel(ch.ID), Fields: map[string]string{"enabled": "on"}}
	}
	if ch.Unreadable {
		a.Disabled = unreadable
	}
	return a
}

func removeAction(ch factory.Channel) ui.Action {
	return ui.Action{
		Label: "Delete", Icon: "trash", Danger: true, Post: paths.RemoveChannel(ch.ID), ConfirmID: "delete", ConfirmTitle: "Delete " + ch.Name + "?",
		Confirm: "Nothing is delivered to it from then on, and the log of its deliveries goes with it.",
	}
}

// toldOf is a delivery named by what it tells.
func toldOf(d factory.Delivery) views.Delivery {
	out := views.Delivery{Delivery: d, Label: "Test"}
	if d.Change == factory.ChangeTest {
		return out
	}
	var p slo.Payload
	_ = json.Unmarshal(d.Payload, &p) // an older version may have written it
	if out.Label = p.Title; p.Title == "" {
		out.Label = "Alert"
	}
	out.Href = paths.Alert(d.AlertID)
	return out
}

// test is the delivery that the page's button asked for, when the address names one.
func (h *Channels) test(c echo.Context, channelID string) (*views.Delivery, error) {
	id := c.QueryParam("test")
	if id == "" {
		return nil, nil
	}
	list, err := h.Store.AlertDeliveries(c.Request().Context(), id)
	for _, d := range list {
		if d.ChannelID == channelID && d.Change == factory.ChangeTest {
			return &views.Delivery{Delivery: d}, err
		}
	}
	return nil, err
}

// Test sends something to a channel, switched on or not, and shows what came of it.
func (h *Channels) Test(c echo.Context) error {
	ctx, now := c.Request().Context(), h.Now()
	ch, err := h.Store.Channel(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	if ch.Unreadable {
		return factory.Errorf(factory.Conflict, unreadable)
	}
	page := baseURL(c, h.PublicURL) + paths.Channel(ch.ID)
	payload, err := json.Marshal(slo.Payload{
		Version: slo.PayloadVersion, ID: "test", Subject: "test", Change: factory.ChangeTest, Severity: factory.Ticket,
		Title: "A test of the channel " + ch.Name + ". Nothing is wrong.", Figures: map[string]*float64{}, URL: page, At: now, PendingAt: now,
	})
	if err != nil {
		return err
	}
	d, err := h.Store.QueueTest(ctx, ch.ID, payload, now)
	if err != nil {
		return err
	}
	h.Deliver()
	return respond.Redirect(c, paths.Channel(ch.ID)+"?test="+d.ID)
}

// Switch switches a channel on or off.
func (h *Channels) Switch(c echo.Context) error {
	ctx := c.Request().Context()
	on := c.FormValue("enabled") != ""
	err := h.Store.InTx(ctx, func(tx *store.Store) error {
		ch, err := tx.Channel(ctx, c.Param("id"))
		if err != nil {
			return err
		}
		if ch.Unreadable { // saving would write over what a key that is found again could read
			return factory.Errorf(factory.Conflict, unreadable)
		}
		ch.Enabled, ch.UpdatedAt = on, h.Now()
		return tx.SaveChannel(ctx, ch)
	})
	if err != nil {
		return err
	}
	if on {
		respond.Flash(c, "Switched on. It is told of what fires from now on.")
	} else {
		respond.Flash(c, "Switched off. Nothing is delivered to it.")
	}
	return respond.Redirect(c, paths.Channel(c.Param("id")))
}

// Remove deletes a channel.
func (h *Channels) Remove(c echo.Context) error {
	if err := h.Store.DeleteChannel(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	respond.Flash(c, "Channel deleted.")
	return respond.Redirect(c, paths.Channels)
}
