package handlers_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
	"tokenfactory/web"
	"tokenfactory/web/session"
)

// site is a console on a store of its own with two tenants, each with a member, a
// key, and a deployment that only it may use.
type site struct {
	t     *testing.T
	store *store.Store
	url   string
	now   time.Time
	// secrets of the tenants' keys of scope management, by tenant.
	secrets map[string]string
	keys    map[string]factory.Key
	tenants map[string]factory.Tenant
	prices  map[string]string // ids, by tenant
}

const sitePassword = "correct horse battery"

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		t: t, store: storetest.Open(t), now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC),
		secrets: map[string]string{}, keys: map[string]factory.Key{}, tenants: map[string]factory.Tenant{}, prices: map[string]string{},
	}
	handler, err := web.New(web.Site{Store: s.store, Now: func() time.Time { return s.now }, PublicURL: "http://factory.example:8080"})
	if err != nil {
		t.Skip(err) // assets are built by make
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	ctx := t.Context()
	s.must(s.store.CreateCluster(ctx, factory.Cluster{ID: "c1", Name: "desk", CreatedAt: s.now}))
	s.must(s.store.CreateEndpoint(ctx, factory.Endpoint{ID: "e1", Name: "front", ClusterID: "c1", CreatedAt: s.now}))
	s.must(s.store.CreateProvider(ctx, factory.Provider{ID: "p1", Name: "qwen", CreatedAt: s.now}))
	llm := factory.LLM{ID: "m1", Name: "qwen2", ProviderID: "p1", CreatedAt: s.now, ModelSpec: factory.ModelSpec{
		Provider: "qwen", Source: factory.SourceHuggingFace, Location: "Qwen/Qwen2", ContextLength: 32768}}
	s.must(s.store.CreateLLM(ctx, llm))
	s.person("olga@factory.example", true)
	for _, name := range []string{"acme", "globex"} {
		s.tenant(name)
	}
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) person(email string, operator bool) factory.User {
	s.t.Helper()
	hash, err := session.HashPassword(sitePassword)
	s.must(err)
	u := factory.User{ID: factory.NewID(), Email: email, PasswordHash: hash, Operator: operator, CreatedAt: s.now}
	s.must(s.store.CreateUser(s.t.Context(), u))
	return u
}

func (s *site) tenant(name string) {
	s.t.Helper()
	ctx := s.t.Context()
	t := factory.Tenant{ID: factory.NewID(), Name: name, Title: strings.ToUpper(name), CreatedAt: s.now}
	s.must(s.store.CreateTenant(ctx, t))
	s.tenants[name] = t
	u := s.person("mia@"+name+".example", false)
	s.must(s.store.SaveMembership(ctx, factory.Membership{TenantID: t.ID, UserID: u.ID, Role: factory.Admin, CreatedAt: s.now}))
	secret, hash := factory.NewSecret(factory.PrefixKey)
	k := factory.Key{ID: factory.NewID(), TenantID: t.ID, Name: name + "-key", Prefix: factory.SecretPrefix(secret), Hash: hash, Scope: factory.ScopeManagement, CreatedAt: s.now}
	s.must(s.store.CreateKey(ctx, k))
	s.secrets[name], s.keys[name] = secret, k
	d := factory.Deployment{
		ID: "d-" + name, Name: name + "-chat", ModelID: "m1", EndpointID: "e1", ClusterID: "c1", Revision: 1, CreatedAt: s.now, UpdatedAt: s.now,
		TenantIDs: []string{t.ID},
		DeploymentSpec: factory.DeploymentSpec{
			Model: "qwen2", Endpoint: "front", Cluster: "desk", PublicName: name + "/model", Engine: "sim", Replicas: 1, Workload: factory.Interactive,
			Currency: "USD", InputPrice: "0.15", CachedInputPrice: "0.03", OutputPrice: "0.60", Tenants: []string{name},
		},
	}
	price := d.DeploymentSpec.Price()
	price.ID, price.DeploymentID, price.ValidFrom = "price-"+name, d.ID, s.now
	d.Price = &price
	s.prices[name] = price.ID
	s.must(s.store.CreateDeployment(ctx, d))
}

// visitor is a browser that has signed in.
type visitor struct {
	*site
	client *http.Client
}

