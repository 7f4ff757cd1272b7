// Package aliases is how aliases look: other model names that lead to deployments by
// weight, and to others in turn when none of those can serve.
package aliases

import (
	"strconv"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Target is a deployment behind an alias, with how it stands.
type Target struct {
	factory.AliasTarget
	PublicName string
	State      factory.State
}

// Alias is an alias with how its deployments stand.
type Alias struct {
	ID, Name             string
	Targets, Fallbacks   []Target
	CreatedAt, UpdatedAt time.Time
}

// share is a target's part of the traffic, in per cent.
func share(t Target, all []Target) string { return ui.Percent(part(t, all)) }

// part is a target's part of the traffic as a length on a bar of 100.
func part(t Target, all []Target) float64 {
	sum := 0
	for _, x := range all {
		sum += x.Weight
	}
	if sum == 0 {
		return 0
	}
	return 100 * float64(t.Weight) / float64(sum)
}

// serves reports whether a deployment answers now, or would if it were asked.
func serves(t Target) bool {
	return t.State == factory.Ready || t.State == factory.Degraded || t.State == factory.Asleep
}

// standing says in a word how an alias as a whole stands.
func standing(a Alias) (ui.Tone, string, string) {
	targets, weighted := 0, 0
	for _, t := range a.Targets {
		if t.Weight > 0 {
			weighted++
			if serves(t) {
				targets++
			}
		}
	}
	fallbacks := 0
	for _, t := range a.Fallbacks {
		if serves(t) {
			fallbacks++
		}
	}
	switch {
	case targets == weighted && weighted > 0:
		return ui.Good, "Ready", "Every target that gets traffic can serve."
	case targets > 0:
		return ui.Warn, "Degraded", "Some targets cannot serve; the others take their part."
	case fallbacks > 0:
		return ui.Warn, "On a fallback", "No target can serve; the first fallback that can takes all of it."
	}
	return ui.Bad, "Not serving", "Neither a target nor a fallback can serve. Clients are told to come back."
}

// Form is an alias as typed. A row without a deployment is left out.
type Form struct {
	Name     string              `form:"name"`
	Target   []string            `form:"target"`
	Weight   []string            `form:"weight"`
	Fallback []string            `form:"fallback"`
	MoreRows string              `form:"more"` // asks for the same form with more rows
	Errors   factory.FieldErrors `form:"-"`
}

// FormOf fills the form from an alias.
func FormOf(a factory.Alias) Form {
	f := Form{Name: a.Name}
	for _, t := range a.Targets {
		f.Target = append(f.Target, t.Deployment)
		f.Weight = append(f.Weight, strconv.Itoa(t.Weight))
	}
	for _, t := range a.Fallbacks {
		f.Fallback = append(f.Fallback, t.Deployment)
	}
	return f
}

// Spec reads what was typed; text that is no number is reported at its field.
func (f Form) Spec(errs factory.FieldErrors) factory.AliasSpec {
	var spec factory.AliasSpec
	for i, name := range f.Target {
		if name == "" {
			continue
		}
		text := ""
		if i < len(f.Weight) {
			text = strings.TrimSpace(f.Weight[i])
		}
		if text == "" {
			errs.Add("targets", "Give "+name+" a weight: its part of the traffic, such as 90. 0 sends nothing there.")
		}
		spec.Targets = append(spec.Targets, factory.AliasTargetSpec{Deployment: name, Weight: errs.Whole("targets", text, 0)})
	}
	for _, name := range f.Fallback {
		if name != "" {
			spec.Fallbacks = append(spec.Fallbacks, name)
		}
	}
	return spec
}

// row is one line of the form.
type row struct {
	Deployment, Weight string
}

// Rows that a form has at least, how many stay empty at its end, and how many more come
// when they are asked for.
const (
	targetRows, fallbackRows = 3, 2
	emptyRows                = 1
	moreRows                 = 3
	mostRows                 = 16
)

func (f Form) targets() []row {
	var rows []row
	for i, name := range f.Target {
		r := row{Deployment: name}
		if i < len(f.Weight) {
			r.Weight = f.Weight[i]
		}
		if r != (row{}) {
			rows = append(rows, r)
		}
	}
	return f.padded(rows, targetRows)
}

func (f Form) fallbacks() []row {
	var rows []row
	for _, name := range f.Fallback {
		if name != "" {
			rows = append(rows, row{Deployment: name})
		}
	}
	return f.padded(rows, fallbackRows)
}

func (f Form) padded(rows []row, least int) []row {
	want := max(least, len(rows)+emptyRows)
	if f.MoreRows != "" {
		want += moreRows
	}
	for len(rows) < min(want, max(mostRows, len(rows))) {
		rows = append(rows, row{})
	}
	return rows
}

// FormPage is the form with what it offers.
type FormPage struct {
	Form
	ID          string // empty for a new alias
	Deployments []factory.Deployment
}

func (p FormPage) action() string {
	if p.ID == "" {
		return paths.Aliases
	}
	return paths.Alias(p.ID)
}

// options offers every deployment, and what is chosen even when it is gone.
func (p FormPage) options(chosen string) []ui.Option {
	options := []ui.Option{{Value: "", Label: "None"}}
	known := chosen == ""
	for _, d := range p.Deployments {
		options = append(options, ui.Option{Value: d.Name, Label: d.Name})
		known = known || d.Name == chosen
	}
	if !known {
		options = append(options, ui.Option{Value: chosen, Label: chosen})
	}
	return options
}

func number(n int) string { return strconv.Itoa(n) }

// offsets are where each target's part of the bar begins.
func offsets(all []Target) []float64 {
	out := make([]float64, len(all))
	for i := 1; i < len(all); i++ {
		out[i] = out[i-1] + part(all[i-1], all)
	}
	return out
}

func length(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func targetColumns(weighted bool) []ui.Column {
	columns := ui.Columns("Deployment", "Its own model name", "State")
	if weighted {
		columns = append(columns, ui.Column{Label: "Weight", Num: true}, ui.Column{Label: "Share", Num: true})
	}
	return columns
}
