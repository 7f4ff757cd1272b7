package ui

// Action is something a person can do: follow a link, send a small form, or open
// a question that asks first. The same value draws as a button or in a menu.
type Action struct {
	Label string
	Icon  string
	Href  string // a link
	Post  string // or a form of this one button
	// Fields are sent with Post, as hidden inputs.
	Fields map[string]string
	// Confirm asks this sentence before Post is sent; ConfirmTitle is the question.
	Confirm      string
	ConfirmTitle string
	// ConfirmID tells questions of one page apart; required with Confirm.
	ConfirmID string
	Danger    bool
	Primary   bool
	Small     bool
	// Disabled is the reason why it cannot be done now.
	Disabled string
	// Download makes a link save what it leads to.
	Download bool
}

func (a Action) class() string {
	c := "btn"
	switch {
	case a.Primary:
		c += " btn-primary"
	case a.Danger:
		c += " btn-danger"
	default:
		c += " btn-quiet"
	}
	if a.Small {
		c += " btn-sm"
	}
	return c
}

func (a Action) title() string {
	if a.ConfirmTitle != "" {
		return a.ConfirmTitle
	}
	return a.Label + "?"
}
