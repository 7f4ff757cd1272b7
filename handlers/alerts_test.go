package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/slo"
	"tokenfactory/web"
)

// newAlertSite is a site whose store can keep channels.
func newAlertSite(t *testing.T, change ...func(*web.Site)) (*site, *visitor) {
	t.Helper()
	s := newSite(t, change...)
	seal, err := factory.OpenSeal(filepath.Join(t.TempDir(), "seal.key"))
	s.must(err)
	s.store.UseSeal(seal)
	return s, s.signIn("olga@factory.example")
}

// alert keeps an alert of a deployment that began so long ago, with what it tells.
func (s *site) alert(id, deployment string, rule factory.Rule, state factory.AlertState, ago time.Duration, changes ...factory.Change) factory.Alert {
	s.t.Helper()
	began := s.now.Add(-ago)
	fired, over := began.Add(slo.PendingFor), began.Add(10*time.Minute)
	a := factory.Alert{
		ID: id, Subject: string(rule) + "/" + id, Rule: rule, Severity: factory.Page, DeploymentID: deployment, State: state,
		Title: "Alert " + id + " of a deployment.", PendingAt: began, UpdatedAt: began,
	}
	if state != factory.AlertPending {
		a.FiringAt = &fired
	}
	if state == factory.AlertResolved {
		a.ResolvedAt = &over
	}
	long, limit, none, from := 20.5, 14.4, (*float64)(nil), began.Add(-time.Hour)
	ttft, before, target := 2400.0, 310.0, 1000.0
	p := slo.Payload{
		Version: slo.PayloadVersion, ID: id, Rule: rule, Title: a.Title, Deployment: &slo.Ref{ID: deployment, Name: "name-of-old"}, From: &from, To: &began,
		Figures: map[string]*float64{"burn_long": &long, "burn_limit": &limit, "budget_left": none},
		Diagnosis: &slo.Diagnosis{
			Signature: slo.Upstream, Title: "The wait is before the first token", Summary: "Requests wait in the gateway.",
			Evidence: []slo.Evidence{{Name: "ttft", Now: &ttft, Baseline: &before, Target: &target, Text: "TTFT p95 is 2.4 s."}},
			Look:     []string{"Prompt lengths"}, Do: []string{"Add replicas."},
		},
	}
	var err error
	a.Detail, err = json.Marshal(p)
	s.must(err)
	s.must(s.store.SaveAlert(s.t.Context(), a, changes, a.Detail, s.now))
	return a
}

func TestAlertsThatFireComeFirst(t *testing.T) {
	s, olga := newAlertSite(t)
	if got := olga.page("/alerts"); !strings.Contains(got, "Nothing is wrong, and nothing was") || !strings.Contains(got, "Nobody is told") {
		t.Errorf("without alerts and channels: %s", got)
	}
	s.alert("old", "d-acme", factory.RuleBurn, factory.AlertResolved, 5*time.Hour)
	s.alert("young", "d-acme", factory.RuleDrift, factory.AlertResolved, time.Hour)
	s.alert("pending", "d-acme", factory.RuleAbsent, factory.AlertPending, time.Minute)
	s.alert("firing", "d-globex", factory.RuleBurn, factory.AlertFiring, 3*time.Hour)
	for path, want := range map[string]string{
		"/alerts":                                   "firing pending young old",
		"/alerts?state=firing":                      "firing",
		"/alerts?state=resolved":                    "young old",
		"/alerts?rule=burn":                         "firing old",
		"/alerts?deployment=d-acme":                 "pending young old",
		"/alerts?rule=burn&deployment=d-acme":       "old",
		"/alerts?state=pending&deployment=d-globex": "",
	} {
		if got := strings.Join(olga.listed(path), " "); got != want {
			t.Errorf("%s lists %q, want %q", path, got, want)
		}
	}
	if got := olga.page("/alerts?state=pending&deployment=d-globex"); !strings.Contains(got, "No alert matches") {
		t.Errorf("a filter that leaves nothing says %s", got)
	}
}

