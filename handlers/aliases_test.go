package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func (s *site) alias(name string) factory.Alias {
	s.t.Helper()
	a, err := s.store.AliasByName(s.t.Context(), name)
	s.must(err)
	return a
}

func aims(targets []factory.AliasTarget) []string {
	var out []string
	for _, t := range targets {
		out = append(out, t.Deployment+" "+string(rune('0'+t.Weight%10)))
	}
	return out
}

func TestAnOperatorMakesChangesAndDeletesAnAlias(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	if a := olga.page("/aliases"); !strings.Contains(a, "No alias yet") {
		t.Errorf("the empty list says %s", a)
	}
	// Rows without a deployment are left out.
	status, at, body := olga.post("/aliases", url.Values{
		"name": {"org/chat"}, "target": {"acme-chat", "", "globex-chat"}, "weight": {"7", "", "1"}, "fallback": {"", ""},
	})
	a := s.alias("org/chat")
	if status != http.StatusSeeOther || at != "/aliases/"+a.ID || !slices.Equal(aims(a.Targets), []string{"acme-chat 7", "globex-chat 1"}) || len(a.Fallbacks) != 0 {
		t.Fatalf("a new alias: %d to %s %+v %s", status, at, a, body)
	}
	for path, want := range map[string][]string{
		"/aliases": {"org/chat", "87.5 % acme-chat", "12.5 % globex-chat", "Not serving"},
		at:         {"acme/model", "87.5 %", "globex/model", "12.5 %", "None: clients are told to come back"},
	} {
		for _, w := range want {
			if got := olga.page(path); !strings.Contains(got, w) {
				t.Errorf("%s does not say “%s”: %s", path, w, got)
			}
		}
	}
	if _, body := olga.get(at + "/edit"); !strings.Contains(body, `value="globex-chat" selected`) || !strings.Contains(body, `value="7"`) {
		t.Error("the form of an alias is not filled")
	}
	if status, to, _ := olga.post(at, url.Values{"name": {"another"}, "target": {"acme-chat"}, "weight": {"1"}, "fallback": {"globex-chat"}}); status != http.StatusSeeOther || to != at {
		t.Errorf("saving answers %d to %s", status, to)
	}
	if a := s.alias("org/chat"); !slices.Equal(aims(a.Targets), []string{"acme-chat 1"}) || !slices.Equal(aims(a.Fallbacks), []string{"globex-chat 0"}) {
		t.Errorf("the alias is %+v", a)
	}
	if status, _, body := olga.post("/deployments/d-globex/remove", nil); status != http.StatusConflict || !strings.Contains(body, "org/chat") {
		t.Errorf("a deployment behind an alias is deleted: %d", status)
	}
	if status, to, _ := olga.post(at+"/remove", nil); status != http.StatusSeeOther || to != "/aliases" {
		t.Errorf("deleting answers %d to %s", status, to)
	}
	if status, _ := olga.get(at); status != http.StatusNotFound {
		t.Errorf("a deleted alias answers %d", status)
	}
}

