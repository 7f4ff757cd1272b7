package handlers_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
)

// usual is what a minute of good service looks like, and what of it is different.
type usual struct {
	ttft, itl, clock float64
	node             string // whose GPU has the clock
	bad              bool
}

// minute observes thirty requests of a minute.
func (u usual) minute(r *metrics.Recorder, at time.Time) {
	verdict := metrics.Good
	if u.bad {
		verdict = metrics.Bad
	}
	for name, v := range map[metrics.Name]float64{
		metrics.TTFT: u.ttft, metrics.ITL: u.itl, metrics.E2E: u.ttft + 100*u.itl, metrics.Queue: 3, metrics.Decode: 100 * u.itl,
		metrics.Requests: 1, verdict: 1, metrics.Running: 6, metrics.KVCache: 0.4,
	} {
		for i := range 6 {
			r.Observe(at.Add(time.Duration(i)*10*time.Second), "d-acme", "r1", name, v, 5)
		}
	}
	if u.clock > 0 {
		r.Observe(at, u.node, "GPU-1", metrics.GPUClock, u.clock, 12)
		r.Observe(at, u.node, "GPU-1", metrics.GPUTemperature, 88, 12)
	}
}

// served measures a stretch that ends now, with a past of two days before it.
func (s *site) served(length time.Duration, u usual) {
	s.t.Helper()
	s.measure(func(r *metrics.Recorder) {
		fine := usual{ttft: 120, itl: 25}
		if u.clock > 0 {
			fine.clock, fine.node = 1900, u.node
		}
		from := s.now.Add(-length)
		for at := from.Add(-48 * time.Hour).Truncate(time.Minute); at.Before(from); at = at.Add(20 * time.Minute) {
			fine.minute(r, at)
		}
		for at := from; at.Before(s.now); at = at.Add(time.Minute) {
			u.minute(r, at)
		}
	})
}

// seen is an operator's page, with cells and lines apart as they are to the eye.
func (s *site) seen(path string) *goquery.Document {
	s.t.Helper()
	status, page := s.signIn("olga@factory.example").get(path)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d", path, status)
	}
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(strings.ReplaceAll(page, "<", " <")))
	s.must(err)
	return doc
}

// panel is the diagnosis on an operator's page.
func (s *site) panel(query string) *goquery.Selection {
	s.t.Helper()
	return s.seen("/deployments/d-acme/metrics" + query).Find(".verdict")
}

func words(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\u00a0", " ")), " ")
}

