package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/web"
)

// uses tells made-up figures for the limits that it is asked about.
type uses map[string][]factory.LimitUse

func (u uses) Use(_ context.Context, scope factory.Scope, id string, l factory.Limits) []factory.LimitUse {
	return u[string(scope)+" "+id]
}

var everyLimit = url.Values{
	"requests_per_minute": {"1,000"}, "tokens_per_minute": {"20000"}, "input_tokens_per_minute": {"15,000"}, "output_tokens_per_minute": {"9000"},
	"concurrent_requests": {"12"}, "budget": {"1,250.50"}, "budget_currency": {"eur"}, "budget_period": {"week"},
}

var everyLimitSet = factory.Limits{
	RequestsPerMinute: 1000, TokensPerMinute: 20000, InputTokensPerMinute: 15000, OutputTokensPerMinute: 9000, ConcurrentRequests: 12,
	Budget: "1250.5", BudgetCurrency: "EUR", BudgetPeriod: factory.Week,
}

// with is everyLimit and some more fields.
func with(more url.Values) url.Values {
	out := url.Values{}
	for _, from := range []url.Values{everyLimit, more} {
		for k, v := range from {
			out[k] = v
		}
	}
	return out
}

var wrongLimits = map[string]url.Values{
	"requests_per_minute":      {"requests_per_minute": {"many"}},
	"tokens_per_minute":        {"tokens_per_minute": {"-1"}},
	"input_tokens_per_minute":  {"input_tokens_per_minute": {"1.5"}},
	"output_tokens_per_minute": {"output_tokens_per_minute": {"9999999999"}},
	"concurrent_requests":      {"concurrent_requests": {"-3"}},
	"budget":                   {"budget": {"$5"}},
	"budget_currency":          {"budget": {"5"}, "budget_currency": {"dollars"}},
	"budget_period":            {"budget": {"5"}, "budget_period": {"year"}},
}

func TestEveryLimitIsSetInTheFormsOfKeysAndTenants(t *testing.T) {
	s := newSite(t)
	acme := s.tenants["acme"]
	olga, mia := s.signIn("olga@factory.example"), s.signIn("mia@acme.example")
	key := func(name string) factory.Limits {
		k, err := s.store.KeyByName(t.Context(), acme.ID, name)
		s.must(err)
		return k.Limits
	}
	if status, _, body := mia.post("/t/acme/keys", with(url.Values{"name": {"by-mia"}})); status != http.StatusOK || key("by-mia") != everyLimitSet {
		t.Errorf("a member's key: %d %+v %s", status, key("by-mia"), body)
	}
	if status, _, _ := olga.post("/tenants/"+acme.ID+"/keys", with(url.Values{"name": {"by-olga"}})); status != http.StatusOK || key("by-olga") != everyLimitSet {
		t.Errorf("an operator's key: %d %+v", status, key("by-olga"))
	}
	if status, _, _ := olga.post("/tenants/"+acme.ID, with(url.Values{"title": {"Acme"}})); status != http.StatusSeeOther {
		t.Errorf("the tenant answers %d", status)
	}
	saved, err := s.store.Tenant(t.Context(), acme.ID)
	s.must(err)
	if saved.Limits != everyLimitSet {
		t.Errorf("the tenant has %+v", saved.Limits)
	}
	status, body := olga.get("/tenants/" + acme.ID + "/edit")
	for _, value := range []string{`value="1000"`, `value="20000"`, `value="15000"`, `value="9000"`, `value="12"`, `value="1250.5"`, `value="EUR"`, `value="week" selected`} {
		if status != http.StatusOK || !strings.Contains(body, value) {
			t.Errorf("the form of the tenant is not filled with %s", value)
		}
	}
	// Emptied fields are no limits; the currency that stands in the form makes no budget.
	if status, _, _ := olga.post("/tenants/"+acme.ID, url.Values{"title": {"Acme"}, "budget_currency": {"USD"}, "budget_period": {"month"}}); status != http.StatusSeeOther {
		t.Errorf("emptying answers %d", status)
	}
	if saved, err = s.store.Tenant(t.Context(), acme.ID); err != nil || !saved.Limits.None() {
		t.Errorf("emptied limits are %+v %v", saved.Limits, err)
	}
	own := "/t/acme/keys/" + s.keys["acme"].ID
	for field, form := range wrongLimits {
		for path, more := range map[string]url.Values{
			"/t/acme/keys": {"name": {"wrong"}}, "/tenants/" + acme.ID + "/keys": {"name": {"wrong"}}, own: {},
			"/tenants/" + acme.ID: {"title": {"Acme"}}, "/tenants": {"name": {"wrong"}}, "/tenants/" + acme.ID + "/keys/" + s.keys["acme"].ID: {},
		} {
			who := olga
			if strings.HasPrefix(path, "/t/") {
				who = mia
			}
			for k, v := range form {
				more[k] = v
			}
			status, _, body := who.post(path, more)
			if status != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-`+field+`-error"`) {
				t.Errorf("%s with a wrong %s answers %d", path, field, status)
			}
		}
	}
}

