package handlers_test

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/shopspring/decimal"

	"tokenfactory/factory"
)

// row is a request of acme in the ledger.
func (s *site) row(id, at, price string, prompt, cached, completion int64) factory.Usage {
	s.t.Helper()
	started, err := time.Parse(time.RFC3339, at)
	s.must(err)
	return factory.Usage{
		ID: id, TenantID: s.tenants["acme"].ID, KeyID: s.keys["acme"].ID, DeploymentID: "d-acme", PriceID: price,
		Endpoint: "chat.completions", ModelAsked: "acme/model", ModelServed: "acme/model", Status: 200, Attempts: 1,
		PromptTokens: prompt, CachedTokens: cached, CompletionTokens: completion, StartedAt: started.UTC(),
	}
}

// reprice gives acme's deployment a new price and returns the version's id.
func (s *site) reprice(currency, input, cached, output string) string {
	s.t.Helper()
	d, err := s.store.Deployment(s.t.Context(), "d-acme")
	s.must(err)
	d.Currency, d.InputPrice, d.CachedInputPrice, d.OutputPrice = currency, input, cached, output
	p := d.DeploymentSpec.Price()
	p.ID, p.DeploymentID, p.ValidFrom = factory.NewID(), d.ID, s.now
	d.Price = &p
	s.must(s.store.SaveDeployment(s.t.Context(), d))
	return p.ID
}

type sums struct {
	Rows []struct {
		Day            string
		Model          string
		Requests       int64
		Prompt         int64 `json:"prompt_tokens"`
		Cached         int64 `json:"cached_tokens"`
		Completion     int64 `json:"completion_tokens"`
		Cost, Currency *string
		Estimated      int64
	}
	Total struct {
		Requests       int64
		Prompt         int64 `json:"prompt_tokens"`
		Cached         int64 `json:"cached_tokens"`
		Completion     int64 `json:"completion_tokens"`
		Cost, Currency *string
		Costs          []struct{ Cost, Currency string }
	}
}

func (s *site) sums(query string) sums {
	s.t.Helper()
	var out sums
	if status, body := s.program(s.secrets["acme"], "/api/v1/usage?"+query, &out); status != http.StatusOK {
		s.t.Fatalf("usage?%s answers %d %s", query, status, body)
	}
	return out
}

func text(p *string) string {
	if p == nil {
		return "null"
	}
	return *p
}

func TestMB05CostIsTheSameTextInAPIPageAndExport(t *testing.T) {
	s := newSite(t)
	tenth := s.reprice("USD", "0.1", "0", "0")
	rows := []factory.Usage{s.row("r0", "2026-12-01T10:00:00Z", s.prices["acme"], 1_000_000, 0, 0)}
	for i := range 3 {
		rows = append(rows, s.row(fmt.Sprint("r", i+1), "2026-12-01T10:20:00Z", tenth, 1_000_000, 0, 0))
	}
	s.must(s.store.AppendUsage(t.Context(), rows))
	// 0.15 under the old version and three times 0.1 under the new one.
	if got := s.sums("group=deployment"); len(got.Rows) != 1 || text(got.Rows[0].Cost) != "0.45" || text(got.Total.Cost) != "0.45" {
		t.Errorf("the API says %+v", got)
	}
	mia := s.signIn("mia@acme.example")
	if _, body := mia.get("/t/acme/usage.csv"); !strings.Contains(body, ",0.45,USD,") {
		t.Errorf("the export says %s", body)
	}
	_, body := mia.get("/t/acme/usage")
	page, err := goquery.NewDocumentFromReader(strings.NewReader(body))
	s.must(err)
	if cost := page.Find("dl.figures data"); cost.Length() != 1 || cost.AttrOr("value", "") != "0.45" || !strings.HasPrefix(strings.TrimSpace(cost.Text()), "0.45") {
		t.Errorf("the page says %q", cost.Text())
	}
}

func TestMB07ABatchDeliveredTwiceCountsOnce(t *testing.T) {
	s := newSite(t)
	batch := []factory.Usage{
		s.row("r1", "2026-12-01T10:00:00Z", s.prices["acme"], 10, 0, 5),
		s.row("r2", "2026-12-01T10:00:01Z", s.prices["acme"], 20, 0, 7),
	}
	s.must(s.store.AppendUsage(t.Context(), batch))
	s.must(s.store.AppendUsage(t.Context(), batch))
	got := s.sums("group=day")
	// 30 × 0.15 + 12 × 0.60 per million.
	if got.Total.Requests != 2 || got.Total.Prompt != 30 || got.Total.Completion != 12 || text(got.Total.Cost) != "0.0000117" || len(got.Rows) != 1 {
		t.Errorf("usage says %+v", got)
	}
	var ledger struct{ Rows []struct{ ID string } }
	if _, body := s.program(s.secrets["acme"], "/api/v1/requests", &ledger); len(ledger.Rows) != 2 {
		t.Errorf("requests say %s", body)
	}
}