func TestThePageSaysWhichPartIsToBlame(t *testing.T) {
	s := newSite(t)
	s.served(15*time.Minute, usual{ttft: 130, itl: 420, bad: true})
	panel := s.panel("?range=15m")
	text := words(panel.Text())
	for _, want := range []string{
		"Tokens come slowly", "Over target", "Tokens come slower than they should", "ITL p95 over target: 4", "250 ms", "25 ms",
		"Do first Make the engine's largest batch smaller.", "Look first at The running batch", "The whole deployment, over the range shown.", "“Before” is the 24 h until",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if got, _ := panel.Attr("data-signature"); got != "decode" {
		t.Errorf("signature %q", got)
	}
	if rows := panel.Find(".verdict-manual tbody tr"); rows.Length() != len(slo.Signatures) || words(panel.Find(".verdict-current th").Text()) != "Tokens come slowly decode now" {
		t.Errorf("%d rows of the manual, marked %q", rows.Length(), panel.Find(".verdict-current").Text())
	}
}

func TestAFallenClockIsEvidenceOfTheMachineThatIsUsed(t *testing.T) {
	s := newSite(t)
	ctx, ready := t.Context(), s.now.Add(-72*time.Hour)
	s.must(s.store.CreateJoinToken(ctx, factory.JoinToken{ID: "j1", ClusterID: "c1", Hash: "hash", MaxUses: 1, ExpiresAt: s.now.Add(time.Hour), CreatedAt: ready}))
	node, err := s.store.RedeemJoinToken(ctx, "hash", factory.Node{ID: "n1", Name: "desk-1", Identity: "i1", CredentialHash: "c1",
		Hardware: factory.Hardware{GPUs: []factory.GPU{{Index: 0, UUID: "GPU-1"}, {Index: 1, UUID: "GPU-2"}}}}, s.now)
	s.must(err)
	u := usual{ttft: 130, itl: 60, clock: 1100, node: node.ID}
	s.must(s.store.CreateReplica(ctx, factory.Replica{ID: "r1", DeploymentID: "d-acme", NodeID: node.ID, State: factory.Ready, ReadyAt: &ready, GPUUUIDs: []string{"GPU-1"}, CreatedAt: ready}))
	s.served(15*time.Minute, u)
	page := s.seen("/deployments/d-acme/metrics?range=15m")
	panel := page.Find(".verdict")
	if text := words(panel.Text()); !strings.Contains(text, "a GPU's clock has fallen") || !strings.Contains(text, "1100 MHz") || !strings.Contains(text, "1900 MHz") || !strings.Contains(text, "Stands out") {
		t.Error(text)
	}
	if facts := words(page.Find(`[data-figure-of="gpu_clock"] .metrics-facts`).Text()); !strings.Contains(facts, "desk-1 GPU 0 at most 1,100 MHz") || strings.Contains(facts, "GPU 1 ") {
		t.Errorf("the clock's chart has %q", facts)
	}
}

func TestAPageOfGoodServiceIsCalm(t *testing.T) {
	s := newSite(t)
	s.served(15*time.Minute, usual{ttft: 120, itl: 25})
	panel := s.panel("?range=15m")
	if text := words(panel.Text()); !strings.Contains(text, "Nothing stands out Healthy") || panel.Find(".verdict-do").Length() != 0 || panel.Find(".tone-bad, .tone-warn").Length() != 0 {
		t.Error(text)
	}
	quiet := newSite(t)
	quiet.measure(func(r *metrics.Recorder) {
		r.Observe(quiet.now.Add(-time.Minute), "d-acme", "r1", metrics.TTFT, 9000, 3)
		r.Observe(quiet.now.Add(-time.Minute), "d-acme", "r1", metrics.E2E, 9900, 3)
	})
	panel = quiet.panel("?range=15m")
	if text := words(panel.Text()); !strings.Contains(text, "Not enough traffic No verdict Only 3 requests") || panel.Find(".tone-bad, .tone-warn").Length() != 0 {
		t.Error(text)
	}
}

func TestAReplicaIsDiagnosedAlone(t *testing.T) {
	s := newSite(t)
	s.served(15*time.Minute, usual{ttft: 130, itl: 420})
	panel := s.panel("?range=15m&replica=r2")
	if text := words(panel.Text()); !strings.Contains(text, "Replica r2 alone") || !strings.Contains(text, "Not enough traffic") {
		t.Error(text)
	}
	if panel = s.panel("?range=15m&replica=r1"); !strings.Contains(words(panel.Text()), "Replica r1 alone") {
		t.Error(panel.Text())
	}
}

// verdicts is what operators' programs read beside the figures.
type verdicts struct {
	Diagnosis *slo.Diagnosis
	Budget    *struct {
		Share   float64
		Left    []*float64
		Windows []struct {
			Factor    float64
			LongBurn  *float64 `json:"long_burn"`
			ShortBurn *float64 `json:"short_burn"`
			TooFast   bool     `json:"too_fast"`
		}
	}
}

func (s *site) verdictOf(tenant, query string) (verdicts, string) {
	s.t.Helper()
	status, body := s.programSends(tenant, http.MethodGet, "/api/v1/deployments/acme-chat/metrics"+query, "")
	if status != http.StatusOK {
		s.t.Fatalf("%d: %s", status, body)
	}
	var out verdicts
	s.must(json.Unmarshal([]byte(body), &out))
	return out, body
}

func TestPageAndAlertComeToTheSameVerdict(t *testing.T) {
	s := newSite(t)
	s.served(30*time.Minute, usual{ttft: 1900, itl: 26, bad: true})
	w := slo.Watcher{Store: s.store, Now: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler)}
	for range 6 {
		s.must(w.Look(t.Context()))
		s.measure(func(r *metrics.Recorder) { usual{ttft: 1900, itl: 26, bad: true}.minute(r, s.now) })
		s.now = s.now.Add(time.Minute)
	}
	open, err := s.store.OpenAlerts(t.Context())
	s.must(err)
	compared := 0
	for _, a := range open {
		var told slo.Payload
		s.must(json.Unmarshal(a.Detail, &told))
		if a.State != factory.AlertFiring || told.Diagnosis == nil {
			continue
		}
		compared++
		query := "?" + url.Values{"from": {told.From.Format(time.RFC3339)}, "to": {told.To.Format(time.RFC3339)}}.Encode()
		got, _ := s.verdictOf("", query)
		if got.Diagnosis == nil || got.Diagnosis.Signature != slo.Upstream || !reflect.DeepEqual(got.Diagnosis, told.Diagnosis) {
			t.Errorf("%s: the alert says %+v, the page %+v", a.Subject, told.Diagnosis, got.Diagnosis)
		}
		if panel := s.panel(query); panel.AttrOr("data-signature", "") != string(told.Diagnosis.Signature) {
			t.Errorf("the page says %s", panel.AttrOr("data-signature", "nothing"))
		}
	}
	if compared == 0 {
		t.Errorf("no alert fired: %+v", open)
	}
}

func TestVerdictAndBudgetAreForOperators(t *testing.T) {
	s := newSite(t)
	s.served(15*time.Minute, usual{ttft: 130, itl: 420, bad: true})
	if got, _ := s.verdictOf("", ""); got.Diagnosis == nil || got.Diagnosis.Signature != slo.DecodeBound || got.Budget == nil {
		t.Errorf("%+v", got)
	}
	if _, body := s.verdictOf("acme", ""); strings.Contains(body, `"diagnosis"`) || strings.Contains(body, `"budget"`) {
		t.Error("a tenant's program reads them")
	}
}
