package handlers_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/web/session"
)

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
	if sample := html.UnescapeString(body); !strings.Contains(sample, "curl http://factory.example:8080/v1/chat/completions") || !strings.Contains(sample, "Bearer "+secret) || !strings.Contains(sample, `{"model":"acme/model",`) {
		t.Error("there is no request to copy that uses the new key")
	}
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

// The admin of one tenant may have made an account for somebody else's address and
// know its password, so another tenant's admin cannot let it in unawares.
func TestAnAdminCannotLetAnAccountOfAnotherTenantIn(t *testing.T) {
	s := newSite(t)
	mia := s.signIn("mia@acme.example")
	for _, email := range []string{"mia@globex.example", " MIA@globex.example ", "olga@factory.example"} {
		status, _, body := mia.post("/t/acme/members", url.Values{"email": {email}, "role": {"member"}})
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-email-error"`) {
			t.Errorf("%s is let in: %d", email, status)
		}
	}
	people, err := s.store.Members(t.Context(), s.tenants["acme"].ID)
	s.must(err)
	if len(people) != 1 {
		t.Errorf("members are %+v", people)
	}
}