func TestMB08EveryKindOfRequestIsPartOfTheTotal(t *testing.T) {
	s := newSite(t)
	var rows []factory.Usage
	add := func(n int, endpoint string, prompt, completion int64) {
		for range n {
			r := s.row(fmt.Sprint("r", len(rows)), "2026-12-01T10:00:00Z", s.prices["acme"], prompt, 0, completion)
			r.Endpoint = endpoint
			rows = append(rows, r)
		}
	}
	add(10, "chat.completions", 100, 20)
	add(5, "completions", 50, 10)
	add(4, "embeddings", 7, 0)
	s.must(s.store.AppendUsage(t.Context(), rows))
	if got := s.sums("group=tenant").Total; got.Requests != 19 || got.Prompt != 1278 || got.Completion != 250 {
		t.Errorf("usage says %+v", got)
	}
	var ledger struct {
		Rows []struct {
			Endpoint   string
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		}
	}
	s.program(s.secrets["acme"], "/api/v1/requests", &ledger)
	tokens := map[string]int64{}
	for _, r := range ledger.Rows {
		tokens[r.Endpoint] += r.Prompt + r.Completion
	}
	if tokens["chat.completions"] != 1200 || tokens["completions"] != 300 || tokens["embeddings"] != 28 {
		t.Errorf("by endpoint: %v", tokens)
	}
}

// The day on which clocks go back has 25 hours, and its usage is all on it.
func TestADayIsTheViewersDay(t *testing.T) {
	s := newSite(t)
	s.now = time.Date(2026, 10, 27, 9, 0, 0, 0, time.UTC)
	s.must(s.store.AppendUsage(t.Context(), []factory.Usage{
		s.row("before", "2026-10-24T21:59:59Z", s.prices["acme"], 1, 0, 0),
		s.row("first", "2026-10-24T22:00:00Z", s.prices["acme"], 2, 0, 0),
		s.row("last", "2026-10-25T22:59:59Z", s.prices["acme"], 4, 0, 0),
		s.row("after", "2026-10-25T23:00:00Z", s.prices["acme"], 8, 0, 0),
	}))
	got := ""
	for _, r := range s.sums("group=day&tz=Europe/Berlin").Rows {
		got += fmt.Sprintf("%s:%d ", r.Day, r.Prompt)
	}
	if want := "2026-10-24:1 2026-10-25:6 2026-10-26:8 "; got != want {
		t.Errorf("days are %s, want %s", got, want)
	}
	// A day as an end of the range is that whole day, in the same zone.
	if got := s.sums("group=day&tz=Europe/Berlin&from=2026-10-25&to=2026-10-25").Total; got.Prompt != 6 {
		t.Errorf("one day: %+v", got)
	}
	if got := s.sums("from=2026-10-25T22:59:59Z&to=2026-10-25T23:00:00Z").Total; got.Prompt != 4 {
		t.Errorf("one second: %+v", got)
	}
}

func TestCurrenciesGiveRowsOfTheirOwn(t *testing.T) {
	s := newSite(t)
	euro := s.reprice("EUR", "1", "1", "3")
	s.must(s.store.AppendUsage(t.Context(), []factory.Usage{
		s.row("r1", "2026-12-01T10:00:00Z", s.prices["acme"], 1_000_000, 0, 0),
		s.row("r2", "2026-12-01T10:00:00Z", euro, 1_000_000, 0, 1_000_000),
	}))
	got := s.sums("group=model")
	if len(got.Rows) != 2 || got.Rows[0].Model != "acme/model" || text(got.Rows[0].Cost)+text(got.Rows[0].Currency) != "4EUR" || text(got.Rows[1].Cost)+text(got.Rows[1].Currency) != "0.15USD" {
		t.Errorf("rows are %+v", got.Rows)
	}
	if got.Total.Cost != nil || got.Total.Requests != 2 || fmt.Sprint(got.Total.Costs) != "[{4 EUR} {0.15 USD}]" {
		t.Errorf("the total is %+v", got.Total)
	}
	mia := s.signIn("mia@acme.example")
	if _, body := mia.get("/t/acme/usage"); strings.Contains(body, "4.15") || !strings.Contains(body, "EUR") || !strings.Contains(body, "USD") {
		t.Error("the page adds currencies, or leaves one out")
	}
}

