package handlers_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// judged notes requests to a deployment that ended some time ago.
func (s *site) judged(id string, ago time.Duration, good, bad float64) {
	s.t.Helper()
	r := &metrics.Recorder{}
	for name, n := range map[metrics.Name]float64{metrics.Good: good, metrics.Bad: bad} {
		if n > 0 {
			r.Observe(s.now.Add(-ago), id, "r1", name, n, 1)
		}
	}
	s.must(s.store.MergeBuckets(s.t.Context(), r.Flush()))
}

// promising makes another deployment, with an objective of its own.
func (s *site) promising(id string, change func(*factory.Deployment)) {
	s.t.Helper()
	d, err := s.store.Deployment(s.t.Context(), "d-acme")
	s.must(err)
	d.ID, d.Name, d.PublicName = id, id, "public/"+id
	d.TargetsAt = d.CreatedAt
	price := *d.Price
	price.ID, price.DeploymentID = "price-"+id, id
	d.Price = &price
	change(&d)
	s.must(s.store.CreateDeployment(s.t.Context(), d))
}

// alerted opens an alert about a deployment.
func (s *site) alerted(id string, rule factory.Rule, state factory.AlertState) {
	s.t.Helper()
	a := factory.Alert{
		ID: factory.NewID(), Subject: string(rule) + "/" + string(state) + "/" + id, Rule: rule, Severity: factory.Page, DeploymentID: id,
		State: state, Title: "It burns.", PendingAt: s.now, UpdatedAt: s.now,
	}
	s.must(s.store.SaveAlert(s.t.Context(), a, nil, nil, s.now))
}

type objective struct {
	ID, Name, State, Alert string
	Share                  float64
	Targets                map[string]*float64
	TargetsAt              time.Time `json:"targets_at"`
	WindowSeconds          int64     `json:"window_seconds"`
	Good, Bad              int64
	BudgetLeft             *float64 `json:"budget_left"`
	Windows                []objectiveWindow
}

type objectiveWindow struct {
	Severity     string
	Factor       float64
	LongSeconds  int64    `json:"long_seconds"`
	ShortSeconds int64    `json:"short_seconds"`
	LongBurn     *float64 `json:"long_burn"`
	ShortBurn    *float64 `json:"short_burn"`
	TooFast      bool     `json:"too_fast"`
	Reachable    bool
}

func (s *site) objectives() []objective {
	s.t.Helper()
	status, body := s.programSends("", http.MethodGet, "/api/v1/objectives", "")
	var out struct{ Objectives []objective }
	if err := json.Unmarshal([]byte(body), &out); err != nil || status != http.StatusOK {
		s.t.Fatalf("%d %v %s", status, err, body)
	}
	return out.Objectives
}

func near(v *float64, want float64) bool { return v != nil && *v > want-1e-6 && *v < want+1e-6 }

