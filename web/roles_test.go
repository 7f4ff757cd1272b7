package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/web"
	"tokenfactory/web/paths"
	"tokenfactory/web/session"
)

func secured(s *web.Site) { s.PublicURL = "https://factory.example.org" }

func TestEveryoneSeesWhatTheirRoleMay(t *testing.T) {
	s := newSite(t, func(site *web.Site) {
		site.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	})
	s.user("olga@example.org", true)
	mia := s.user("mia@acme.example", false)
	s.user("noah@nowhere.example", false)
	acme := s.tenant("acme", mia)
	s.tenant("globex")
	management, err := session.NewManagementToken(t.Context(), s.store)
	s.must(err)

	bearer := func(secret string) *browser {
		b := s.browser()
		b.header = http.Header{"Authorization": {"Bearer " + secret}}
		return b
	}
	people := map[string]*browser{
		"nobody": s.browser(), "operator": s.signedIn("olga@example.org"), "member": s.signedIn("mia@acme.example"), "guest": s.signedIn("noah@nowhere.example"),
		"token": bearer(management), "tenant key": bearer(s.key(acme, factory.ScopeManagement)), "inference key": bearer(s.key(acme, factory.ScopeInference)),
		"bad token": bearer("tfm-unknown"), "bad key": bearer("sk-tf-unknown"), "no bearer": {s: s, client: http.DefaultClient, header: http.Header{"Authorization": {"Basic b2xnYQ=="}}},
	}
	for _, c := range []struct {
		path string
		want map[string]int
	}{
		{paths.SignIn, map[string]int{"nobody": 200, "operator": 303}},
		{paths.Health, map[string]int{"nobody": 200}},
		{paths.Home, map[string]int{"nobody": 303, "operator": 200, "member": 303, "guest": 403}},
		{paths.Account, map[string]int{"nobody": 303, "operator": 200, "member": 200, "guest": 200}},
		{paths.Clusters, map[string]int{"nobody": 303, "operator": 200, "member": 403, "guest": 403, "token": 303}},
		{paths.NewDeployment, map[string]int{"nobody": 303, "operator": 200, "member": 403}},
		{paths.Tenants, map[string]int{"nobody": 303, "operator": 200, "member": 403}},
		{paths.Usage, map[string]int{"nobody": 303, "operator": 200, "member": 403}},
		{paths.Objectives, map[string]int{"nobody": 303, "operator": 200, "member": 403, "guest": 403, "token": 303}},
		{paths.ObjectivesCSV, map[string]int{"nobody": 303, "operator": 200, "member": 403, "guest": 403}},
		{paths.Alerts, map[string]int{"nobody": 303, "operator": 200, "member": 403, "guest": 403, "token": 303}},
		{paths.Alert("no-such"), map[string]int{"nobody": 303, "operator": 404, "member": 403}},
		{paths.Silences, map[string]int{"nobody": 303, "operator": 200, "member": 403}},
		{paths.NewSilence, map[string]int{"nobody": 303, "operator": 200, "member": 403}},
		{paths.Channels, map[string]int{"nobody": 303, "operator": 200, "member": 403, "guest": 403}},
		{paths.NewChannel, map[string]int{"nobody": 303, "operator": 200, "member": 403}},
		{paths.EditChannel("no-such"), map[string]int{"nobody": 303, "operator": 404, "member": 403}},
		{paths.OwnModels("acme"), map[string]int{"nobody": 303, "operator": 404, "member": 200, "guest": 404}},
		{paths.OwnMetrics("acme", "no-such"), map[string]int{"nobody": 303, "operator": 404, "member": 404, "guest": 404}},
		{paths.OwnMetricsCSV("globex", "no-such"), map[string]int{"nobody": 303, "member": 404}},
		{paths.OwnKeys("acme"), map[string]int{"nobody": 303, "member": 200, "guest": 404}},
		{paths.OwnUsage("acme"), map[string]int{"member": 200, "guest": 404}},
		{paths.OwnModels("globex"), map[string]int{"member": 404, "operator": 404}},
		{paths.OwnModels("no-such"), map[string]int{"member": 404}},
		{paths.API + "/deployments", map[string]int{"nobody": 401, "operator": 200, "member": 200, "token": 200, "tenant key": 200, "inference key": 403, "bad token": 401, "bad key": 401, "no bearer": 401}},
		{paths.Scrape, map[string]int{"nobody": 401, "operator": 401, "token": 200, "tenant key": 403, "inference key": 403, "bad token": 401}},
		{paths.API + "/clusters", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403}},
		{paths.API + "/objectives", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403, "inference key": 403}},
		{paths.API + "/objectives.csv", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403}},
		{paths.API + "/alerts", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403, "inference key": 403}},
		{paths.API + "/alerts.csv", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403}},
		{paths.API + "/alerts/silences", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403}},
		{paths.API + "/channels", map[string]int{"nobody": 401, "operator": 200, "member": 403, "token": 200, "tenant key": 403}},
		{paths.API + "/usage", map[string]int{"nobody": 401, "operator": 200, "member": 200, "guest": 403, "token": 200, "tenant key": 200, "inference key": 403}},
		{paths.API + "/no-such", map[string]int{"nobody": 404, "operator": 404}},
		{"/no/such/page", map[string]int{"nobody": 404, "operator": 404, "member": 404}},
	} {
		for who, want := range c.want {
			if got := people[who].get(c.path); got.StatusCode != want {
				t.Errorf("%s as %s: %d, want %d (%s)", c.path, who, got.StatusCode, want, got.Header.Get("Location"))
			}
		}
	}
}

