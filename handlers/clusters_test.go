package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestTheJoinCommandIsShownOnceAndTheChecklistFillsItselfIn(t *testing.T) {
	b := newBench(t)
	page := b.post("/clusters", url.Values{"name": {"lab"}}).is(http.StatusSeeOther).location
	first := b.get(page).is(http.StatusOK)
	command := first.page().Find(".command code").Text()
	if !strings.Contains(command, "tokenfactory-agent --server "+b.server.URL) || !strings.Contains(command, "tfj-") || !strings.Contains(command, "--runtime process") {
		t.Errorf("the command is %q", command)
	}
	if !strings.Contains(first.text(), "Waiting for the machine") {
		t.Errorf("the checklist says %s", first.text())
	}
	if again := b.get(page).is(http.StatusOK); strings.Contains(again.body, "tfj-") {
		t.Error("the token is shown a second time")
	}
	b.machine("spark-01", nowish())
	filled := b.get(page).text()
	for _, says := range []string{"spark-01", "arm64", "DGX OS 7.2.3", "NVIDIA GB10", "which makes text up"} {
		if !strings.Contains(filled, says) {
			t.Errorf("the checklist does not say %q: %s", says, filled)
		}
	}
}

func TestASilentMachineSaysSinceWhen(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory)
	n := b.machine("spark-01", nowish().Add(-3*time.Hour))
	for _, path := range []string{"/clusters/" + n.ClusterID, "/clusters/" + n.ClusterID + "/nodes/" + n.ID} {
		text := b.get(path).is(http.StatusOK).text()
		if !strings.Contains(text, "Offline") || !strings.Contains(text, "since") && !strings.Contains(text, "last heard of") {
			t.Errorf("%s: %s", path, text)
		}
	}
	b.post("/clusters/"+n.ClusterID+"/nodes/"+n.ID+"/remove", nil).is(http.StatusSeeOther)
	b.get("/clusters/" + n.ClusterID + "/nodes/" + n.ID).is(http.StatusNotFound)
}