// The case DA-05 through the whole console: two windows far apart are added before
// anything is divided, and a deployment without requests has no figure that could hurt.
func TestObjectivesStandInTheOrderOfTheirBudgets(t *testing.T) {
	s := newSite(t)
	s.promising("calm", func(d *factory.Deployment) { d.ObjectivePercent = 99 })
	s.promising("spent", func(*factory.Deployment) {})
	s.promising("over", func(*factory.Deployment) {})
	s.judged("calm", 20*24*time.Hour, 9980, 10)
	s.judged("calm", 26*time.Hour, 0, 10)
	s.judged("calm", 31*24*time.Hour, 0, 5000) // too old to count
	s.judged("spent", 5*24*time.Hour, 95, 5)
	s.judged("over", 5*24*time.Hour, 50, 50)
	s.judged("d-globex", 40*24*time.Hour, 0, 50)

	var names []string
	of := map[string]objective{}
	for _, o := range s.objectives() {
		names, of[o.Name] = append(names, o.Name), o
	}
	if want := []string{"over", "spent", "calm", "acme-chat", "globex-chat"}; !reflect.DeepEqual(names, want) {
		t.Fatalf("order %v, want %v", names, want)
	}
	if o := of["calm"]; o.Good != 9980 || o.Bad != 20 || !near(o.BudgetLeft, 0.8) || o.Share != 0.99 || o.State != "ok" || o.WindowSeconds != 30*24*3600 {
		t.Errorf("calm: %+v", o)
	}
	if o := of["over"]; !near(o.BudgetLeft, -9) || o.State != "ok" {
		t.Errorf("over: %+v", o)
	}
	if o := of["globex-chat"]; o.BudgetLeft != nil || o.State != "no_data" || o.Good+o.Bad != 0 || len(o.Windows) != 4 || o.Windows[0].LongBurn != nil || o.Windows[0].TooFast {
		t.Errorf("without requests: %+v", o)
	}
	s.judged("calm", time.Minute, 20, 0) // what is new counts at once, and days that are over count again
	if o := s.objectives()[2]; o.Name != "calm" || o.Good != 10_000 || o.Bad != 20 || near(o.BudgetLeft, 0.8) {
		t.Errorf("a minute later: %+v", o)
	}
	page := s.signIn("olga@factory.example").page("/objectives")
	at := -1
	for _, text := range []string{"All 5", "Overspent 2", "No data 2", "over 95 % of requests succeed with TTFT ≤ 500 ms and ITL ≤ 250 ms", "−900 % overspent", "spent 95 %", "0 % used up",
		"calm 99 % of requests", "80 % left 10,000 20", "acme-chat", "No data No requests 0 0 – / –", "globex-chat"} {
		i := strings.Index(page, text)
		if i <= at {
			t.Errorf("%q is missing, or not after what should come before it:\n%s", text, page)
		}
		at = max(at, i)
	}
}

// Of a burn of 20 in the last hour all of it is in every longer window as well.
func TestObjectivesShowEveryBurnWindow(t *testing.T) {
	s := newSite(t)
	s.now = s.now.Add(13*time.Minute + 27*time.Second)
	s.promising("strict", func(d *factory.Deployment) { d.ObjectivePercent = 99 })
	s.promising("lenient", func(d *factory.Deployment) { d.ObjectivePercent = 90 })
	s.judged("strict", 2*time.Minute, 80, 20)
	s.judged("strict", 20*time.Minute, 900, 0)
	s.judged("strict", 90*time.Minute, 1000, 0)
	s.judged("strict", 5*time.Hour, 2000, 0)
	s.judged("strict", 23*time.Hour, 6000, 0)
	s.judged("strict", 71*time.Hour, 10000, 0)
	s.judged("strict", 73*time.Hour, 0, 10000)
	s.judged("lenient", 2*time.Minute, 0, 50)
	of := map[string]objective{}
	for _, o := range s.objectives() {
		of[o.Name] = o
	}
	for i, want := range []objectiveWindow{
		{Severity: "page", Factor: 14.4, LongSeconds: 3600, ShortSeconds: 300, Reachable: true},    // 20 of 1,000 and of 100
		{Severity: "page", Factor: 6, LongSeconds: 21600, ShortSeconds: 1800, Reachable: true},     // 20 of 4,000 and of 1,000
		{Severity: "ticket", Factor: 3, LongSeconds: 86400, ShortSeconds: 7200, Reachable: true},   // 20 of 10,000 and of 2,000
		{Severity: "ticket", Factor: 1, LongSeconds: 259200, ShortSeconds: 21600, Reachable: true}, // 20 of 20,000 and of 4,000
	} {
		got := of["strict"].Windows[i]
		burn := [][2]float64{{2, 20}, {0.5, 2}, {0.2, 1}, {0.1, 0.5}}[i]
		if !near(got.LongBurn, burn[0]) || !near(got.ShortBurn, burn[1]) {
			t.Errorf("window %d burns %v and %v, want %v", i, *got.LongBurn, *got.ShortBurn, burn)
		}
		got.LongBurn, got.ShortBurn = nil, nil
		if got != want {
			t.Errorf("window %d: %+v, want %+v", i, got, want)
		}
	}
	if o := of["strict"]; o.State != "ok" {
		t.Errorf("one window alone makes it %s", o.State)
	}
	// All requests are bad, and 90 % burns ten times too fast, never 14.4.
	if w := of["lenient"].Windows; w[0].Reachable || w[0].TooFast || !near(w[0].LongBurn, 10) || !w[1].Reachable || !w[1].TooFast {
		t.Errorf("lenient: %+v", w[:2])
	}
	if o := of["lenient"]; o.State != "burning" || o.Alert != "" {
		t.Errorf("lenient is %s", o.State)
	}
	page := s.signIn("olga@factory.example").page("/objectives")
	for _, text := range []string{"1 h / 5 min ≤ 14.4×", "3 d / 6 h ≤ 1×", "2.00 / 20.0", "10.0 / 10.0 cannot fire", "10.0 / 10.0 Too fast", "Burning"} {
		if !strings.Contains(page, text) {
			t.Errorf("%q is not on the page:\n%s", text, page)
		}
	}
}

