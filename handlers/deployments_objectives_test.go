package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

// acmeForm is the form of acme's deployment as the site made it, with changes.
func acmeForm(change url.Values) url.Values {
	form := url.Values{
		"typed": {"yes"}, "model": {"qwen2"}, "endpoint": {"front"}, "cluster": {"desk"}, "public_name": {"acme/model"}, "engine": {"sim"}, "gpu_count": {"0"}, "replicas": {"1"},
		"workload": {"interactive"}, "free": {"no"}, "currency": {"USD"}, "input_price": {"0.15"}, "cached_input_price": {"0.03"}, "output_price": {"0.60"}, "sharing": {"some"}, "tenants": {"acme"},
	}
	for k, v := range change {
		form[k] = v
	}
	return form
}

func TestObjectivesAreWrittenInTheFormAndKept(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	s.now = s.now.Add(time.Hour)
	want := factory.Objectives{ObjectivePercent: 99.95, OutputRateTarget: 7.5, CostTarget: "0.80"}
	if status, _, body := olga.post("/deployments/d-acme", acmeForm(url.Values{"objective_percent": {"99.95"}, "output_rate_target": {" 7.5 "}, "cost_target": {"0.80"}})); status != http.StatusSeeOther {
		t.Fatalf("saving answers %d: %s", status, body)
	}
	d, err := s.store.Deployment(t.Context(), "d-acme")
	if err != nil || d.Objectives != want || !d.TargetsAt.Equal(s.now) {
		t.Fatalf("objectives are %+v since %v, %v", d.Objectives, d.TargetsAt, err)
	}
	_, body := olga.get("/deployments/d-acme/settings")
	for _, x := range []string{`value="99.95"`, `value="7.5"`, `value="0.80"`, `id="targets-since"`, `datetime="2026-12-01T13:00:00Z"`} {
		if !strings.Contains(body, x) {
			t.Errorf("the form does not show %s", x)
		}
	}
	// A price does not change what requests are judged by.
	since := s.now
	s.now = s.now.Add(time.Hour)
	olga.post("/deployments/d-acme", acmeForm(url.Values{"objective_percent": {"99.95"}, "output_rate_target": {"7.5"}, "cost_target": {"0.80"}, "output_price": {"0.70"}}))
	if d, err = s.store.Deployment(t.Context(), "d-acme"); err != nil || d.OutputPrice != "0.70" || d.Objectives != want || !d.TargetsAt.Equal(since) {
		t.Errorf("after a new price: %s %+v since %v, %v", d.OutputPrice, d.Objectives, d.TargetsAt, err)
	}
}

func TestObjectivesThatCannotBeAreToldAtTheirFields(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	for field, values := range map[string][]string{
		"objective_percent": {"100", "49", "0", "-5", "most", "NaN"}, "output_rate_target": {"0", "-1", "fast"}, "cost_target": {"cheap", "-1"},
	} {
		for _, v := range values {
			status, _, body := olga.post("/deployments/d-acme", acmeForm(url.Values{field: {v}}))
			if status != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-`+field+`-error"`) || !strings.Contains(body, `value="`+v+`"`) {
				t.Errorf("%s %q answers %d, without a message at the field or without what was typed", field, v, status)
			}
		}
	}
}

// At 90 % a tenth of all requests may be bad: all of them are ten times too many, never 14.4.
func TestAnObjectiveThatRulesAlertsOutIsWarnedOf(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	for percent, ruledOut := range map[string]string{"": "", "95": "", "90": "at most 10 times too fast, so that alerts for 14.4 times", "80": "at most 5 times too fast, so that alerts for 14.4 and 6 times"} {
		status, at, _ := olga.post("/deployments/d-acme", acmeForm(url.Values{"objective_percent": {percent}}))
		if status != http.StatusSeeOther {
			t.Fatalf("%q: saving answers %d", percent, status)
		}
		_, told := olga.get(at)
		_, form := olga.get("/deployments/d-acme/settings")
		for where, body := range map[string]string{"what is told after saving": told, "the form": form} {
			if warns := strings.Contains(body, "can burn at most"); warns != (ruledOut != "") || !strings.Contains(body, ruledOut) {
				t.Errorf("objective %q: %s warns: %v, without “%s”", percent, where, warns, ruledOut)
			}
		}
	}
}