// Whatever is asked, and wherever: the parts add up to one and the same total.
func TestTheSameTotalsOnEveryPage(t *testing.T) {
	s := newSite(t)
	second := s.reprice("USD", "0.170000001", "0.04", "0.7")
	rnd := rand.New(rand.NewPCG(5, 6))
	var rows []factory.Usage
	for i := range 400 {
		prompt := rnd.Int64N(9000)
		r := s.row(fmt.Sprint("r", i), "2026-11-26T00:00:00Z", []string{s.prices["acme"], second}[rnd.IntN(2)], prompt, rnd.Int64N(prompt+1), rnd.Int64N(900))
		r.StartedAt = r.StartedAt.Add(time.Duration(rnd.Int64N(int64(5 * 24 * time.Hour)))).Truncate(time.Microsecond)
		r.Flags = []string{"", "", factory.FlagEstimated, factory.FlagAborted}[rnd.IntN(4)]
		rows = append(rows, r)
	}
	s.must(s.store.AppendUsage(t.Context(), rows))
	const period = "from=2026-11-25&to=2026-12-01"
	want := s.sums(period + "&group=day").Total
	if want.Requests != 400 {
		t.Fatalf("%d requests", want.Requests)
	}
	for _, group := range []string{"day", "tenant", "key", "deployment", "model", "day,tenant,key,deployment"} {
		got := s.sums(period + "&group=" + group)
		cost, requests := decimal.Zero, int64(0)
		for _, r := range got.Rows {
			cost = cost.Add(decimal.RequireFromString(text(r.Cost)))
			requests += r.Requests
		}
		if text(got.Total.Cost) != text(want.Cost) || cost.String() != text(want.Cost) || requests != want.Requests {
			t.Errorf("by %s: total %s, rows %s, want %s", group, text(got.Total.Cost), cost, text(want.Cost))
		}
	}

	// Request by request.
	cost, cursor := decimal.Zero, ""
	for pages := 0; ; pages++ {
		var page struct {
			Rows []struct{ Cost string }
			Next string
		}
		s.program(s.secrets["acme"], "/api/v1/requests?limit=150&cursor="+cursor, &page)
		for _, r := range page.Rows {
			cost = cost.Add(decimal.RequireFromString(r.Cost))
		}
		if cursor = page.Next; cursor == "" {
			if pages != 2 {
				t.Errorf("400 rows came on %d pages of 150", pages+1)
			}
			break
		}
	}
	if cost.String() != text(want.Cost) {
		t.Errorf("requests cost %s, want %s", cost, text(want.Cost))
	}

	mia, olga := s.signIn("mia@acme.example"), s.signIn("olga@factory.example")
	for who, files := range map[*visitor][]string{mia: {"/t/acme/usage.csv?" + period}, olga: {"/usage.csv?" + period, "/usage.csv?tenant=acme&" + period}} {
		for _, path := range files {
			_, body := who.get(path)
			records, err := csv.NewReader(strings.NewReader(body)).ReadAll()
			s.must(err)
			column := map[string]int{}
			for i, name := range records[0] {
				column[name] = i
			}
			cost, prompt := decimal.Zero, int64(0)
			for _, r := range records[1:] {
				cost = cost.Add(decimal.RequireFromString(r[column["cost"]]))
				n, err := strconv.ParseInt(r[column["prompt_tokens"]], 10, 64)
				s.must(err)
				prompt += n
			}
			if cost.String() != text(want.Cost) || prompt != want.Prompt {
				t.Errorf("%s adds up to %s and %d, want %s and %d", path, cost, prompt, text(want.Cost), want.Prompt)
			}
		}
	}
	for who, path := range map[*visitor]string{mia: "/t/acme/usage?" + period, olga: "/usage?" + period} {
		_, body := who.get(path)
		page, err := goquery.NewDocumentFromReader(strings.NewReader(body))
		s.must(err)
		if got := page.Find("dl.figures data").AttrOr("value", ""); got != text(want.Cost) {
			t.Errorf("%s says %s, want %s", path, got, text(want.Cost))
		}
		page.Find("table").Each(func(_ int, table *goquery.Selection) {
			caption := table.Find("caption").Text()
			if caption == "Requests" {
				return
			}
			sum := decimal.Zero
			table.Find("tbody data").Each(func(_ int, d *goquery.Selection) {
				sum = sum.Add(decimal.RequireFromString(d.AttrOr("value", "")))
			})
			if sum.String() != text(want.Cost) {
				t.Errorf("%s, %s: rows add up to %s, want %s", path, caption, sum, text(want.Cost))
			}
		})
		if body := page.Text(); !strings.Contains(body, "Estimated") || !strings.Contains(body, "Aborted") {
			t.Errorf("%s does not mark estimated and aborted requests", path)
		}
	}
}