func TestAKeysLimitsAreChangedOnItsPage(t *testing.T) {
	var poked atomic.Int64
	s := newSite(t, func(w *web.Site) { w.Poke = func() { poked.Add(1) } })
	acme := s.tenants["acme"]
	olga, mia := s.signIn("olga@factory.example"), s.signIn("mia@acme.example")
	k := s.keys["acme"]
	for _, x := range []struct {
		who  *visitor
		path string
		form url.Values
		want factory.Limits
	}{
		{mia, "/t/acme/keys/" + k.ID, everyLimit, everyLimitSet},
		{olga, "/tenants/" + acme.ID + "/keys/" + k.ID, url.Values{"requests_per_minute": {"5"}}, factory.Limits{RequestsPerMinute: 5}},
	} {
		before := poked.Load()
		if status, location, _ := x.who.post(x.path, x.form); status != http.StatusSeeOther || location != x.path {
			t.Errorf("%s answers %d to %s", x.path, status, location)
		}
		saved, err := s.store.Key(t.Context(), acme.ID, k.ID)
		s.must(err)
		if saved.Limits != x.want || poked.Load() == before {
			t.Errorf("limits are %+v, want %+v; gateway told: %v", saved.Limits, x.want, poked.Load() > before)
		}
	}
	s.must(s.store.RevokeKey(t.Context(), acme.ID, k.ID, s.now))
	if status, _, _ := mia.post("/t/acme/keys/"+k.ID, everyLimit); status != http.StatusConflict {
		t.Errorf("limits of a revoked key: %d", status)
	}
	if _, body := mia.get("/t/acme/keys/" + k.ID); strings.Contains(body, "limits-form") || !strings.Contains(body, "Revoked") {
		t.Error("a revoked key's page offers to change its limits")
	}
}