func TestRevokedAndExpiredKeysAreRefused(t *testing.T) {
	s := newSite(t)
	acme := s.tenant("acme")
	secret := s.key(acme, factory.ScopeManagement)
	b := s.browser()
	b.header = http.Header{"Authorization": {"Bearer " + secret}}
	b.get(paths.API + "/usage").is(http.StatusOK)
	k, err := s.store.KeyByHash(t.Context(), factory.HashSecret(secret))
	s.must(err)
	s.must(s.store.RevokeKey(t.Context(), acme.ID, k.ID, s.now))
	s.now = s.now.Add(time.Second)
	b.get(paths.API + "/usage").is(http.StatusUnauthorized)
}

func TestRequestsFromOtherSitesAreRefused(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	form := url.Values{"email": {"olga@example.org"}, "password": {password}}
	for site, want := range map[string]int{"same-origin": 303, "none": 303, "cross-site": 403, "same-site": 400} {
		b := s.browser()
		b.header = http.Header{"Sec-Fetch-Site": {site}}
		if got := b.post(paths.SignIn, form).StatusCode; got != want {
			t.Errorf("from %s: %d, want %d", site, got, want)
		}
	}
	// Plain http on a LAN: browsers do not say where a request comes from.
	b := s.browser()
	b.header = http.Header{}
	page := b.get(paths.SignIn)
	token := page.document().Find("#signin-form input[name=_csrf]").AttrOr("value", "")
	if c := page.cookie("csrf"); c == nil || !c.HttpOnly || token == "" {
		t.Fatalf("no token: %+v", c)
	}
	b.post(paths.SignIn, form).is(http.StatusBadRequest)
	form.Set("_csrf", token+"x")
	b.post(paths.SignIn, form).is(http.StatusForbidden)
	form.Del("_csrf")
	b.do(http.MethodPost, paths.SignIn, form, http.Header{"X-Csrf-Token": {token}}).is(http.StatusSeeOther)
	form.Set("_csrf", token)
	b.post(paths.SignIn, form).is(http.StatusSeeOther)
}

func TestAPIWritesWithACookieAreProtectedAndWithATokenNotHindered(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")
	b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	b.do(http.MethodPost, paths.API+"/apply", nil, nil).is(http.StatusForbidden)
	token, err := session.NewManagementToken(t.Context(), s.store)
	s.must(err)
	program := s.browser()
	program.header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	if got := program.do(http.MethodPost, paths.API+"/apply", nil, nil).StatusCode; got == http.StatusForbidden || got == http.StatusUnauthorized {
		t.Errorf("a program is refused with %d", got)
	}
}