func TestAnAliasThatLeadsNowhereIsRefused(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	right := url.Values{"name": {"chat"}, "target": {"acme-chat"}, "weight": {"1"}}
	if status, _, _ := olga.post("/aliases", right); status != http.StatusSeeOther {
		t.Fatalf("a right one answers %d", status)
	}
	for what, x := range map[string]struct {
		field string
		form  url.Values
	}{
		"exists already":         {"name", url.Values{"name": {"chat"}, "target": {"acme-chat"}, "weight": {"1"}}},
		"as “acme/model”":        {"name", url.Values{"name": {"acme/model"}, "target": {"acme-chat"}, "weight": {"1"}}},
		"no spaces":              {"name", url.Values{"name": {"a b"}, "target": {"acme-chat"}, "weight": {"1"}}},
		"Give the name":          {"name", url.Values{"name": {" "}, "target": {"acme-chat"}, "weight": {"1"}}},
		"at least one":           {"targets", url.Values{"name": {"x"}, "target": {"", ""}, "weight": {"", ""}}},
		"a weight":               {"targets", url.Values{"name": {"x"}, "target": {"acme-chat"}, "weight": {""}}},
		"whole number":           {"targets", url.Values{"name": {"x"}, "target": {"acme-chat"}, "weight": {"half"}}},
		"above 0":                {"targets", url.Values{"name": {"x"}, "target": {"acme-chat"}, "weight": {"0"}}},
		"from 0 to":              {"targets", url.Values{"name": {"x"}, "target": {"acme-chat", "globex-chat"}, "weight": {"5", "-1"}}},
		"acme-chat is there":     {"targets", url.Values{"name": {"x"}, "target": {"acme-chat", "acme-chat"}, "weight": {"5", "1"}}},
		"acme-chat is there too": {"fallbacks", url.Values{"name": {"x"}, "target": {"acme-chat"}, "weight": {"5"}, "fallback": {"acme-chat"}}},
		"named “nobody”":         {"targets", url.Values{"name": {"x"}, "target": {"nobody"}, "weight": {"5"}}},
		"named “nowhere”":        {"fallbacks", url.Values{"name": {"x"}, "target": {"acme-chat"}, "weight": {"5"}, "fallback": {"nowhere"}}},
	} {
		status, _, body := olga.post("/aliases", x.form)
		what = strings.TrimSuffix(what, " too")
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, what) || !strings.Contains(body, `id="field-`+x.field+`-error"`) {
			t.Errorf("%v answers %d without “%s” at %s", x.form, status, what, x.field)
		}
		if target := x.form.Get("target"); target == "nobody" && !strings.Contains(body, `value="nobody" selected`) {
			t.Error("what was typed is lost")
		}
	}
	if list, err := s.store.AllAliases(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("aliases are %+v %v", list, err)
	}
	// Neither may a deployment take the name of an alias.
	if status, _, problem := olga.post("/deployments", url.Values{
		"name": {"d3"}, "model": {"qwen2"}, "endpoint": {"front"}, "engine": {"sim"}, "replicas": {"1"}, "workload": {"batch"}, "free": {"yes"}, "public_name": {"chat"}, "typed": {"yes"},
	}); status != http.StatusUnprocessableEntity || !strings.Contains(problem, "is an alias") {
		t.Errorf("a deployment named like an alias: %d", status)
	}
}

// The form grows without a script: a button brings the same form with more rows.
func TestTheFormOfAnAliasGrows(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	_, empty := olga.get("/aliases/new")
	status, _, more := olga.post("/aliases", url.Values{"name": {"half typed"}, "target": {"acme-chat"}, "weight": {"x"}, "more": {"yes"}})
	if n, m := strings.Count(empty, `name="target"`), strings.Count(more, `name="target"`); status != http.StatusOK || n == 0 || m <= n {
		t.Errorf("%d rows became %d (%d)", n, m, status)
	}
	for _, kept := range []string{`value="half typed"`, `value="acme-chat" selected`, `value="x"`} {
		if !strings.Contains(more, kept) {
			t.Errorf("%s is lost", kept)
		}
	}
}