// listed are the alerts of a list, by their links.
func (v *visitor) listed(path string) []string {
	v.t.Helper()
	status, body := v.get(path)
	var out []string
	for _, n := range (answer{v.t, status, "", body}).is(http.StatusOK).page().Find("tbody th a").EachIter() {
		href, _ := n.Attr("href")
		out = append(out, strings.TrimPrefix(href, "/alerts/"))
	}
	return out
}

func TestHistoryOfAlertsIsReadPageByPage(t *testing.T) {
	s, olga := newAlertSite(t)
	for i := range 60 {
		s.alert(fmt.Sprintf("a%02d", i), "d-acme", factory.RuleBurn, factory.AlertResolved, time.Duration(i+1)*time.Hour)
	}
	s.alert("open", "d-acme", factory.RuleDrift, factory.AlertFiring, time.Hour)
	seen := olga.listed("/alerts")
	_, body := olga.get("/alerts")
	next, ok := answer{t, 200, "", body}.page().Find(`.pager a[rel=next]`).Attr("href")
	if !ok || len(seen) != 51 || seen[0] != "open" || seen[50] != "a49" {
		t.Fatalf("the first page has %d, next %q: %v", len(seen), next, seen)
	}
	if got := olga.listed(next); len(got) != 10 || got[0] != "a50" || got[9] != "a59" {
		t.Errorf("the second page has %v", got)
	}
	if status, _ := olga.get("/alerts?cursor=made-up"); status != http.StatusBadRequest {
		t.Errorf("a cursor that is none: %d", status)
	}

	var got struct {
		Alerts []struct{ ID string }
		Next   string
	}
	query, count := url.Values{"limit": {"25"}, "rule": {"burn"}}, 0
	for {
		status, body := s.programSends("", http.MethodGet, "/api/v1/alerts?"+query.Encode(), "")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		got.Alerts, got.Next = nil, ""
		s.must(json.Unmarshal([]byte(body), &got))
		for _, a := range got.Alerts {
			if want := fmt.Sprintf("a%02d", count); a.ID != want {
				t.Fatalf("place %d has %s", count, a.ID)
			}
			count++
		}
		if got.Next == "" {
			break
		}
		query.Set("cursor", got.Next)
	}
	if count != 60 {
		t.Errorf("%d alerts by pages, want 60", count)
	}
	status, csv := s.programSends("", http.MethodGet, "/api/v1/alerts.csv?rule=burn", "")
	if lines := strings.Split(strings.TrimSpace(csv), "\n"); status != http.StatusOK || len(lines) != 61 || !strings.Contains(lines[1], "a00,resolved,page,burn,Alert a00 of a deployment.,acme-chat,d-acme") {
		t.Errorf("%d, the file has %d lines: %s", status, len(lines), lines[1])
	}
}

func TestOneAlertSaysWhyAndWhatToDo(t *testing.T) {
	s, olga := newAlertSite(t)
	s.alert("x", "d-acme", factory.RuleBurn, factory.AlertFiring, time.Hour, factory.ChangeFiring)
	page := olga.page("/alerts/x")
	for _, want := range []string{
		"Alert x of a deployment.", "Firing", "Page", "Error budget burns", "acme-chat", "20.5 times as fast as planned", "Error budget left Not known",
		"Diagnosis: The wait is before the first token", "Requests wait in the gateway.", "TTFT p95 is 2.4 s.", "2.40 s", "310 ms", "1.00 s", "Add replicas.", "Prompt lengths",
		"Nobody is told", "Silence it for 1 hour",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
	}
	_, body := olga.get("/alerts/x")
	links := answer{t, 200, "", body}.page()
	window := url.Values{"from": {"2026-12-01T10:00:00Z"}, "to": {"2026-12-01T11:00:00Z"}}
	for _, want := range []string{"/deployments/d-acme/metrics?" + window.Encode(), "/deployments/d-acme", "/alerts/silences/new?deployment=d-acme&for=8h&rule=burn"} {
		if links.Find(`main a[href="`+want+`"]`).Length() != 1 {
			t.Errorf("no link to %s", want)
		}
	}
	if status, _ := olga.get("/alerts/none"); status != http.StatusNotFound {
		t.Errorf("an alert that there is not: %d", status)
	}
}

