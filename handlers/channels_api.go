package handlers

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	views "tokenfactory/views/channels"
	"tokenfactory/web/respond"
)

// channelJSON is a channel in the API. Its address is masked, and of its secret it says
// only that there is one.
type channelJSON struct {
	ID         string              `json:"id"`
	Name       string              `json:"name"`
	Kind       factory.ChannelKind `json:"kind"`
	URL        string              `json:"url"`
	Signed     bool                `json:"signed"`
	Private    bool                `json:"private"`
	Severities []factory.Severity  `json:"severities"`
	Enabled    bool                `json:"enabled"`
	Unreadable bool                `json:"unreadable"`
	CreatedAt  time.Time           `json:"created_at"`
	UpdatedAt  time.Time           `json:"updated_at"`
	Last       *deliveryJSON       `json:"last_delivery"`
	// Secret is a signing secret that was just made, this once.
	Secret string `json:"secret,omitempty"`
}

func jsonOfChannel(c views.Channel) channelJSON {
	out := channelJSON{
		ID: c.ID, Name: c.Name, Kind: c.Kind, URL: c.Settings.URL, Signed: c.Settings.Secret != "", Private: c.Settings.Private,
		Severities: c.Severities, Enabled: c.Enabled, Unreadable: c.Unreadable, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if c.Last != nil {
		last := jsonOfDelivery(c.Last.Delivery, c.Name)
		out.Last = &last
	}
	return out
}

// ListJSON is every channel.
func (h *Channels) ListJSON(c echo.Context) error {
	list, err := h.list(c)
	if err != nil {
		return err
	}
	out := make([]channelJSON, len(list))
	for i, ch := range list {
		out[i] = jsonOfChannel(ch)
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"channels": out})
}

// channelRequest is a channel as a program asks for it. It is switched on, and told of
// everything, unless it says otherwise.
type channelRequest struct {
	Name       string              `json:"name"`
	Kind       factory.ChannelKind `json:"kind"`
	URL        string              `json:"url"`
	Secret     string              `json:"secret"` // of a webhook; empty: one is made
	Private    bool                `json:"private"`
	Severities []string            `json:"severities"`
	Enabled    bool                `json:"enabled"`
}

// CreateJSON adds a channel.
func (h *Channels) CreateJSON(c echo.Context) error {
	in := channelRequest{Enabled: true, Severities: []string{string(factory.Page), string(factory.Ticket)}}
	if err := readSmall(c, &in, "a channel has "+fieldNames(in)); err != nil {
		return err
	}
	form := views.Form{Name: in.Name, Kind: in.Kind, URL: in.URL, Secret: in.Secret, Severities: in.Severities}
	ch := form.Over(h.blank())
	ch.Enabled, ch.Settings.Private = in.Enabled, in.Private
	made, errs, err := h.keep(c.Request().Context(), ch, h.Store.CreateChannel)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		if notAllowed(ch) {
			return answerNotAllowed(c, errs)
		}
		return errs
	}
	out := jsonOfChannel(masked(ch))
	out.Signed = ch.Kind == factory.ChannelWebhook
	out.Secret = made
	return respond.JSON(c, http.StatusCreated, out)
}

// notAllowed reports whether an address is refused for where it leads: into a private
// network, or, of a webhook, to something that is not the web.
func notAllowed(ch factory.Channel) bool {
	if refusedAddress(ch.Kind, ch.Settings) {
		return true
	}
	u, err := url.Parse(ch.Settings.URL)
	return ch.Kind == factory.ChannelWebhook && err == nil && u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https"
}

// answerNotAllowed has a code of its own, so that programs can tell it from a mistake.
func answerNotAllowed(c echo.Context, errs factory.FieldErrors) error {
	return respond.JSON(c, http.StatusBadRequest, map[string]any{"error": map[string]any{
		"kind": factory.Invalid, "code": "url_not_allowed", "message": errs["url"], "fields": errs,
	}})
}