func TestATenantSeesTheAliasesThatLeadItSomewhere(t *testing.T) {
	s := newSite(t)
	now := s.now
	target := func(tenant string, weight int) factory.AliasTarget {
		return factory.AliasTarget{DeploymentID: "d-" + tenant, Weight: weight}
	}
	for _, a := range []factory.Alias{
		{Name: "both", Targets: []factory.AliasTarget{target("acme", 3), target("globex", 1)}},
		{Name: "hidden", Targets: []factory.AliasTarget{target("globex", 1)}},
		{Name: "rescue", Targets: []factory.AliasTarget{target("globex", 1)}, Fallbacks: []factory.AliasTarget{target("acme", 0)}},
	} {
		a.ID, a.CreatedAt, a.UpdatedAt = factory.NewID(), now, now
		s.must(s.store.CreateAlias(t.Context(), a))
	}
	mia := s.signIn("mia@acme.example")
	a := mia.page("/t/acme/models")
	for _, want := range []string{"Other names", "both", "rescue"} {
		if !strings.Contains(a, want) {
			t.Errorf("the models page does not say “%s”: %s", want, a)
		}
	}
	if strings.Contains(a, "hidden") || strings.Contains(a, "globex") {
		t.Errorf("the models page tells of another tenant: %s", a)
	}
	read := func(tenant string) (names []string, body string) {
		status, body := s.programSends(tenant, http.MethodGet, "/api/v1/aliases", "")
		var out struct {
			Aliases []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s %v", status, body, err)
		}
		for _, a := range out.Aliases {
			names = append(names, a.Name)
		}
		return names, body
	}
	if names, body := read("acme"); !slices.Equal(names, []string{"both", "rescue"}) || strings.Contains(body, "globex") {
		t.Errorf("acme reads %s", body)
	}
	if names, body := read(""); !slices.Equal(names, []string{"both", "hidden", "rescue"}) || !strings.Contains(body, "globex/model") {
		t.Errorf("operators read %s", body)
	}
	for _, path := range []string{"/aliases", "/aliases/new"} {
		if status, _ := mia.get(path); status != http.StatusForbidden {
			t.Errorf("a member opens %s: %d", path, status)
		}
	}
	both := s.alias("both")
	for path, form := range map[string]url.Values{"/aliases": {"name": {"x"}, "target": {"acme-chat"}, "weight": {"1"}}, "/aliases/" + both.ID: {"target": {"acme-chat"}, "weight": {"1"}}, "/aliases/" + both.ID + "/remove": {}} {
		if status, _, _ := mia.post(path, form); status != http.StatusForbidden {
			t.Errorf("a member posts to %s: %d", path, status)
		}
	}
	if now := s.alias("both"); len(now.Targets) != 2 {
		t.Errorf("the alias is %+v", now)
	}
}

func TestDocumentsTakeAliases(t *testing.T) {
	b := newBench(t)
	doc := func(targets string) string {
		return `{"kind":"alias","name":"chat-large","spec":{"targets":[` + targets + `],"fallbacks":["spare"]}}`
	}
	spare := strings.ReplaceAll(strings.ReplaceAll(chatDeployment, `"chat"`, `"spare"`), `"engine"`, `"public_name":"spare","engine"`)
	// In a file, an alias may stand before what it leads to.
	all := doc(`{"deployment":"chat","weight":9}`) + `,` + smallFactory + `,` + chatDeployment + `,` + spare
	if r := b.mustApply(all); r[0].Result != "created" {
		t.Errorf("%+v", r[0])
	}
	if r := b.mustApply(all); r[0].Result != "unchanged" {
		t.Errorf("again: %+v", r[0])
	}
	if r := b.mustApply(doc(`{"deployment":"chat","weight":8}`)); r[0].Result != "changed" {
		t.Errorf("another weight: %+v", r[0])
	}
	for targets, field := range map[string]string{``: "targets", `{"deployment":"nobody","weight":1}`: "targets", `{"deployment":"chat","weight":"1"}`: "targets.weight"} {
		if status, _, problem := b.apply(doc(targets)); status != http.StatusUnprocessableEntity || problem.Fields[field] == "" {
			t.Errorf("targets %s: %d %+v", targets, status, problem)
		}
	}
	a, err := b.store.AliasByName(b.ctx(), "chat-large")
	if err != nil || len(a.Targets) != 1 || a.Targets[0].Weight != 8 || len(a.Fallbacks) != 1 {
		t.Errorf("the alias is %+v %v", a, err)
	}
}