func TestProblemsLookAsTheAskerNeeds(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")

	page := b.get("/deployments/no-such")
	page.is(http.StatusNotFound)
	if d := page.document(); d.Find("nav").Length() == 0 || d.Find("h1").Length() != 1 {
		t.Error("a missing page has no navigation, or not one heading")
	}

	fragment := b.do(http.MethodGet, "/deployments/no-such", nil, http.Header{"Hx-Request": {"true"}})
	fragment.is(http.StatusNotFound)
	if fragment.Header.Get("HX-Retarget") != "#problems" || strings.Contains(fragment.body, "<html") || !strings.Contains(fragment.body, `id="problems"`) {
		t.Errorf("fragment: %v\n%s", fragment.Header, fragment.body)
	}

	var failure struct {
		Error struct {
			Kind    factory.Kind
			Message string
		}
	}
	for path, kind := range map[string]factory.Kind{
		"/deployments/no-such/metrics": factory.NotFound, "/no-such": factory.NotFound, "/deployments/no-such/metrics?from=x": factory.NotFound,
	} {
		api := b.get(paths.API + path)
		api.is(http.StatusNotFound)
		s.must(json.Unmarshal([]byte(api.body), &failure))
		if failure.Error.Kind != kind || failure.Error.Message == "" {
			t.Errorf("%s: %+v", path, failure)
		}
	}

	nobody := s.browser()
	lost := nobody.do(http.MethodGet, paths.Clusters, nil, http.Header{"Hx-Request": {"true"}})
	lost.is(http.StatusNoContent)
	if lost.Header.Get("HX-Redirect") != paths.SignIn {
		t.Errorf("a lost session leads a fragment to %q", lost.Header.Get("HX-Redirect"))
	}
	// The router's own refusal still looks like the product.
	wrong := nobody.do(http.MethodDelete, paths.SignIn, nil, nil)
	wrong.is(http.StatusNotFound)
	if wrong.Header.Get("Content-Security-Policy") == "" || wrong.document().Find(`link[rel=stylesheet][href^="/static/app-"]`).Length() != 1 {
		t.Error("a refusal of the router has no style or no policy")
	}
	nobody.post(paths.SignIn, url.Values{"email": {strings.Repeat("x", 2<<20)}}).is(http.StatusRequestEntityTooLarge)
}

func TestOurOwnFailuresAreLoggedAndNotShown(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")
	s.must(s.store.Close())
	r := b.get(paths.Deployments)
	r.is(http.StatusServiceUnavailable)
	id := r.Header.Get("X-Request-Id")
	if strings.Contains(r.body, "sql") || strings.Contains(r.body, "closed") || !strings.Contains(r.body, id) {
		t.Errorf("the page shows the cause, or no request id:\n%s", r.body)
	}
	if !strings.Contains(s.log.String(), "closed") || !strings.Contains(s.log.String(), id) {
		t.Error("the log has no cause for the request id")
	}
}

func TestPagesForbidEverythingInline(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")
	for _, path := range []string{paths.Account, paths.Home, paths.Clusters, paths.NewCluster, paths.NewDeployment, paths.Tenants, paths.Usage, paths.Alerts, paths.NewSilence, paths.NewChannel, "/no-such"} {
		r := b.get(path)
		if p := r.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: policy %q", path, p)
		}
		d := r.document()
		if n := d.Find("[style], [onclick], [hx-on], script:not([src]):not([type='application/json'])").Length(); n > 0 {
			t.Errorf("%s has %d inline styles or scripts", path, n)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(r.Header.Get("Cache-Control"), "no-") {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

func TestGatewayAndAgentsAreMountedBare(t *testing.T) {
	let := make(chan struct{})
	stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first "+r.URL.Path)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-let
	})
	s := newSite(t, func(c *web.Site) { c.Gateway, c.Agents = stream, stream })
	defer close(let)
	for _, path := range []string{"/v1/chat/completions", "/agent/v1/report"} {
		res, err := http.Post(s.server.URL+path, "application/json", strings.NewReader("{}"))
		s.must(err)
		defer res.Body.Close()
		first := make([]byte, len("first ")+len(path))
		_, err = io.ReadFull(res.Body, first) // arrives while the handler still runs
		s.must(err)
		if string(first) != "first "+path || res.Header.Get("Content-Security-Policy") != "" || len(res.Cookies()) != 0 {
			t.Errorf("%s: %q, %v", path, first, res.Header)
		}
	}
}

func TestThemeIsChosenWithoutScript(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	b.header.Set("Referer", s.server.URL+"/signin?next=%2Fusage")
	b.post(paths.Theme, url.Values{"theme": {"dark"}}).leadsTo("/signin?next=%2Fusage")
	if got := b.get(paths.SignIn).document().Find("html").AttrOr("data-theme", ""); got != "dark" {
		t.Errorf("theme %q", got)
	}
	b.post(paths.Theme, url.Values{"theme": {"system"}}).is(http.StatusSeeOther)
	if _, set := b.get(paths.SignIn).document().Find("html").Attr("data-theme"); set {
		t.Error("the system's theme is not left to the system")
	}
	b.post(paths.Theme, url.Values{"theme": {"pink"}}).is(http.StatusBadRequest)
	b.header.Set("Referer", "https://evil.example/x")
	b.post(paths.Theme, url.Values{"theme": {"light"}}).leadsTo(paths.Home)
}

func TestWebNeedsNoListenerToBeServed(t *testing.T) {
	e, err := web.New(web.Site{Store: newSite(t).store})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, paths.Health, nil))
	if w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}
