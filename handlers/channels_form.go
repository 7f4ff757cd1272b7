package handlers

import (
	"context"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/slo/notify"
	views "tokenfactory/views/channels"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// New is the empty form of a kind of channel.
func (h *Channels) New(c echo.Context) error {
	kind := factory.ChannelKind(c.QueryParam("kind"))
	if !views.KnownKind(kind) {
		kind = factory.ChannelWebhook
	}
	return h.page(c, views.NewForm(kind), nil)
}

// Edit is the form of a channel that exists.
func (h *Channels) Edit(c echo.Context) error {
	ch, err := h.Store.Channel(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return h.page(c, views.FormOf(ch), &ch)
}

// page is the form; 422 when something is wrong with it.
func (h *Channels) page(c echo.Context, form views.Form, was *factory.Channel) error {
	p := views.FormPage{Form: form}
	v := respond.View{Title: "New channel", Active: layout.NavAlerts, Crumbs: channelCrumbs()}
	if was != nil {
		kept := masked(*was)
		p.Kept = &kept
		v.Title = "Change " + was.Name
		v.Crumbs = append(v.Crumbs, ui.Link{Label: was.Name, Href: paths.Channel(was.ID)})
	}
	v.Body = views.FormView(p)
	if len(form.Errors) > 0 {
		c.Response().Header().Set("Cache-Control", "no-store") // an address as typed has secrets in it
		return respond.Invalid(c, v)
	}
	return respond.Page(c, v)
}

// Create adds a channel.
func (h *Channels) Create(c echo.Context) error {
	return h.save(c, nil, func(ctx context.Context, ch factory.Channel) error { return h.Store.CreateChannel(ctx, ch) })
}

// Update saves a channel's form. Its kind stays.
func (h *Channels) Update(c echo.Context) error {
	was, err := h.Store.Channel(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return h.save(c, &was, func(ctx context.Context, ch factory.Channel) error { return h.Store.SaveChannel(ctx, ch) })
}

func (h *Channels) save(c echo.Context, was *factory.Channel, write func(context.Context, factory.Channel) error) error {
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	ch, outcome := h.blank(), "Channel added. Send a test to see whether alerts arrive."
	if was != nil {
		ch, outcome, form.Kind = *was, "Channel saved.", was.Kind
	}
	ch = form.Over(ch)
	made, errs, err := h.keep(c.Request().Context(), ch, write)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		if form.Secret != "" {
			errs.Add("secret", "Write the secret again: it is not sent back.")
		}
		return h.page(c, form, was)
	}
	if made != "" {
		h.secrets.keep(ch.ID, made, h.Now())
	}
	respond.Flash(c, outcome)
	return respond.Redirect(c, paths.Channel(ch.ID))
}

func (h *Channels) blank() factory.Channel {
	now := h.Now()
	return factory.Channel{ID: factory.NewOrderedID(now), CreatedAt: now, UpdatedAt: now}
}

// keep checks a channel and writes it, with a signing secret made for a webhook that has
// none. It returns the secret that was made.
func (h *Channels) keep(ctx context.Context, ch factory.Channel, write func(context.Context, factory.Channel) error) (made string, errs factory.FieldErrors, err error) {
	ch.UpdatedAt = h.Now()
	if ch.Kind == factory.ChannelWebhook && ch.Settings.Secret == "" {
		made, _ = factory.NewSecret(prefixSigning)
		ch.Settings.Secret = made
	}
	errs = views.Check(ch).With(notify.Check(ch.Kind, ch.Settings))
	if len(errs) > 0 {
		return "", errs, nil
	}
	err = write(ctx, ch)
	if factory.KindOf(err) == factory.Conflict {
		return "", factory.FieldErrors{"name": factory.MessageOf(err)}, nil
	}
	return made, nil, err
}

// prefixSigning tells a webhook's signing secret from other secrets.
const prefixSigning = "tfw-"

// refusedAddress reports whether all that is wrong with an address is where it leads.
func refusedAddress(kind factory.ChannelKind, s factory.ChannelSettings) bool {
	open := s
	open.Private = true
	_, wrong := notify.Check(kind, s)["url"]
	_, stillWrong := notify.Check(kind, open)["url"]
	return wrong && !stillWrong
}
