package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestADeploymentIsPutToSleepAndWoken(t *testing.T) {
	s := newSite(t)
	olga, mia := s.signIn("olga@factory.example"), s.signIn("mia@acme.example")
	const at = "/deployments/d-acme"
	asleep := func() bool {
		d, err := s.store.Deployment(t.Context(), "d-acme")
		s.must(err)
		return d.Asleep
	}
	for _, verb := range []string{"/sleep", "/wake"} {
		if status, _, _ := mia.post(at+verb, nil); status != http.StatusForbidden {
			t.Errorf("a member posts %s: %d", verb, status)
		}
	}
	if _, body := olga.get(at); !strings.Contains(body, `action="`+at+`/sleep"`) || strings.Contains(body, at+"/wake") {
		t.Error("a deployment that is awake offers the wrong action")
	}
	if status, to, _ := olga.post(at+"/sleep", nil); status != http.StatusSeeOther || to != at || !asleep() {
		t.Fatalf("putting it to sleep answers %d to %s", status, to)
	}
	_, body := olga.get(at)
	if text := olga.page(at); !strings.Contains(body, `action="`+at+`/wake"`) || strings.Contains(body, at+"/sleep") || !strings.Contains(text, "Asleep until the next request") {
		t.Errorf("a deployment that sleeps says %s", text)
	}
	if text := olga.page("/deployments?state=stopped"); !strings.Contains(text, "acme-chat") || !strings.Contains(text, "Asleep") {
		t.Errorf("the list says %s", text)
	}
	if text := mia.page("/t/acme/models"); !strings.Contains(text, "It rests.") {
		t.Errorf("the tenant reads %s", text)
	}
	if status, _, _ := olga.post(at+"/wake", nil); status != http.StatusSeeOther || asleep() {
		t.Errorf("waking answers %d", status)
	}
	s.must(s.store.SetDeploymentStopped(t.Context(), "d-acme", true))
	if status, _, _ := olga.post(at+"/sleep", nil); status != http.StatusConflict || asleep() {
		t.Errorf("a stopped deployment is put to sleep: %d", status)
	}
}

func TestADeploymentsPageTellsWhatWasLearnedAndHowMuchOneReplicaGets(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	const at = "/deployments/d-acme"
	for learned, want := range map[factory.Learned]string{"": "Running usage not known yet", factory.LearnedYes: "Running usage yes", factory.LearnedNo: "Running usage no"} {
		s.must(s.store.SetRunningUsage(t.Context(), "d-acme", 1, learned))
		if text := olga.page(at); !strings.Contains(text, want) || !strings.Contains(text, "At once per replica as many as come") {
			t.Errorf("%q: %s", learned, text)
		}
	}
	form := url.Values{
		"typed": {"yes"}, "model": {"qwen2"}, "endpoint": {"front"}, "cluster": {"desk"}, "public_name": {"acme/model"}, "engine": {"sim"}, "gpu_count": {"0"}, "replicas": {"1"},
		"workload": {"interactive"}, "free": {"yes"}, "sharing": {"some"}, "tenants": {"acme"}, "replica_concurrency": {"24"},
	}
	for k, v := range everyLimit {
		form[k] = v
	}
	if status, to, body := olga.post(at, form); status != http.StatusSeeOther || to != at {
		t.Fatalf("saving answers %d to %s: %s", status, to, body)
	}
	d, err := s.store.Deployment(t.Context(), "d-acme")
	if err != nil || d.Limits != everyLimitSet || d.ReplicaConcurrency != 24 || d.Revision != 1 {
		t.Errorf("the deployment has %+v, %d at once, revision %d (%v)", d.Limits, d.ReplicaConcurrency, d.Revision, err)
	}
	if text := olga.page(at); !strings.Contains(text, "At once per replica 24") || !strings.Contains(text, "Budget per week") {
		t.Errorf("the page says %s", text)
	}
	if _, body := olga.get(at + "/settings"); !strings.Contains(body, `value="1250.5"`) || !strings.Contains(body, `value="24"`) {
		t.Error("the form of the deployment is not filled")
	}
	for field, wrong := range wrongLimits {
		bad := url.Values{}
		for _, from := range []url.Values{form, wrong} {
			for k, v := range from {
				bad[k] = v
			}
		}
		if status, _, body := olga.post(at, bad); status != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-`+field+`-error"`) {
			t.Errorf("a wrong %s answers %d", field, status)
		}
	}
	form.Set("replica_concurrency", "-1")
	if status, _, body := olga.post(at, form); status != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-replica_concurrency-error"`) {
		t.Errorf("a wrong replica_concurrency answers %d", status)
	}
}
