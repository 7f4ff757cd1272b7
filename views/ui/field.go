package ui

import "slices"

// Field is one labelled control of a form. Value is always text, as typed, so that
// a form that does not validate comes back with what the person wrote.
type Field struct {
	Name  string
	Label string
	Hint  string
	Value string
	Error string
	// Type of an input: text when empty.
	Type         string
	Placeholder  string
	Unit         string // shown after the control: ms, tokens
	Prefix       string // shown before it: $
	Autocomplete string
	InputMode    string
	Required     bool
	Optional     bool // says so beside the label
	Autofocus    bool
	Disabled     bool
	Mono         bool
	Wide         bool // spans both columns of a form grid
	Rows         int  // of a text area
	// ID is needed when a page has two fields of one name.
	ID string
}

func (f Field) id() string {
	if f.ID != "" {
		return f.ID
	}
	return "field-" + f.Name
}

func (f Field) kind() string {
	if f.Type == "" {
		return "text"
	}
	return f.Type
}

func (f Field) rows() string {
	if f.Rows == 0 {
		return "3"
	}
	return Count(f.Rows)
}

// describedBy names the elements a screen reader reads with the control.
func (f Field) describedBy() string {
	s := ""
	if f.Error != "" {
		s = f.id() + "-error"
	}
	if f.Hint != "" {
		if s != "" {
			s += " "
		}
		s += f.id() + "-hint"
	}
	return s
}

func (f Field) class(base string) string {
	if f.Mono {
		base += " mono"
	}
	if f.Error != "" {
		base += " is-wrong"
	}
	return base
}

func (f Field) fieldClass() string {
	if f.Wide {
		return "field field-wide"
	}
	return "field"
}

// Option is one choice of a Select, of Radios or of Checks.
type Option struct {
	Value    string
	Label    string
	Hint     string // Radios and Checks; in a Select it follows the label
	Group    string // options of one group stand together in a Select
	Disabled bool   // shown, with its Hint as the reason, and not to be chosen
}

type optionGroup struct {
	name    string
	options []Option
}

// grouped keeps the order of first appearance.
func grouped(options []Option) []optionGroup {
	var out []optionGroup
	for _, o := range options {
		i := slices.IndexFunc(out, func(g optionGroup) bool { return g.name == o.Group })
		if i < 0 {
			out = append(out, optionGroup{name: o.Group})
			i = len(out) - 1
		}
		out[i].options = append(out[i].options, o)
	}
	return out
}

func (o Option) text() string {
	if o.Hint != "" {
		return o.Label + " — " + o.Hint
	}
	return o.Label
}