// limited is a site where acme's key, acme itself and its deployment have limits, with
// made-up use, and where requests were refused. The deployment is globex's as well.
func limited(t *testing.T) (*site, factory.Key) {
	u := uses{}
	s := newSite(t, func(w *web.Site) { w.Limits = u })
	ctx := t.Context()
	acme := s.tenants["acme"]
	k := factory.Key{ID: factory.NewID(), TenantID: acme.ID, Name: "app", Prefix: "sk-tf-abcdef", Hash: factory.NewID(), Scope: factory.ScopeInference, CreatedBy: "mia@acme.example", CreatedAt: s.now,
		Limits: factory.Limits{RequestsPerMinute: 60, Budget: "50", BudgetCurrency: "EUR", BudgetPeriod: factory.Month}}
	s.must(s.store.CreateKey(ctx, k))
	acme.Limits = factory.Limits{TokensPerMinute: 90000, Budget: "700", BudgetCurrency: "EUR", BudgetPeriod: factory.Month}
	s.must(s.store.SaveTenant(ctx, acme))
	d, err := s.store.Deployment(ctx, "d-acme")
	s.must(err)
	d.Limits = factory.Limits{ConcurrentRequests: 8, Budget: "4321", BudgetCurrency: "USD", BudgetPeriod: factory.Day}
	d.TenantIDs = append(d.TenantIDs, s.tenants["globex"].ID)
	s.must(s.store.SaveDeployment(ctx, d))
	next := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	u["key "+k.ID] = []factory.LimitUse{
		{Kind: factory.LimitBudget, Limit: "50", Used: "12.3456", Held: "0.25", Currency: "EUR", ResetsAt: &next},
		{Kind: factory.LimitRequests, Limit: "60", Used: "41", Held: "0"},
	}
	u["tenant "+acme.ID] = []factory.LimitUse{
		{Kind: factory.LimitBudget, Limit: "700", Currency: "EUR", Unknown: true},
		{Kind: factory.LimitTokens, Limit: "90000", Used: "30111", Held: "2048"},
	}
	u["deployment d-acme"] = []factory.LimitUse{
		{Kind: factory.LimitBudget, Limit: "4321", Used: "1234", Held: "0", Currency: "USD", ResetsAt: &next},
		{Kind: factory.LimitConcurrency, Limit: "8", Used: "0", Held: "3"},
	}
	refused := func(key string, ago time.Duration, scope factory.Scope, kind factory.LimitKind, n int64) factory.Refusals {
		return factory.Refusals{QuarterStart: s.now.Add(-ago).Truncate(15 * time.Minute), TenantID: acme.ID, KeyID: key, DeploymentID: "d-acme", Scope: scope, Kind: kind, Count: n}
	}
	s.must(s.store.AddRefusals(ctx, []factory.Refusals{
		refused(k.ID, 0, factory.ScopeKey, factory.LimitRequests, 101), refused(k.ID, 3*24*time.Hour, factory.ScopeKey, factory.LimitRequests, 1000),
		refused(k.ID, 20*24*time.Hour, factory.ScopeDeployment, factory.LimitConcurrency, 77),
		refused(k.ID, 31*24*time.Hour, factory.ScopeTenant, factory.LimitBudget, 6543),
		refused(s.keys["acme"].ID, time.Hour, factory.ScopeKey, factory.LimitTokens, 5555),
	}))
	return s, k
}

func TestAKeysPageTellsLimitsUseAndRefusals(t *testing.T) {
	s, k := limited(t)
	acme := s.tenants["acme"]
	own, operators := "/t/acme/keys/"+k.ID, "/tenants/"+acme.ID+"/keys/"+k.ID
	for path, who := range map[string]*visitor{own: s.signIn("mia@acme.example"), operators: s.signIn("olga@factory.example")} {
		a := who.page(path)
		for _, want := range []string{
			"sk-tf-abcdef", "Active", "mia@acme.example", "inference",
			"Budget per month", "12.35 used + 0.25 held of 50.00 EUR", "1 Jan 2027", "41 used of 60",
			"All keys of ACME together", "30,111 used + 2,048 held of 90,000", "Not known", "not known of 700.00 EUR",
			"All clients of acme/model together", "3 open of 8",
			"Requests per minute The key’s own 101 1,101 1,101", "Requests at once The model’s acme/model 0 0 77",
		} {
			if !strings.Contains(a, want) {
				t.Errorf("%s does not say “%s”: %s", path, want, a)
			}
		}
		for _, never := range []string{"6,543", "5,555", " 0.00 used"} {
			if strings.Contains(a, never) {
				t.Errorf("%s says “%s”", path, never)
			}
		}
		// What all tenants spend on a model is the operators' affair.
		if told := strings.Contains(a, "4,321") || strings.Contains(a, "1,234"); told != (path == operators) {
			t.Errorf("%s tells the deployment's money: %v", path, told)
		}
	}
}

