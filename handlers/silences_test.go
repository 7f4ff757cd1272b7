package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

// told is how far a channel got with being told of an alert.
func (s *site) told(alertID string) []factory.DeliveryState {
	s.t.Helper()
	list, err := s.store.AlertDeliveries(s.t.Context(), alertID)
	s.must(err)
	var out []factory.DeliveryState
	for _, d := range list {
		out = append(out, d.State)
	}
	return out
}

func (s *site) channel(id string) factory.Channel {
	s.t.Helper()
	c := factory.Channel{
		ID: id, Name: "on call " + id, Kind: factory.ChannelWebhook, Settings: factory.ChannelSettings{URL: "https://example.com/hook-" + id + "-t0ken", Secret: "kept-secret-of-" + id},
		Severities: []factory.Severity{factory.Page, factory.Ticket}, Enabled: true, CreatedAt: s.now, UpdatedAt: s.now,
	}
	s.must(s.store.CreateChannel(s.t.Context(), c))
	return c
}

func TestSilenceKeepsAnAlertFromBeingToldAndNotFromBeingSeen(t *testing.T) {
	s, olga := newAlertSite(t)
	s.channel("c")
	if got := olga.page("/alerts/silences"); !strings.Contains(got, "Nothing is silenced") {
		t.Error(got)
	}
	_, form := olga.get("/alerts/silences/new?rule=burn&deployment=d-acme&for=8h")
	filled := answer{t, 200, "", form}.page()
	for field, want := range map[string]string{"rule": "burn", "deployment": "d-acme", "for": "8h"} {
		if got, _ := filled.Find("#field-" + field + " option[selected]").Attr("value"); got != want {
			t.Errorf("%s is filled with %q, want %q", field, got, want)
		}
	}
	status, location, body := olga.post("/alerts/silences", url.Values{"rule": {"burn"}, "deployment": {"d-acme"}, "for": {"8h"}, "reason": {"new <cooling>"}})
	if status != http.StatusSeeOther || location != "/alerts/silences" {
		t.Fatalf("%d %s %s", status, location, body)
	}
	list := olga.page("/alerts/silences")
	for _, want := range []string{"Error budget burns", "acme-chat", "in 8 h", "new <cooling>", "olga@factory.example"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list does not say %q: %s", want, list)
		}
	}
	s.alert("quiet", "d-acme", factory.RuleBurn, factory.AlertFiring, time.Hour, factory.ChangeFiring)
	s.alert("loud", "d-globex", factory.RuleBurn, factory.AlertFiring, time.Hour, factory.ChangeFiring)
	if got := s.told("quiet"); len(got) != 1 || got[0] != factory.DeliverySilenced {
		t.Errorf("a silenced alert is %v", got)
	}
	if got := s.told("loud"); len(got) != 1 || got[0] != factory.DeliveryWaiting {
		t.Errorf("an alert of another deployment is %v", got)
	}
	if got := olga.page("/alerts"); strings.Count(got, "Silenced") != 1 || !strings.Contains(got, "Alert quiet") {
		t.Errorf("the list marks not one of two: %s", got)
	}
	if got := olga.page("/alerts/quiet"); !strings.Contains(got, "is not delivered until") || !strings.Contains(got, "A silence was in force.") {
		t.Errorf("the alert's page does not say that it is silenced: %s", got)
	}

	silences, err := s.store.Silences(t.Context(), s.now)
	s.must(err)
	if status, _, body := olga.post("/alerts/silences/"+silences[0].ID+"/end", nil); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	s.alert("later", "d-acme", factory.RuleBurn, factory.AlertFiring, time.Minute, factory.ChangeFiring)
	if got := s.told("later"); len(got) != 1 || got[0] != factory.DeliveryWaiting {
		t.Errorf("after the silence an alert is %v", got)
	}
}

func TestSilencesThatCannotBeAreRefused(t *testing.T) {
	s, olga := newAlertSite(t)
	for _, c := range []struct {
		form  url.Values
		field string
	}{
		{url.Values{"rule": {"odd"}, "for": {"1h"}}, "rule"},
		{url.Values{"deployment": {"d-never"}, "for": {"1h"}}, "deployment"},
		{url.Values{"for": {"soon"}}, "for"},
		{url.Values{"for": {"-1h"}}, "for"},
		{url.Values{"for": {"10000h"}}, "until"},
		{url.Values{"for": {"until"}, "until": {"tomorrow"}}, "until"},
		{url.Values{"for": {"until"}, "until": {"2026-12-01T11:59"}}, "until"},
		{url.Values{"for": {"1h"}, "reason": {strings.Repeat("x", 501)}}, "reason"},
	} {
		status, _, body := olga.post("/alerts/silences", c.form)
		if got := (answer{t, status, "", body}).is(http.StatusUnprocessableEntity).problem(c.field); got == "" {
			t.Errorf("%v: nothing is said at %s", c.form, c.field)
		}
	}
	// In the viewer's zone: 14:30 in Berlin is 13:30 UTC.
	here, _ := url.Parse(s.url)
	olga.client.Jar.SetCookies(here, []*http.Cookie{{Name: "tz", Value: "Europe%2FBerlin"}})
	if status, _, body := olga.post("/alerts/silences", url.Values{"for": {"until"}, "until": {"2026-12-01T14:30"}}); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	list, err := s.store.Silences(t.Context(), s.now)
	s.must(err)
	if len(list) != 1 || !list[0].Until.Equal(time.Date(2026, 12, 1, 13, 30, 0, 0, time.UTC)) {
		t.Errorf("%+v", list)
	}
}

func TestProgramsSilenceAndEndIt(t *testing.T) {
	s, _ := newAlertSite(t)
	status, body := s.programSends("", http.MethodPost, "/api/v1/alerts/silences", `{"rule":"drift","deployment":"acme-chat","for":"2h","reason":"upgrade"}`)
	var made struct {
		ID, Rule, Deployment string
		DeploymentID         string `json:"deployment_id"`
		CreatedBy            string `json:"created_by"`
		Until                time.Time
	}
	s.must(json.Unmarshal([]byte(body), &made))
	if status != http.StatusCreated || made.DeploymentID != "d-acme" || made.Deployment != "acme-chat" || made.CreatedBy != "management token" || !made.Until.Equal(s.now.Add(2*time.Hour)) {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := s.programSends("", http.MethodGet, "/api/v1/alerts/silences", ""); status != http.StatusOK || !strings.Contains(body, made.ID) {
		t.Errorf("%d %s", status, body)
	}
	for _, wrong := range []string{`{}`, `{"for":"1h","until":"2026-12-01T13:00:00Z"}`, `{"for":"1h","deployment":"no-such"}`, `{"for":"1h","rules":"x"}`, `{"until":"2026-11-01T13:00:00Z"}`} {
		if status, body := s.programSends("", http.MethodPost, "/api/v1/alerts/silences", wrong); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", wrong, status, body)
		}
	}
	if status, body := s.programSends("", http.MethodDelete, "/api/v1/alerts/silences/"+made.ID, ""); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
	if _, body := s.programSends("", http.MethodGet, "/api/v1/alerts/silences", ""); strings.Contains(body, made.ID) {
		t.Errorf("an ended silence is in force: %s", body)
	}
}
