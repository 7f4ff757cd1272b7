package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/web/paths"
)

func TestSetupLinkMakesTheFirstOperatorOnce(t *testing.T) {
	s := newSite(t)
	old := s.setupToken()
	token := s.setupToken() // the server was started again
	b := s.browser()
	b.get(paths.SetupWith(old)).is(http.StatusGone)
	b.get(paths.Setup).is(http.StatusGone)
	page := b.get(paths.SetupWith(token))
	page.is(http.StatusOK)
	if page.document().Find("#setup-form #field-password").Length() != 1 {
		t.Error("the page has no form")
	}

	form := url.Values{"token": {token}, "name": {"Olga"}, "email": {" Olga@Example.org "}, "password": {"short"}}
	wrong := b.post(paths.Setup, form)
	wrong.is(http.StatusUnprocessableEntity)
	if wrong.document().Find("#field-name").AttrOr("value", "") != "Olga" || wrong.document().Find("#field-password-error").Length() != 1 {
		t.Error("the form forgot what was typed, or has no message at the password")
	}
	if strings.Contains(wrong.body, "short") {
		t.Error("the password was sent back")
	}
	form.Set("password", password)
	b.post(paths.Setup, form).leadsTo(paths.Home)
	home := b.get(paths.Home)
	home.is(http.StatusOK)
	if !strings.Contains(home.body, "Get started") {
		t.Error("an empty factory does not say how to start")
	}

	form.Set("email", "eve@example.org")
	gone := s.browser().post(paths.Setup, form)
	gone.is(http.StatusGone)
	s.browser().get(paths.SetupWith(token)).is(http.StatusGone)
	if !strings.Contains(gone.body, "Sign in") {
		t.Error("a link that was used does not say what to do")
	}
	if n, err := s.store.CountOperators(t.Context()); err != nil || n != 1 {
		t.Errorf("%d operators, %v", n, err)
	}
	s.signedIn("olga@example.org")
	if strings.Contains(s.log.String(), token) {
		t.Error("the log has the set-up link's token")
	}
}

func TestSigningInAnswersUnknownPeopleAlike(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.browser()
	wrong := b.signIn("olga@example.org", "not her password")
	wrong.is(http.StatusUnprocessableEntity)
	unknown := b.signIn("nora@example.org", "not her password")
	unknown.is(http.StatusUnprocessableEntity)
	if strings.ReplaceAll(wrong.body, "olga", "nora") != unknown.body {
		t.Error("the answer tells whether somebody has an account")
	}
	b.signIn("", "").is(http.StatusUnprocessableEntity)
	r := b.signIn("  OLGA@example.org", password)
	r.leadsTo(paths.Home)
	c := r.cookie("session")
	if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Secure {
		t.Errorf("session cookie: %+v", c)
	}
	b.get(paths.SignIn).leadsTo(paths.Home)
}

func TestSessionCookieIsSecureBehindHTTPS(t *testing.T) {
	s := newSite(t, secured)
	s.user("olga@example.org", true)
	r := s.browser().signIn("olga@example.org", password)
	if c := r.cookie("session"); c == nil || !c.Secure {
		t.Errorf("session cookie: %+v", c)
	}
	if r.Header.Get("Strict-Transport-Security") == "" {
		t.Error("https is not made lasting")
	}
}

func TestSigningInMakesANewSession(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.browser()
	first := b.signIn("olga@example.org", password).cookie("session")
	// A second sign-in in the same browser ends the session that was there.
	second := b.signIn("olga@example.org", password).cookie("session")
	if first.Value == second.Value {
		t.Fatal("the session's id was kept")
	}
	thief := s.browser()
	thief.header.Set("Cookie", "session="+first.Value)
	thief.get(paths.Account).leadsTo(paths.SignInTo(paths.Account))
	thief.header.Set("Cookie", "session=made-up")
	thief.get(paths.Account).leadsTo(paths.SignInTo(paths.Account))
}

