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

func newSite(t *testing.T, change ...func(*web.Site)) *site {
	t.Helper()
	s := &site{
		t: t, store: storetest.Open(t), now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC),
		secrets: map[string]string{}, keys: map[string]factory.Key{}, tenants: map[string]factory.Tenant{}, prices: map[string]string{},
	}
	cfg := web.Site{Store: s.store, Now: func() time.Time { return s.now }, PublicURL: "http://factory.example:8080"}
	for _, c := range change {
		c(&cfg)
	}
	handler, err := web.New(cfg)
	if err != nil {
		t.Fatal(err) // it says to run make assets
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

// page is the text of a page's main part, spaces evened out.
func (v *visitor) page(path string) string {
	v.t.Helper()
	status, body := v.get(path)
	// Cells and lines of a page are apart to the eye.
	return answer{v.t, status, "", strings.ReplaceAll(body, "<", " <")}.is(http.StatusOK).text()
}

// programSends sends a request as a tenant's management key does or, without a tenant, as
// one with the operators' management token.
func (s *site) programSends(tenant, method, path, body string) (int, string) {
	s.t.Helper()
	secret := s.secrets[tenant]
	if tenant == "" {
		var err error
		if secret, err = session.NewManagementToken(s.t.Context(), s.store); err != nil {
			s.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	s.must(err)
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.must(err)
	return resp.StatusCode, string(text)
}
