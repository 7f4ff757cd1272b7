package web_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"tokenfactory/factory"
	"tokenfactory/handlers"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
	"tokenfactory/web"
	"tokenfactory/web/paths"
	"tokenfactory/web/session"
)

const password = "correct horse battery"

var passwordHash = func() string {
	hash, err := session.HashPassword(password)
	if err != nil {
		panic(err)
	}
	return hash
}()

// site is the real console on a real store, under a clock that tests move.
type site struct {
	t      *testing.T
	store  *store.Store
	server *httptest.Server
	now    time.Time
	log    *bytes.Buffer
	// nothing but the test's goroutine moves the clock, between requests
}

func newSite(t *testing.T, change ...func(*web.Site)) *site {
	t.Helper()
	s := &site{t: t, store: storetest.Open(t), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), log: &bytes.Buffer{}}
	cfg := web.Site{Store: s.store, Now: func() time.Time { return s.now }, Log: slog.New(slog.NewTextHandler(s.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	e, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(e)
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) user(email string, operator bool) factory.User {
	s.t.Helper()
	u := factory.User{ID: factory.NewID(), Email: email, Name: email, PasswordHash: passwordHash, Operator: operator, CreatedAt: s.now}
	s.must(s.store.CreateUser(s.t.Context(), u))
	return u
}

func (s *site) tenant(name string, members ...factory.User) factory.Tenant {
	s.t.Helper()
	tenant := factory.Tenant{ID: factory.NewID(), Name: name, Title: strings.ToUpper(name), CreatedAt: s.now}
	s.must(s.store.CreateTenant(s.t.Context(), tenant))
	for _, u := range members {
		s.must(s.store.SaveMembership(s.t.Context(), factory.Membership{TenantID: tenant.ID, UserID: u.ID, Role: factory.Member, CreatedAt: s.now}))
	}
	return tenant
}

func (s *site) key(tenant factory.Tenant, scope string) string {
	s.t.Helper()
	secret, hash := factory.NewSecret(factory.PrefixKey)
	s.must(s.store.CreateKey(s.t.Context(), factory.Key{
		ID: factory.NewID(), TenantID: tenant.ID, Name: scope, Prefix: factory.SecretPrefix(secret), Hash: hash, Scope: scope, CreatedAt: s.now,
	}))
	return secret
}

// setupToken is the token of a set-up link as the server prints it at its start.
func (s *site) setupToken() string {
	s.t.Helper()
	token, needed, err := handlers.EnsureSetup(s.t.Context(), s.store)
	if err != nil || !needed {
		s.t.Fatalf("no set-up link: needed %v, %v", needed, err)
	}
	return token
}

// browser keeps cookies and follows no redirects. It says where its requests come
// from, as browsers do on https and on localhost.
type browser struct {
	s      *site
	client *http.Client
	header http.Header
}

func (s *site) browser() *browser {
	jar, err := cookiejar.New(nil)
	s.must(err)
	return &browser{s: s, header: http.Header{"Sec-Fetch-Site": {"same-origin"}}, client: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// signedIn is the browser of somebody who has signed in.
func (s *site) signedIn(email string) *browser {
	s.t.Helper()
	b := s.browser()
	if r := b.signIn(email, password); r.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("%s cannot sign in: %d", email, r.StatusCode)
	}
	return b
}

func (b *browser) signIn(email, password string) *answer {
	return b.post(paths.SignIn, url.Values{"email": {email}, "password": {password}})
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body string
	t    *testing.T
}

func (b *browser) do(method, path string, form url.Values, header http.Header) *answer {
	b.s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.s.t.Context(), method, b.s.server.URL+path, body)
	b.s.must(err)
	for _, h := range []http.Header{b.header, header} {
		for k, v := range h {
			r.Header[k] = v
		}
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.client.Do(r)
	b.s.must(err)
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	b.s.must(err)
	return &answer{res, string(read), b.s.t}
}

func (b *browser) get(path string) *answer { return b.do(http.MethodGet, path, nil, nil) }

func (b *browser) post(path string, form url.Values) *answer {
	if form == nil {
		form = url.Values{}
	}
	return b.do(http.MethodPost, path, form, nil)
}

// document parses a page.
func (a *answer) document() *goquery.Document {
	a.t.Helper()
	d, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

// cookie finds one that the answer sets.
func (a *answer) cookie(name string) *http.Cookie {
	for _, c := range a.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (a *answer) is(status int) {
	a.t.Helper()
	if a.StatusCode != status {
		a.t.Fatalf("%s %s: %d, want %d\n%.600s", a.Request.Method, a.Request.URL.Path, a.StatusCode, status, a.body)
	}
}

func (a *answer) leadsTo(path string) {
	a.t.Helper()
	a.is(http.StatusSeeOther)
	if got := a.Header.Get("Location"); got != path {
		a.t.Fatalf("%s leads to %q, want %q", a.Request.URL.Path, got, path)
	}
}
