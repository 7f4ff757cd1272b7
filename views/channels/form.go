package channels

import (
	"net/url"
	"slices"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Form is a channel as typed.
type Form struct {
	Name       string              `form:"name"`
	Kind       factory.ChannelKind `form:"kind"`
	URL        string              `form:"url"`
	Secret     string              `form:"secret"`
	Renew      string              `form:"renew"` // asks for a new signing secret
	Private    string              `form:"private"`
	Severities []string            `form:"severities"`
	Enabled    string              `form:"enabled"`

	Errors factory.FieldErrors `form:"-"`
}

// NewForm is the empty form of a kind.
func NewForm(k factory.ChannelKind) Form {
	return Form{Kind: k, Severities: []string{string(factory.Page), string(factory.Ticket)}, Enabled: "on"}
}

// FormOf fills the form from a channel, without its address and its secret: they stay
// here, and are only ever replaced.
func FormOf(c factory.Channel) Form {
	f := Form{Name: c.Name, Kind: c.Kind}
	if c.Settings.Private {
		f.Private = "on"
	}
	if c.Enabled {
		f.Enabled = "on"
	}
	for _, s := range c.Severities {
		f.Severities = append(f.Severities, string(s))
	}
	return f
}

// Over is a channel with what was typed over what it was. An empty address or secret
// keeps the one that is kept.
func (f Form) Over(c factory.Channel) factory.Channel {
	c.Name, c.Kind = strings.TrimSpace(f.Name), f.Kind
	c.Enabled, c.Settings.Private = f.Enabled != "", f.Private != ""
	if address := strings.TrimSpace(f.URL); address != "" {
		c.Settings.URL = address
	}
	switch {
	case f.Kind != factory.ChannelWebhook:
		c.Settings.Secret = ""
	case f.Secret != "":
		c.Settings.Secret = f.Secret
	case f.Renew != "":
		c.Settings.Secret = ""
	}
	c.Severities = []factory.Severity{}
	for _, o := range severities {
		if slices.Contains(f.Severities, o.Value) {
			c.Severities = append(c.Severities, factory.Severity(o.Value))
		}
	}
	return c
}

// Check is what is wrong with a channel beside its settings.
func Check(c factory.Channel) factory.FieldErrors {
	errs := factory.FieldErrors{}
	switch n := len([]rune(c.Name)); {
	case n == 0:
		errs.Add("name", "Write a name, such as who is told.")
	case n > 100:
		errs.Add("name", "Write at most 100 characters.")
	}
	if len(c.Severities) == 0 {
		errs.Add("severities", "Choose at least one.")
	}
	return errs
}

// FormPage is the form with what is kept already.
type FormPage struct {
	Form
	Kept *Channel // masked; nil for a new channel
}

func (p FormPage) action() string {
	if p.Kept == nil {
		return paths.Channels
	}
	return paths.Channel(p.Kept.ID)
}

// keeps reports whether an empty address keeps one.
func (p FormPage) keeps() bool { return p.Kept != nil && p.Kept.Settings.URL != "" }

func (p FormPage) addressHint() string {
	if p.keeps() {
		return "Now " + p.Kept.Settings.URL + ". Leave it empty to keep it; it is not shown in full again."
	}
	return kindOf(p.Kind).hint
}

func (p FormPage) secretHint() string {
	if p.Kept != nil && p.Kept.Settings.Secret != "" {
		return "Leave it empty to keep the present one; it is not shown again."
	}
	return "At least 16 characters. Leave it empty to have one made; it is shown once."
}

// kindLinks lead to the form of each kind.
func kindLinks(now factory.ChannelKind) []ui.Link {
	out := make([]ui.Link, len(kinds))
	for i, k := range kinds {
		out[i] = ui.Link{Label: k.word, Href: paths.With(paths.NewChannel, url.Values{"kind": {string(k.kind)}}), Current: k.kind == now}
	}
	return out
}
