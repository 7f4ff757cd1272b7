package alerts

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Silence is a silence with the name of its deployment.
type Silence struct {
	factory.Silence
	Deployment Place
}

// rule is what a silence keeps quiet, in words.
func (s Silence) rule() string {
	if s.Rule == "" {
		return "All rules"
	}
	return RuleWord(s.Rule)
}

func (s Silence) end() ui.Action {
	return ui.Action{
		Label: "End", Icon: "bell", Small: true, Post: paths.EndSilence(s.ID), ConfirmID: "end-" + s.ID, ConfirmTitle: "End this silence?",
		Confirm: "What begins to fire from now on is delivered again. What was silenced until now is not made up for.",
	}
}

// SilenceForm is a silence as typed.
type SilenceForm struct {
	Rule       factory.Rule `form:"rule" query:"rule"`
	Deployment string       `form:"deployment" query:"deployment"` // an id
	For        string       `form:"for" query:"for"`               // a length, or until
	Until      string       `form:"until"`
	Reason     string       `form:"reason"`

	Errors factory.FieldErrors `form:"-" query:"-"`
}

// ForUntil is the choice of a moment instead of a length.
const ForUntil = "until"

// LongestSilence bounds silences: one that was forgotten must not last for ever.
const LongestSilence = 90 * 24 * time.Hour

var lengths = []ui.Option{
	{Value: "1h", Label: "1 hour"}, {Value: "4h", Label: "4 hours"}, {Value: "8h", Label: "8 hours"}, {Value: "24h", Label: "1 day"},
	{Value: "72h", Label: "3 days"}, {Value: "168h", Label: "7 days"}, {Value: ForUntil, Label: "Until the time below"},
}

func (f SilenceForm) length() string {
	if f.For == "" {
		return lengths[0].Value
	}
	return f.For
}

// SilencePage is the form with what can be chosen.
type SilencePage struct {
	SilenceForm
	Deployments []ui.Option
	ZoneName    string
}