func TestObjectivesTellOfTheirAlerts(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"pending", "firing", "both", "drifting"} {
		s.promising(id, func(*factory.Deployment) {})
		s.judged(id, time.Hour, 100, 0)
	}
	s.alerted("pending", factory.RuleBurn, factory.AlertPending)
	s.alerted("firing", factory.RuleBurn, factory.AlertFiring)
	s.alerted("both", factory.RuleBurn, factory.AlertFiring)
	s.alerted("both", factory.RuleBurn, factory.AlertPending)
	s.alerted("drifting", factory.RuleDrift, factory.AlertFiring) // not about its budget
	want := map[string]string{"pending": "burning", "firing": "firing", "both": "firing", "drifting": "ok", "acme-chat": "no_data"}
	for _, o := range s.objectives() {
		if state, listed := want[o.Name]; listed && o.State != state {
			t.Errorf("%s is %s, want %s", o.Name, o.State, state)
		}
	}
	page := s.signIn("olga@factory.example").page("/objectives?show=alerting")
	if !strings.Contains(page, "Alerting 3") || strings.Contains(page, "drifting") || strings.Count(page, "Firing") != 2 || strings.Count(page, "Burning") != 1 {
		t.Errorf("those with alerts: %s", page)
	}
}

// A target counts from the moment it changed. Nothing is judged again.
func TestChangedTargetsAreSaid(t *testing.T) {
	s := newSite(t)
	olga := s.signIn("olga@factory.example")
	s.judged("d-acme", 24*time.Hour, 80, 20)
	const said = "New targets count since"
	if page := olga.page("/objectives"); strings.Contains(page, said) {
		t.Errorf("unchanged targets are new: %s", page)
	}
	s.now = s.now.Add(time.Hour)
	if status, _, body := olga.post("/deployments/d-acme", acmeForm(map[string][]string{"ttft_target_ms": {"250"}, "objective_percent": {"75"}})); status != http.StatusSeeOther {
		t.Fatalf("saving answers %d: %s", status, body)
	}
	changed := s.now
	s.now = s.now.Add(time.Hour)
	page := olga.page("/objectives")
	for _, text := range []string{"acme-chat 75 % of requests succeed with TTFT ≤ 250 ms and ITL ≤ 250 ms " + said + " 13:00:00", "80 20", "the requests before them count as they were judged then"} {
		if !strings.Contains(page, text) {
			t.Errorf("%q is not on the page:\n%s", text, page)
		}
	}
	if o := s.objectives()[0]; o.Name != "acme-chat" || !o.TargetsAt.Equal(changed) || o.Good != 80 || o.Bad != 20 || !near(o.BudgetLeft, 0.2) || !near(o.Targets["ttft_ms"], 250) || o.Targets["output_tokens_per_second"] != nil {
		t.Errorf("in the API: %+v", o)
	}
	s.now = s.now.Add(31 * 24 * time.Hour) // by then every request that counts was judged by them
	if page := s.signIn("olga@factory.example").page("/objectives"); strings.Contains(page, said) || !strings.Contains(page, "No data 2") {
		t.Errorf("after a month: %s", page)
	}
}