func TestListsTellWhichLimitIsTakenMost(t *testing.T) {
	s, _ := limited(t)
	acme := s.tenants["acme"]
	olga, mia := s.signIn("olga@factory.example"), s.signIn("mia@acme.example")
	for path, who := range map[string]*visitor{"/t/acme/keys": mia, "/tenants/" + acme.ID: olga} {
		a := who.page(path)
		for _, want := range []string{
			"41 of 60", "+ 1 more", "Limits of ACME", "30,111 used + 2,048 held of 90,000", "not known of 700.00 EUR",
			"Requests per minute The key’s own app 101 1,101 1,101", "Tokens per minute The key’s own acme-key 5,555", "Requests at once The model’s acme/model 0 0 77",
		} {
			if !strings.Contains(a, want) {
				t.Errorf("%s does not say “%s”: %s", path, want, a)
			}
		}
	}
	if a := olga.page("/tenants"); !strings.Contains(a, "700.00 EUR Budget per month + 1 more Not known") || !strings.Contains(a, "None of its own") {
		t.Errorf("the list of tenants says %s", a)
	}
	if a := olga.page("/deployments/d-acme"); !strings.Contains(a, "1,234.00 used of 4,321.00 USD") || !strings.Contains(a, "3 open of 8") {
		t.Errorf("the deployment says %s", a)
	}
}

// A budget in another currency than the prices refuses everything: that is said where
// the budget is seen, and a deployment cannot be saved with one.
func TestABudgetInAnotherCurrencyThanThePricesIsPointedOut(t *testing.T) {
	s, k := limited(t)
	for path, who := range map[string]*visitor{"/t/acme/keys/" + k.ID: s.signIn("mia@acme.example"), "/tenants/" + k.TenantID + "/keys/" + k.ID: s.signIn("olga@factory.example")} {
		for _, want := range []string{"The key’s budget is in EUR and acme/model is priced in USD: requests to it are refused.", "The tenant’s budget is in EUR and acme/model is priced in USD"} {
			if a := who.page(path); !strings.Contains(a, want) {
				t.Errorf("%s does not say “%s”", path, want)
			}
		}
	}
	s.must(s.store.SetKeyLimits(t.Context(), k.TenantID, k.ID, factory.Limits{Budget: "5", BudgetCurrency: "USD", BudgetPeriod: factory.Day}))
	if a := s.signIn("mia@acme.example").page("/t/acme/keys/" + k.ID); strings.Contains(a, "The key’s budget is in") {
		t.Errorf("a budget in the currency of the prices is pointed out: %s", a)
	}
	b := newBench(t)
	b.mustApply(smallFactory)
	for currency, want := range map[string]int{"USD": http.StatusOK, "EUR": http.StatusUnprocessableEntity} {
		doc := strings.Replace(chatDeployment, `"engine"`, `"budget":10,"budget_currency":"`+currency+`","engine"`, 1)
		if status, _, problem := b.apply(doc); status != want || want != http.StatusOK && !strings.Contains(problem.Fields["budget_currency"], "prices are in USD") {
			t.Errorf("a deployment's budget in %s: %d %+v", currency, status, problem)
		}
	}
}

// Where nobody can tell, pages say so and show no zero.
func TestUseThatNobodyKnowsIsSaid(t *testing.T) {
	s := newSite(t)
	s.must(s.store.SetKeyLimits(t.Context(), s.tenants["acme"].ID, s.keys["acme"].ID, everyLimitSet))
	a := s.signIn("mia@acme.example").page("/t/acme/keys/" + s.keys["acme"].ID)
	if !strings.Contains(a, "not known of 1,250.50 EUR") || !strings.Contains(a, "is not known here") || strings.Contains(a, "0 used") || strings.Contains(a, "0.00 used") {
		t.Errorf("the page says %s", a)
	}
}