func (s *site) signIn(email string) *visitor {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	s.must(err)
	v := &visitor{s, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	v.get("/signin")
	if status, _, body := v.post("/signin", url.Values{"email": {email}, "password": {sitePassword}}); status != http.StatusSeeOther {
		s.t.Fatalf("sign-in answers %d: %s", status, body)
	}
	return v
}

func (v *visitor) get(path string) (int, string) {
	v.t.Helper()
	resp, err := v.client.Get(v.url + path)
	v.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	v.must(err)
	return resp.StatusCode, string(body)
}

func (v *visitor) post(path string, form url.Values) (status int, location, body string) {
	v.t.Helper()
	here, err := url.Parse(v.url)
	v.must(err)
	if form == nil {
		form = url.Values{}
	}
	for _, c := range v.client.Jar.Cookies(here) {
		if c.Name == "csrf" {
			form.Set("_csrf", c.Value)
		}
	}
	resp, err := v.client.PostForm(v.url+path, form)
	v.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	v.must(err)
	return resp.StatusCode, resp.Header.Get("Location"), string(text)
}

func TestAMemberSeesNothingOfAnotherTenant(t *testing.T) {
	s := newSite(t)
	mia := s.signIn("mia@acme.example")
	for _, path := range []string{"/t/acme/models", "/t/acme/keys", "/t/acme/members"} {
		status, body := mia.get(path)
		if status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
		}
		if strings.Contains(strings.ToLower(body), "globex") {
			t.Errorf("%s mentions the other tenant", path)
		}
	}
	if _, body := mia.get("/t/acme/models"); !strings.Contains(body, "acme/model") || !strings.Contains(body, "http://factory.example:8080/v1") {
		t.Error("the models page does not show what is shared, and where")
	}
	for _, path := range []string{"/t/globex", "/t/globex/models", "/t/globex/keys", "/t/globex/members", "/t/nobody/keys"} {
		if status, _ := mia.get(path); status != http.StatusNotFound {
			t.Errorf("%s answers %d, want 404", path, status)
		}
	}
	for _, path := range []string{"/tenants", "/tenants/" + s.tenants["acme"].ID, "/usage", "/usage.csv"} {
		if status, _ := mia.get(path); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("a member opens %s: %d", path, status)
		}
	}
}

func TestAMemberChangesNothingOfAnotherTenant(t *testing.T) {
	s := newSite(t)
	mia := s.signIn("mia@acme.example")
	theirs := s.keys["globex"]
	people, err := s.store.Members(t.Context(), s.tenants["globex"].ID)
	s.must(err)
	for path, form := range map[string]url.Values{
		"/t/acme/keys/" + theirs.ID + "/revoke":           {},
		"/t/globex/keys/" + theirs.ID + "/revoke":         {},
		"/t/globex/keys":                                  {"name": {"mine"}},
		"/t/acme/members/" + people[0].UserID + "/remove": {},
		"/t/acme/members/" + people[0].UserID:             {"role": {"member"}},
		"/t/globex/members":                               {"email": {"eve@x.example"}, "role": {"admin"}},
		"/tenants/" + s.tenants["globex"].ID + "/keys":    {"name": {"mine"}},
		"/tenants/" + s.tenants["globex"].ID + "/remove":  {},
		"/tenants/" + s.tenants["acme"].ID + "/members":   {"email": {"eve@x.example"}, "role": {"admin"}},
	} {
		if status, _, _ := mia.post(path, form); status != http.StatusNotFound && status != http.StatusForbidden {
			t.Errorf("POST %s answers %d", path, status)
		}
	}
	k, err := s.store.Key(t.Context(), theirs.TenantID, theirs.ID)
	s.must(err)
	after, err := s.store.Members(t.Context(), s.tenants["globex"].ID)
	s.must(err)
	if k.RevokedAt != nil || len(after) != 1 || after[0].Role != factory.Admin {
		t.Errorf("something of the other tenant changed: %+v %+v", k, after)
	}
}

func TestASecretIsShownOnceAndOnlyItsHashIsKept(t *testing.T) {
	s := newSite(t)
	mia := s.signIn("mia@acme.example")
	status, _, body := mia.post("/t/acme/keys", url.Values{"name": {"app"}, "requests_per_minute": {"1,000"}, "expires_at": {"2027-01-31"}})
	at := strings.Index(body, factory.PrefixKey)
	if status != http.StatusOK || at < 0 {
		t.Fatalf("the new key is not shown: %d %s", status, body)
	}
	secret := body[at : at+strings.IndexAny(body[at:], "<\"\n")]
	k, err := s.store.KeyByHash(t.Context(), factory.HashSecret(secret))
	s.must(err)
	if k.TenantID != s.tenants["acme"].ID || k.RequestsPerMinute != 1000 || k.Scope != factory.ScopeInference || k.CreatedBy != "mia@acme.example" ||
		k.ExpiresAt == nil || !k.ExpiresAt.Equal(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the key is %+v", k)
	}
	if _, body := mia.get("/t/acme/keys"); strings.Contains(body, secret) {
		t.Error("the secret is shown again")
	}
	for field, form := range map[string]url.Values{
		"exists already":          {"name": {"app"}},
		"Give it a name":          {"name": {""}},
		"whole number":            {"name": {"b"}, "requests_per_minute": {"ten"}},
		"Write a date":            {"name": {"b"}, "expires_at": {"soon"}},
		"has passed":              {"name": {"b"}, "expires_at": {"2026-11-01"}},
		"inference or management": {"name": {"b"}, "scope": {"everything"}},
	} {
		status, _, body := mia.post("/t/acme/keys", form)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, field) {
			t.Errorf("%v answers %d without “%s”", form, status, field)
		}
	}
	if status, location, _ := mia.post("/t/acme/keys/"+k.ID+"/revoke", nil); status != http.StatusSeeOther || location != "/t/acme/keys" {
		t.Errorf("revoking answers %d to %s", status, location)
	}
	if k, err = s.store.Key(t.Context(), k.TenantID, k.ID); err != nil || k.Live(s.now) {
		t.Errorf("the key still works: %+v %v", k, err)
	}
}