func TestObjectivesAsAFile(t *testing.T) {
	s := newSite(t)
	s.promising("=cmd()", func(d *factory.Deployment) {
		d.Workload, d.ObjectivePercent, d.OutputRateTarget = factory.Batch, 99.9, 7.5
	})
	s.judged("=cmd()", 2*time.Minute, 999, 1)
	for _, read := range []func() (int, string){
		func() (int, string) { return s.signIn("olga@factory.example").get("/objectives.csv") },
		func() (int, string) { return s.programSends("", http.MethodGet, "/api/v1/objectives.csv", "") },
	} {
		status, body := read()
		rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if status != http.StatusOK || err != nil || len(rows) != 4 {
			t.Fatalf("%d %v %s", status, err, body)
		}
		want := [][]string{
			{"id", "deployment", "state", "share", "ttft_target_ms", "itl_target_ms", "output_rate_target", "targets_at", "good", "bad", "budget_left",
				"burn_5m", "burn_30m", "burn_1h", "burn_2h", "burn_6h", "burn_1d", "burn_3d"},
			{"'=cmd()", "'=cmd()", "ok", "0.999", "", "", "7.5", "2026-12-01T12:00:00Z", "999", "1", "0", "1", "1", "1", "1", "1", "1", "1"},
		}
		if !reflect.DeepEqual(rows[:2], want) {
			t.Errorf("got %q\nwant %q", rows[:2], want)
		}
		if quiet := rows[2]; quiet[1] != "acme-chat" || quiet[2] != "no_data" || quiet[10] != "" || quiet[11] != "" {
			t.Errorf("without requests: %q", quiet)
		}
	}
}

func TestObjectivesAreForOperators(t *testing.T) {
	s := newSite(t)
	mia := s.signIn("mia@acme.example")
	for _, path := range []string{"/objectives", "/objectives.csv"} {
		if status, body := mia.get(path); status != http.StatusForbidden || strings.Contains(body, "globex") {
			t.Errorf("%s answers a member with %d", path, status)
		}
	}
	for _, path := range []string{"/api/v1/objectives", "/api/v1/objectives.csv"} {
		if status, body := s.programSends("acme", http.MethodGet, path, ""); status != http.StatusForbidden || strings.Contains(body, "globex") {
			t.Errorf("%s answers a tenant's key with %d", path, status)
		}
	}
}

// Pages follow each other without a gap or a repetition, over the border to those
// without requests, and a row that goes in between moves nothing else.
func TestObjectivesComeInPages(t *testing.T) {
	s := newSite(t)
	for i := range 210 {
		id := fmt.Sprintf("many-%03d", i)
		s.promising(id, func(*factory.Deployment) {})
		if i < 105 {
			s.judged(id, time.Hour, 100, float64(i%4)) // many with as much left
		}
	}
	olga := s.signIn("olga@factory.example")
	_, body := olga.get("/objectives?q=MANY")
	seen := map[string]int{}
	pages := 0
	for ; ; pages++ {
		doc := answer{t, http.StatusOK, "", body}.page()
		for _, name := range doc.Find("tbody th a").Map(func(_ int, a *goquery.Selection) string { return a.Text() }) {
			seen[name]++
		}
		next, more := doc.Find(`#objectives > div > a:contains("Next page")`).Attr("href")
		if !more {
			break
		}
		if pages == 0 {
			s.must(s.store.DeleteDeployment(t.Context(), "many-000", s.now))
			seen["many-000"] = 1
		}
		_, body = olga.get(next)
	}
	if pages != 2 || len(seen) != 210 {
		t.Errorf("%d objectives on %d pages", len(seen), pages+1)
	}
	for name, n := range seen {
		if n != 1 || !strings.HasPrefix(name, "many-") {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	if page := olga.page("/objectives?q=nothing-like-it"); !strings.Contains(page, "No objective matches.") {
		t.Error(page)
	}
	if status, _ := olga.get("/objectives?after=nonsense&show=nonsense"); status != http.StatusOK {
		t.Errorf("an address that means nothing answers %d", status)
	}
}

func TestWithoutDeploymentsObjectivesSayTheNextStep(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"d-acme", "d-globex"} {
		s.must(s.store.DeleteDeployment(t.Context(), id, s.now))
	}
	page := s.signIn("olga@factory.example").page("/objectives")
	if !strings.Contains(page, "No objective yet") || !strings.Contains(page, "Deploy a model") {
		t.Error(page)
	}
	if status, body := s.programSends("", http.MethodGet, "/api/v1/objectives", ""); status != http.StatusOK || strings.TrimSpace(body) != `{"objectives":[]}` {
		t.Errorf("%d %s", status, body)
	}
}