func TestAKeyOfAnotherTenantDoesNotExist(t *testing.T) {
	s, k := limited(t)
	acme, globex := s.tenants["acme"], s.tenants["globex"]
	gus, olga := s.signIn("mia@globex.example"), s.signIn("olga@factory.example")
	for path, who := range map[string]*visitor{
		"/t/globex/keys/" + k.ID: gus, "/t/acme/keys/" + k.ID: gus, "/t/globex/usage?key=" + k.ID: gus, "/t/globex/usage/requests?key=" + k.ID: gus,
		"/t/globex/usage.csv?key=" + k.ID: gus, "/tenants/" + globex.ID + "/keys/" + k.ID: olga, "/usage?tenant=globex&key=" + k.ID: olga, "/usage?key=nobody": olga,
		"/tenants/" + acme.ID + "/keys/nobody": olga,
	} {
		if status, body := who.get(path); status != http.StatusNotFound || strings.Contains(body, "sk-tf-abcdef") {
			t.Errorf("%s answers %d", path, status)
		}
	}
	for path, who := range map[string]*visitor{"/t/globex/keys/" + k.ID: gus, "/t/acme/keys/" + k.ID: gus, "/tenants/" + globex.ID + "/keys/" + k.ID: olga} {
		if status, _, _ := who.post(path, url.Values{"requests_per_minute": {"1"}}); status != http.StatusNotFound {
			t.Errorf("POST %s answers %d", path, status)
		}
	}
	mia := s.signIn("mia@acme.example")
	for _, path := range []string{"/tenants/" + acme.ID + "/keys/" + k.ID} {
		if status, _ := mia.get(path); status != http.StatusForbidden {
			t.Errorf("a member opens %s: %d", path, status)
		}
		if status, _, _ := mia.post(path, everyLimit); status != http.StatusForbidden {
			t.Errorf("a member posts to %s: %d", path, status)
		}
	}
	if saved, err := s.store.Key(t.Context(), acme.ID, k.ID); err != nil || saved.Limits != k.Limits {
		t.Errorf("limits are %+v %v", saved.Limits, err)
	}
	for _, path := range []string{"/api/v1/keys/" + k.ID, "/api/v1/keys/" + k.ID + "?tenant=acme"} {
		if status, body := s.programSends("globex", http.MethodGet, path, ""); status != http.StatusNotFound || strings.Contains(body, "sk-tf-abcdef") {
			t.Errorf("%s for globex's key: %d %s", path, status, body)
		}
	}
	if status, body := s.programSends("globex", http.MethodGet, "/api/v1/keys", ""); status != http.StatusOK || strings.Contains(body, k.ID) || !strings.Contains(body, "globex-key") {
		t.Errorf("globex lists %d %s", status, body)
	}
	// A key is of one tenant, whatever it asks for.
	if status, body := s.programSends("globex", http.MethodGet, "/api/v1/limits?tenant=acme", ""); status != http.StatusOK || !strings.Contains(body, `"tenant":"globex"`) || strings.Contains(body, "90000") {
		t.Errorf("limits: %d %s", status, body)
	}
}