func TestAnOperatorMakesATenantWithItsFirstMember(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	status, location, _ := olga.post("/tenants", url.Values{"name": {"initech"}, "title": {"Initech"}})
	if status != http.StatusSeeOther || !strings.HasPrefix(location, "/tenants/") {
		t.Fatalf("a new tenant answers %d to %s", status, location)
	}
	if status, _, body := olga.post("/tenants", url.Values{"name": {"initech"}}); status != http.StatusUnprocessableEntity || !strings.Contains(body, "exists already") {
		t.Errorf("the same name again answers %d", status)
	}
	status, _, body := olga.post(location+"/members", url.Values{"email": {"Peter@initech.example"}, "role": {"member"}})
	if status != http.StatusOK || !strings.Contains(body, "First password of Peter@initech.example") {
		t.Errorf("the first password is not shown: %d", status)
	}
	if status, _, body := olga.post(location+"/members", url.Values{"email": {"nobody"}, "role": {"member"}}); status != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-email-error"`) {
		t.Errorf("a bad address answers %d", status)
	}
	// Somebody who has an account keeps their password.
	if status, to, _ := olga.post(location+"/members", url.Values{"email": {"mia@acme.example"}, "role": {"admin"}}); status != http.StatusSeeOther || to != location {
		t.Errorf("a known person answers %d to %s", status, to)
	}
	mia := s.signIn("mia@acme.example")
	if status, _ := mia.get("/t/initech/members"); status != http.StatusOK {
		t.Errorf("the new admin gets %d", status)
	}
	for _, path := range []string{"/tenants", location, location + "/edit"} {
		if status, body := olga.get(path); status != http.StatusOK || !strings.Contains(body, "Initech") {
			t.Errorf("%s answers %d", path, status)
		}
	}
	if status, to, _ := olga.post(location, url.Values{"title": {"Initech Corp"}}); status != http.StatusSeeOther || to != location {
		t.Errorf("saving answers %d to %s", status, to)
	}
	if status, _, _ := olga.post(location+"/remove", nil); status != http.StatusSeeOther {
		t.Errorf("deleting answers %d", status)
	}
	if status, _ := mia.get("/t/initech/members"); status != http.StatusNotFound {
		t.Errorf("a deleted tenant answers %d", status)
	}
}

func TestATenantKeepsAnAdmin(t *testing.T) {
	s := newSite(t)
	mia := s.signIn("mia@acme.example")
	people, err := s.store.Members(t.Context(), s.tenants["acme"].ID)
	s.must(err)
	self := "/t/acme/members/" + people[0].UserID
	for path, form := range map[string]url.Values{self: {"role": {"member"}}, self + "/remove": {}} {
		if status, _, _ := mia.post(path, form); status != http.StatusConflict {
			t.Errorf("POST %s by the only admin answers %d", path, status)
		}
	}
	if status, _, _ := mia.post("/t/acme/members", url.Values{"email": {"ben@acme.example"}, "role": {"member"}}); status != http.StatusOK {
		t.Errorf("adding a member answers %d", status)
	}
	ben, err := s.store.UserByEmail(t.Context(), "ben@acme.example")
	s.must(err)
	hash, err := session.HashPassword(sitePassword)
	s.must(err)
	s.must(s.store.SavePassword(t.Context(), ben.ID, hash))
	member := s.signIn("ben@acme.example")
	if status, _, _ := member.post("/t/acme/members", url.Values{"email": {"eve@x.example"}, "role": {"admin"}}); status != http.StatusForbidden {
		t.Errorf("a plain member adds people: %d", status)
	}
	if _, body := member.get("/t/acme/members"); strings.Contains(body, "member-form") {
		t.Error("a plain member is offered the form")
	}
	if status, _, _ := mia.post("/t/acme/members/"+ben.ID, url.Values{"role": {"admin"}}); status != http.StatusSeeOther {
		t.Errorf("a new role answers %d", status)
	}
	if status, _, _ := mia.post(self+"/remove", nil); status != http.StatusSeeOther {
		t.Errorf("an admin who is not the only one cannot leave: %d", status)
	}
}
