package notify

import (
	"encoding/json"
	"strings"

	"tokenfactory/factory"
)

// Message is a delivery in words, for receivers that read no JSON.
type Message struct {
	AlertID  string
	Change   factory.Change
	Severity factory.Severity
	Title    string // one line
	Body     string
	URL      string // of the window in the console
}

// said is what is read of a payload. Everything may be missing: a payload may have been
// queued by an older version.
type said struct {
	Title      string           `json:"title"`
	Severity   factory.Severity `json:"severity"`
	Deployment struct {
		Name string `json:"name"`
	} `json:"deployment"`
	Diagnosis struct {
		Signature string `json:"signature"`
		Title     string `json:"title"`
		Summary   string `json:"summary"`
		Evidence  []struct {
			Text string `json:"text"`
		} `json:"evidence"`
		Do []string `json:"do"`
	} `json:"diagnosis"`
	URL string `json:"url"`
}

var changeWords = map[factory.Change]string{
	factory.ChangeFiring:   "Firing",
	factory.ChangeResolved: "Resolved",
	factory.ChangeTest:     "Test",
}

// Compose puts a delivery's payload into words.
func Compose(d factory.Delivery) Message {
	var p said
	// A field of another type than expected leaves the others readable.
	_ = json.Unmarshal(d.Payload, &p)
	title := oneLine(p.Title)
	if title == "" {
		title = "An alert without a title"
		if d.Change == factory.ChangeTest {
			title = "This channel is told about alerts"
		}
	}
	if word := changeWords[d.Change]; word != "" {
		title = word + ": " + title
	}
	lines := []string{}
	add := func(before, text string) {
		if text = oneLine(text); text != "" {
			lines = append(lines, before+text)
		}
	}
	add("Severity: ", string(p.Severity))
	add("Deployment: ", p.Deployment.Name)
	if p.Diagnosis.Title != "" {
		add("Diagnosis: ", p.Diagnosis.Title)
	} else {
		add("Diagnosis: ", p.Diagnosis.Signature)
	}
	if len(p.Diagnosis.Evidence) > 0 {
		add("Seen: ", p.Diagnosis.Evidence[0].Text)
	}
	// Once it is over, nobody has to do anything.
	if d.Change != factory.ChangeResolved {
		for _, do := range p.Diagnosis.Do {
			add("Do: ", do)
		}
	}
	add("", p.URL)
	return Message{
		AlertID: d.AlertID, Change: d.Change, Severity: p.Severity,
		Title: title, Body: strings.Join(lines, "\n"), URL: p.URL,
	}
}

// oneLine keeps line breaks out of what becomes an e-mail's header.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