func TestProgramsReadLimitsUseAndRefusals(t *testing.T) {
	s, k := limited(t)
	status, body := s.programSends("acme", http.MethodGet, "/api/v1/keys/"+k.ID, "")
	var got struct {
		State  string
		Limits factory.Limits
		Use    []factory.LimitUse
		Tenant struct {
			Limits factory.Limits
			Use    []factory.LimitUse
		} `json:"tenant_limits"`
		Deployments []struct {
			Model  string
			Limits factory.Limits
			Use    []factory.LimitUse
		}
		Refusals []struct {
			Scope, Limit, Name string
			Day                int64 `json:"last_24_hours"`
			Month              int64 `json:"last_30_days"`
		}
	}
	if err := json.Unmarshal([]byte(body), &got); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s %v", status, body, err)
	}
	if got.State != "active" || got.Limits != k.Limits || len(got.Use) != 2 || got.Use[0].Used != "12.3456" {
		t.Errorf("the key: %+v", got)
	}
	if len(got.Tenant.Use) != 2 || !got.Tenant.Use[0].Unknown || got.Tenant.Limits.TokensPerMinute != 90000 {
		t.Errorf("the tenant: %+v", got.Tenant)
	}
	if len(got.Deployments) != 1 || got.Deployments[0].Model != "acme/model" || got.Deployments[0].Limits != (factory.Limits{ConcurrentRequests: 8}) || len(got.Deployments[0].Use) != 1 {
		t.Errorf("deployments: %+v", got.Deployments)
	}
	if len(got.Refusals) != 2 || got.Refusals[0].Day != 101 || got.Refusals[0].Month != 1101 || got.Refusals[1].Name != "acme/model" {
		t.Errorf("refusals: %+v", got.Refusals)
	}
	if status, body := s.programSends("acme", http.MethodGet, "/api/v1/limits", ""); status != http.StatusOK || !strings.Contains(body, `"tokens_per_minute":90000`) || !strings.Contains(body, `"name":"acme-key"`) {
		t.Errorf("limits: %d %s", status, body)
	}
	// A tenant's key reads; limits are changed by operators.
	if status, _ := s.programSends("acme", http.MethodPut, "/api/v1/keys/"+k.ID+"/limits", `{"requests_per_minute":1000000}`); status != http.StatusForbidden {
		t.Errorf("a tenant's key changes limits: %d", status)
	}
	for body, want := range map[string]int{
		`{"requests_per_minute":7,"budget":12.50}`: http.StatusOK, `{"budget":"much"}`: http.StatusUnprocessableEntity, `{"requests":7}`: http.StatusUnprocessableEntity, `{`: http.StatusBadRequest,
	} {
		if status, answer := s.programSends("", http.MethodPut, "/api/v1/keys/"+k.ID+"/limits", body); status != want {
			t.Errorf("PUT %s: %d %s", body, status, answer)
		}
	}
	saved, err := s.store.Key(t.Context(), k.TenantID, k.ID)
	if want := (factory.Limits{RequestsPerMinute: 7, Budget: "12.5", BudgetCurrency: "USD", BudgetPeriod: factory.Month}); err != nil || saved.Limits != want {
		t.Errorf("limits are %+v %v", saved.Limits, err)
	}
}

func TestUsageOfOneKeyIsThatKeysAlone(t *testing.T) {
	s, k := limited(t)
	row := func(key string, tokens int64) factory.Usage {
		return factory.Usage{ID: factory.NewID(), TenantID: s.tenants["acme"].ID, KeyID: key, DeploymentID: "d-acme", PriceID: s.prices["acme"], ModelAsked: "acme/model", Status: 200, Attempts: 1,
			PromptTokens: tokens, CompletionTokens: 1, StartedAt: s.now.Add(-time.Hour)}
	}
	s.must(s.store.AppendUsage(t.Context(), []factory.Usage{row(k.ID, 123457), row(s.keys["acme"].ID, 765432)}))
	olga, mia := s.signIn("olga@factory.example"), s.signIn("mia@acme.example")
	for path, who := range map[string]*visitor{"/t/acme/usage": mia, "/t/acme/usage/requests": mia, "/usage": olga, "/usage/requests": olga} {
		a := who.page(path + "?key=" + k.ID)
		if !strings.Contains(a, "123,457") || strings.Contains(a, "765,432") || !strings.Contains(a, "Only key app") {
			t.Errorf("%s of the key says %s", path, a)
		}
		if a := who.page(path); !strings.Contains(a, "123,457") || !strings.Contains(a, "765,432") {
			t.Errorf("%s of all keys says %s", path, a)
		}
	}
	if _, body := mia.get("/t/acme/usage.csv?key=" + k.ID); !strings.Contains(body, "123457") || strings.Contains(body, "765432") {
		t.Errorf("the file says %s", body)
	}
	if a := mia.page("/t/acme/keys/" + k.ID); !strings.Contains(a, "123,457") || strings.Contains(a, "765,432") || strings.Contains(a, "888,889") {
		t.Errorf("the key's page says %s", a)
	}
}
