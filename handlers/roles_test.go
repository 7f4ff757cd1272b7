package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestOperatorPagesAreNotForMembers(t *testing.T) {
	b := newBench(t)
	b.mustApply(smallFactory + `,` + chatDeployment + `,{"kind":"member","name":"ada@acme.example","spec":{"tenant":"acme","role":"admin","password":"` + benchPassword + `"}}`)
	member := b.signIn(factory.User{Email: "ada@acme.example"})
	cluster, _ := b.store.ClusterByName(b.ctx(), "lab")
	d, _ := b.store.DeploymentByName(b.ctx(), "chat")
	for _, path := range []string{
		"/clusters", "/clusters/" + cluster.ID, "/endpoints", "/models", "/providers", "/deployments", "/deployments/" + d.ID,
		"/deployments/" + d.ID + "/settings", "/deployments/new", "/clusters/new",
	} {
		if a := b.send(member, http.MethodGet, path, nil); a.status != http.StatusForbidden && a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	for _, path := range []string{"/clusters", "/deployments/" + d.ID + "/remove", "/clusters/" + cluster.ID + "/tokens"} {
		if a := b.send(member, http.MethodPost, path, url.Values{"name": {"evil"}}); a.status != http.StatusForbidden && a.status != http.StatusNotFound {
			t.Errorf("POST %s: %d", path, a.status)
		}
	}
	if a := b.send(member, http.MethodGet, "/api/v1/clusters", nil); a.status != http.StatusForbidden {
		t.Errorf("clusters by API: %d", a.status)
	}
	list := b.send(member, http.MethodGet, "/api/v1/deployments", nil).is(http.StatusOK)
	if !strings.Contains(list.body, `"chat"`) || strings.Contains(list.body, "engine") {
		t.Errorf("a member sees %s", list.body)
	}
}

func TestATenantsKeyDoesNotFindWhatIsNotShared(t *testing.T) {
	b := newBench(t)
	key := b.mustApply(smallFactory + `,` + chatDeployment + `,
		{"kind":"tenant","name":"globex"},{"kind":"key","name":"m","spec":{"tenant":"globex","scope":"management"}}`)[7].Secrets["key"]
	for path, status := range map[string]int{"/api/v1/deployments": http.StatusOK, "/api/v1/deployments/chat": http.StatusNotFound, "/api/v1/deployments/Qwen%2FQwen3-8B": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(b.ctx(), http.MethodGet, b.server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		a := b.do(http.DefaultClient, req).is(status)
		if strings.Contains(a.body, `"chat"`) {
			t.Errorf("%s tells of it: %s", path, a.body)
		}
		req.Header.Set("Authorization", "Bearer "+b.token)
		b.do(http.DefaultClient, req).is(http.StatusOK)
	}
}
