// Package channels is how channels look: where alerts are delivered, and what came of it.
// Settings come here masked; no view ever has a secret but one that was just made.
package channels

import (
	"slices"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// Channel is a channel with masked settings.
type Channel struct {
	factory.Channel
	Last *Delivery // the newest thing that was told to it
}

// kind is a way to tell people, in words.
type kind struct {
	kind                     factory.ChannelKind
	word, about              string
	label, placeholder, hint string // of its address
}

var kinds = []kind{
	{factory.ChannelWebhook, "Webhook", "Our own JSON with the figures and the diagnosis in it, signed.",
		"Address", "https://example.com/alerts", "The receiver answers with 2xx, or the alert is sent again for a day."},
	{factory.ChannelSlack, "Slack", "A message in one of Slack's channels.",
		"Slack's webhook address", "https://hooks.slack.com/services/T000/B000/XXXX", "From Slack: Apps, Incoming Webhooks."},
	{factory.ChannelEmail, "E-mail", "A message by a mail server of yours.",
		"Mail server, sender and receivers", "smtp://user:password@mail.example.com:587/?from=alerts@example.com&to=ops@example.com",
		"Characters such as # or @ inside a password are written as %23 or %40. Several receivers are separated by commas."},
	{factory.ChannelPagerDuty, "PagerDuty", "An incident that opens and closes with the alert.",
		"Integration key", "0123456789abcdef0123456789abcdef", "From PagerDuty: the service's Events API v2 integration."},
	{factory.ChannelOther, "Other", "Any service that the delivery library knows, such as Teams, Discord, Matrix, ntfy or Opsgenie.",
		"Service address", "discord://token@id", "As shoutrrr writes it: the service, then what it needs."},
}

// kindOf is a kind in words; one that we do not know is told as a webhook is.
func kindOf(k factory.ChannelKind) kind {
	if i := slices.IndexFunc(kinds, func(x kind) bool { return x.kind == k }); i >= 0 {
		return kinds[i]
	}
	return kinds[0]
}

// KindWord is what people call a kind of channel.
func KindWord(k factory.ChannelKind) string { return kindOf(k).word }

// KnownKind reports whether there is such a kind.
func KnownKind(k factory.ChannelKind) bool {
	return slices.ContainsFunc(kinds, func(x kind) bool { return x.kind == k })
}

var severities = []ui.Option{
	{Value: string(factory.Page), Label: "Page", Hint: "Somebody is woken up: the budget burns fast, a machine that serves is gone, money is used up."},
	{Value: string(factory.Ticket), Label: "Ticket", Hint: "Somebody looks into it in working hours."},
}

// severityWords are the severities that a channel takes.
func severityWords(list []factory.Severity) string {
	words := []string{}
	for _, o := range severities {
		if slices.Contains(list, factory.Severity(o.Value)) {
			words = append(words, o.Label)
		}
	}
	if len(words) == 0 {
		return "None"
	}
	return strings.Join(words, ", ")
}

// standing is whether a channel is told anything, in a word.
func standing(c Channel) (ui.Tone, string) {
	switch {
	case c.Unreadable:
		return ui.Bad, "Unreadable"
	case !c.Enabled:
		return ui.Plain, "Off"
	}
	return ui.Good, "On"
}