func TestAlertsOutliveWhatTheyAreAbout(t *testing.T) {
	s, olga := newAlertSite(t)
	s.alert("deleted", "d-acme", factory.RuleBurn, factory.AlertFiring, time.Hour)
	s.alert("unknown", "d-never", factory.RuleBurn, factory.AlertFiring, time.Hour)
	machine := s.alert("machine", "", factory.RuleOffline, factory.AlertFiring, time.Hour)
	machine.NodeID, machine.Detail = "n-gone", json.RawMessage(`{"node":{"id":"n-gone","name":"rack-4"},"figures":{"silent_seconds":90}}`)
	machine.ID, machine.Subject = "machine2", "offline/n-gone"
	s.must(s.store.SaveAlert(t.Context(), machine, nil, nil, s.now))
	s.must(s.store.DeleteDeployment(t.Context(), "d-acme", s.now))
	for id, want := range map[string]string{"deleted": "acme-chat (deleted)", "unknown": "name-of-old (deleted)", "machine2": "rack-4 (deleted)"} {
		if got := olga.page("/alerts/" + id); !strings.Contains(got, want) {
			t.Errorf("%s does not say %q: %s", id, want, got)
		}
	}
	if got := olga.listed("/alerts?deployment=d-acme"); len(got) != 1 || got[0] != "deleted" {
		t.Errorf("alerts of what was deleted: %v", got)
	}
	status, body := s.programSends("", http.MethodGet, "/api/v1/alerts/deleted", "")
	if status != http.StatusOK || !strings.Contains(body, `"deployment":{"id":"d-acme","name":"acme-chat","deleted":true}`) || !strings.Contains(body, `"deliveries":[]`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestAlertsAreForOperators(t *testing.T) {
	s, _ := newAlertSite(t)
	s.alert("x", "d-acme", factory.RuleBurn, factory.AlertFiring, time.Hour)
	mia := s.signIn("mia@acme.example")
	for _, path := range []string{"/alerts", "/alerts/x", "/alerts/silences", "/alerts/silences/new", "/alerts/channels", "/alerts/channels/new", "/alerts/channels/x", "/alerts/channels/x/edit"} {
		if status, _ := mia.get(path); status != http.StatusForbidden {
			t.Errorf("%s for a member: %d", path, status)
		}
	}
	for _, path := range []string{"/alerts/silences", "/alerts/silences/x/end", "/alerts/channels", "/alerts/channels/x", "/alerts/channels/x/test", "/alerts/channels/x/switch", "/alerts/channels/x/remove"} {
		if status, _, _ := mia.post(path, nil); status != http.StatusForbidden {
			t.Errorf("POST %s by a member: %d", path, status)
		}
	}
	for _, call := range []string{"GET /alerts", "GET /alerts.csv", "GET /alerts/x", "GET /alerts/silences", "POST /alerts/silences", "DELETE /alerts/silences/x", "GET /channels", "POST /channels"} {
		method, path, _ := strings.Cut(call, " ")
		if status, body := s.programSends("acme", method, "/api/v1"+path, "{}"); status != http.StatusForbidden {
			t.Errorf("%s with a tenant's key: %d %s", call, status, body)
		}
	}
	for _, query := range []string{"state=odd", "rule=odd", "limit=0", "deployment=odd", "cursor=odd"} {
		if status, body := s.programSends("", http.MethodGet, "/api/v1/alerts?"+query, ""); status < 400 || status > 404 {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
