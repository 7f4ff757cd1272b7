package notify

import (
	"encoding/json"
	"testing"

	"tokenfactory/factory"
)

func TestMessageSaysWhatToDo(t *testing.T) {
	payload := json.RawMessage(`{"version":9,"id":"a1","title":"chat burns\r\nBcc: x@example.com","severity":"page","unknown":[1],
		"deployment":{"id":"d1","name":"chat"},"figures":{"burn_long":20,"good":null},
		"diagnosis":{"signature":"upstream","title":"Requests wait before the engine","evidence":[{"text":"The queue took 900 ms."},{"text":"More."}],"do":["Add replicas.","Shorten prompts."]},
		"url":"https://console.example.com/d?from=1&to=2"}`)
	d := factory.Delivery{AlertID: "a1", Change: factory.ChangeFiring, Payload: payload}
	m := Compose(d)
	if m.Title != "Firing: chat burns Bcc: x@example.com" || m.Severity != factory.Page || m.AlertID != "a1" {
		t.Errorf("%+v", m)
	}
	want := "Severity: page\nDeployment: chat\nDiagnosis: Requests wait before the engine\nSeen: The queue took 900 ms.\nDo: Add replicas.\nDo: Shorten prompts.\nhttps://console.example.com/d?from=1&to=2"
	if m.Body != want {
		t.Errorf("body:\n%s\nwant:\n%s", m.Body, want)
	}
	d.Change = factory.ChangeResolved
	if m := Compose(d); m.Title[:10] != "Resolved: " || len(m.Body) >= len(want) {
		t.Errorf("what is over still says what to do: %+v", m)
	}
}

func TestMessageOfAnyPayload(t *testing.T) {
	for payload, title := range map[string]string{
		"":                              "Firing: An alert without a title",
		"null":                          "Firing: An alert without a title",
		"[1]":                           "Firing: An alert without a title",
		`{"title":"x","diagnosis":7}`:   "Firing: x",
		`{"diagnosis":"s","title":"x"}`: "Firing: x",
		`{"title":"x","deployment":null,"diagnosis":{"evidence":null}}`: "Firing: x",
	} {
		if m := Compose(factory.Delivery{Change: factory.ChangeFiring, Payload: json.RawMessage(payload)}); m.Title != title {
			t.Errorf("%s: %q, want %q", payload, m.Title, title)
		}
	}
	if m := Compose(factory.Delivery{Change: factory.ChangeTest}); m.Title != "Test: This channel is told about alerts" {
		t.Errorf("a test says %q", m.Title)
	}
}