func TestSigningInLeadsBackToThisSiteOnly(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	s.browser().get("/deployments?x=1").leadsTo(paths.SignInTo("/deployments?x=1"))
	for next, want := range map[string]string{
		"/clusters?sort=name":  "/clusters?sort=name",
		"https://evil.example": paths.Home, "//evil.example": paths.Home, `/\evil.example`: paths.Home,
		"javascript:alert(1)": paths.Home, "/\tevil.example": paths.Home, "": paths.Home,
	} {
		r := s.browser().post(paths.SignIn, url.Values{"email": {"olga@example.org"}, "password": {password}, "next": {next}})
		r.is(http.StatusSeeOther)
		if got := r.Header.Get("Location"); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestGuessingIsSlowedDownByAccount(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	s.user("oscar@example.org", true)
	b := s.browser()
	for range 10 {
		b.signIn("olga@example.org", "guess").is(http.StatusUnprocessableEntity)
	}
	refused := b.signIn("olga@example.org", password)
	refused.is(http.StatusTooManyRequests)
	if !strings.Contains(refused.body, "15 minutes") {
		t.Error("the refusal does not say how long to wait")
	}
	s.browser().signIn("oscar@example.org", password).is(http.StatusSeeOther)
	s.now = s.now.Add(16 * time.Minute)
	b.signIn("olga@example.org", password).is(http.StatusSeeOther)
	// A success forgets the attempts before it.
	for range 9 {
		b.signIn("olga@example.org", "guess").is(http.StatusUnprocessableEntity)
	}
	b.signIn("olga@example.org", password).is(http.StatusSeeOther)
}

func TestGuessingIsSlowedDownByAddress(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	for range 100 { // failures on other accounts, all from here
		s.must(s.store.RecordLoginFailure(t.Context(), "address:127.0.0.1", s.now))
	}
	s.browser().signIn("olga@example.org", password).is(http.StatusTooManyRequests)
	forged := s.browser()
	forged.header.Set("X-Forwarded-For", "203.0.113.7")
	forged.signIn("olga@example.org", password).is(http.StatusTooManyRequests)
}

func TestSessionsEnd(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	toSignIn := paths.SignInTo(paths.Account)

	b := s.signedIn("olga@example.org")
	b.post(paths.SignOut, nil).leadsTo(paths.SignIn)
	b.get(paths.Account).leadsTo(toSignIn)

	here, there := s.signedIn("olga@example.org"), s.signedIn("olga@example.org")
	here.post(paths.SignOutAll, nil).leadsTo(paths.SignIn)
	here.get(paths.Account).leadsTo(toSignIn)
	there.get(paths.Account).leadsTo(toSignIn)

	here, there = s.signedIn("olga@example.org"), s.signedIn("olga@example.org")
	changed := url.Values{"current": {password}, "new": {"another long one"}, "repeat": {"another long one"}}
	here.post(paths.AccountPassword, changed).leadsTo(paths.Account)
	here.get(paths.Account).is(http.StatusOK)
	there.get(paths.Account).leadsTo(toSignIn)
	s.browser().signIn("olga@example.org", password).is(http.StatusUnprocessableEntity)
	s.browser().signIn("olga@example.org", "another long one").is(http.StatusSeeOther)
}

func TestPasswordChangeAsksForTheOldOne(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")
	for field, form := range map[string]url.Values{
		"current": {"current": {"guess"}, "new": {"another long one"}, "repeat": {"another long one"}},
		"new":     {"current": {password}, "new": {"short"}, "repeat": {"short"}},
		"repeat":  {"current": {password}, "new": {"another long one"}, "repeat": {"another long two"}},
	} {
		r := b.post(paths.AccountPassword, form)
		r.is(http.StatusUnprocessableEntity)
		if r.document().Find("#field-"+field+"-error").Length() != 1 {
			t.Errorf("no message at %s", field)
		}
	}
}

func TestSessionLastsWhileItIsUsed(t *testing.T) {
	s := newSite(t)
	s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")
	for range 4 {
		s.now = s.now.Add(10 * 24 * time.Hour)
		b.get(paths.Account).is(http.StatusOK)
	}
	s.now = s.now.Add(15 * 24 * time.Hour)
	b.get(paths.Account).leadsTo(paths.SignInTo(paths.Account))
}

func TestPasswordChangedElsewhereEndsASession(t *testing.T) {
	s := newSite(t)
	u := s.user("olga@example.org", true)
	b := s.signedIn("olga@example.org")
	// A reset that forgot about the sessions still ends them.
	s.must(s.store.SavePassword(t.Context(), u.ID, passwordHash+"x"))
	b.get(paths.Account).leadsTo(paths.SignInTo(paths.Account))
}
