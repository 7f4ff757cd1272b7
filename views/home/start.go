// Package home draws the first page of an operator whose factory is not yet complete.
package home

import "tokenfactory/views/ui"

// Step is one of the five steps to a served model.
type Step struct {
	Title string
	Text  string
	Done  bool
	// Note says what is there once the step is done.
	Note   string
	Action ui.Action
}

// Start is how far the factory has come.
type Start struct{ Steps []Step }

// done counts the finished steps.
func (s Start) done() int {
	n := 0
	for _, x := range s.Steps {
		if x.Done {
			n++
		}
	}
	return n
}

// tone of a step: the first unfinished one is next.
func (s Start) tone(i int) ui.Tone {
	if s.Steps[i].Done {
		return ui.Good
	}
	for _, before := range s.Steps[:i] {
		if !before.Done {
			return ui.Plain
		}
	}
	return ui.Progress
}
