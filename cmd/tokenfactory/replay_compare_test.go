package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tokenfactory/metrics"
)

func TestQuantilesAreNearestRanks(t *testing.T) {
	v := exact{10, 20, 30, 40}
	for q, want := range map[float64]float64{0: 10, 0.25: 10, 0.26: 20, 0.5: 20, 0.75: 30, 0.99: 40, 1: 40} {
		if got := v.quantile(q); *got != want {
			t.Errorf("%v: %v, want %v", q, *got, want)
		}
	}
	if (exact{}).quantile(0.5) != nil || (exact{}).mean() != nil {
		t.Error("there is a value without a sample")
	}
}

// agreeing is a run of n requests about which everybody says the same.
func agreeing(n int) evidence {
	start := time.Date(2026, 12, 7, 12, 0, 0, 0, time.UTC)
	e := evidence{From: start, To: start.Add(time.Minute), Shown: &shownMetrics{From: start}}
	for i := range n {
		ttft, e2e := float64(100+i), float64(1000+i)
		queue := 0.0
		id := fmt.Sprint("r", i)
		at := start.Add(time.Duration(i) * 10 * time.Millisecond)
		e.Outcomes = append(e.Outcomes, outcome{ID: id, Sent: at, Status: 200, TTFT: time.Duration(ttft) * time.Millisecond, E2E: time.Duration(e2e) * time.Millisecond,
			Prompt: 10, Output: 5, counted: true})
		e.Rows = append(e.Rows, replayRow{ID: id, Time: at, KeyID: "k", Deployment: "d", Status: 200, Prompt: 10, Output: 5, QueueMS: &queue, TTFTMS: &ttft, E2EMS: &e2e})
	}
	e.show()
	return e
}

// show makes the dashboard say what the ledger has.
func (e *evidence) show() {
	v := values(e.Rows, nil)
	of := func(x exact) shownLatency {
		return shownLatency{x.quantile(0.5), x.quantile(0.9), x.quantile(0.95), x.quantile(0.99), int64(len(x))}
	}
	e.Shown.Summary.TTFT, e.Shown.Summary.E2E = of(v[metrics.TTFT]), of(v[metrics.E2E])
}

func TestAgreeingFiguresAgree(t *testing.T) {
	c := compare(agreeing(100), 0.02)
	if !c.Agrees || len(c.Findings) != 0 || c.Others != 0 || c.Hidden {
		t.Errorf("%+v", c)
	}
	if len(c.Rows) != 3+12 || c.Rows[0].Client != "100" || c.Rows[1].Gateway != "1000" || c.Rows[2].Dashboard != "–" {
		t.Errorf("rows %+v", c.Rows)
	}
}

func TestEachDisagreementIsAFinding(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*evidence)
		says   string
	}{
		"a token":              {func(e *evidence) { e.Rows[5].Output++ }, "Tokens out: the client counts 500, the ledger 501."},
		"tokens that even out": {func(e *evidence) { e.Rows[5].Output++; e.Rows[6].Output-- }, "2 requests have other token counts"},
		"a row too few":        {func(e *evidence) { e.Rows = e.Rows[1:]; e.show() }, "lacks 1 requests"},
		"a row too many":       {func(e *evidence) { e.Rows = append(e.Rows, e.Rows[5]) }, "1 requests are in the ledger twice"},
		"the gateway": {func(e *evidence) {
			for i := range e.Rows {
				v := *e.Rows[i].TTFTMS * 1.03
				e.Rows[i].TTFTMS = &v
			}
			e.show()
		}, "TTFT p50: the gateway has"},
		"the dashboard":      {func(e *evidence) { v := *e.Shown.Summary.E2E.P99 * 0.97; e.Shown.Summary.E2E.P99 = &v }, "E2E p99: the dashboard has"},
		"an empty dashboard": {func(e *evidence) { e.Shown.Summary.TTFT = shownLatency{} }, "cannot be compared"},
		"no usage":           {func(e *evidence) { e.Outcomes[3].counted = false }, "1 answers came without a usage"},
		"nothing answered": {func(e *evidence) {
			for i := range e.Outcomes {
				e.Outcomes[i].Err = os.ErrDeadlineExceeded
			}
		}, "nothing is proven"},
	} {
		e := agreeing(100)
		c.change(&e)
		got := compare(e, 0.02)
		if all := strings.Join(got.Findings, "\n"); got.Agrees || !strings.Contains(all, c.says) {
			t.Errorf("%s: agrees %v, findings:\n%s", name, got.Agrees, all)
		}
	}
	e := agreeing(100)
	v := *e.Shown.Summary.E2E.P99 * 0.985
	e.Shown.Summary.E2E.P99 = &v
	if got := compare(e, 0.02); !got.Agrees {
		t.Errorf("1.5 %% are within 2 %%: %v", got.Findings)
	}
}

func TestRequestsOfOthersAreToldApart(t *testing.T) {
	e := agreeing(100)
	slow := 5000.0
	for i := range 10 {
		e.Rows = append(e.Rows,
			replayRow{ID: fmt.Sprint("other", i), Time: e.From.Add(time.Second), Deployment: "d", TTFTMS: &slow, E2EMS: &slow},
			replayRow{ID: fmt.Sprint("elsewhere", i), Time: e.From.Add(time.Second), Deployment: "x", TTFTMS: &slow, E2EMS: &slow},
			// It began in the window and ended after it.
			replayRow{ID: fmt.Sprint("later", i), Time: e.To.Add(-time.Second), Deployment: "d", TTFTMS: &slow, E2EMS: &slow})
	}
	shown := e
	shown.Rows = nil
	for _, r := range e.Rows {
		if r.Deployment == "d" && !strings.HasPrefix(r.ID, "later") {
			shown.Rows = append(shown.Rows, r)
		}
	}
	shown.show()
	c := compare(e, 0.02)
	if !c.Agrees || c.Others != 10 || len(c.Notes) != 1 {
		t.Errorf("%d others, findings %v, notes %v", c.Others, c.Findings, c.Notes)
	}
	// Figures of the key alone are held against the key's own requests.
	own := agreeing(100)
	own.Rows, own.Shown.KeyID = e.Rows, "k"
	if c := compare(own, 0.02); !c.Agrees || c.Others != 0 {
		t.Errorf("%d others, findings %v", c.Others, c.Findings)
	}
}

func TestTimeInNobodysFiguresIsNamed(t *testing.T) {
	histogram := func(mean float64) *engineSaid {
		return &engineSaid{From: agreeing(1).From, To: agreeing(1).To, Times: map[metrics.Name]engineTime{metrics.EngineTTFT: engineTimeOf(metrics.Histogram{Bounds: []float64{1000}, Counts: []float64{100}, Sum: 100 * mean, Count: 100})}}
	}
	e := agreeing(100) // mean TTFT 149.5 ms
	e.Engine = histogram(147)
	if c := compare(e, 0.02); c.Hidden || len(c.Notes) != 0 {
		t.Errorf("2.5 ms of network are a finding: %v", c.Notes)
	}
	e.Engine = histogram(50)
	c := compare(e, 0.02)
	if !c.Hidden || !c.Agrees || !strings.Contains(strings.Join(c.Notes, "\n"), "Hidden queue or network between gateway and engine: 99.5 ms") {
		t.Errorf("hidden %v, notes %v", c.Hidden, c.Notes)
	}
	// The gateway's own queue explains it.
	queue := 99.0
	for i := range e.Rows {
		e.Rows[i].QueueMS = &queue
	}
	if c := compare(e, 0.02); c.Hidden {
		t.Errorf("the gateway's queue is taken for a hidden one: %v", c.Notes)
	}
	// Of others' requests, which are not in the ledger that may be read, nothing follows.
	e.Engine = histogram(50)
	e.Rows = e.Rows[:80]
	if c := compare(e, 0.02); c.Hidden || !strings.Contains(strings.Join(c.Notes, "\n"), "counts 100 first tokens and the ledger 80") {
		t.Errorf("hidden %v, notes %v", c.Hidden, c.Notes)
	}
	// Others that are in both sides' figures are in both means.
	e = agreeing(100)
	slow := 1149.5
	for i := range 100 {
		e.Rows = append(e.Rows, replayRow{ID: fmt.Sprint("other", i), Time: e.From.Add(time.Second), Deployment: "d", TTFTMS: &slow})
	}
	both := engineTimeOf(metrics.Histogram{Bounds: []float64{2000}, Counts: []float64{200}, Sum: 200 * 649, Count: 200})
	e.Engine = &engineSaid{From: e.From, To: e.To, Times: map[metrics.Name]engineTime{metrics.EngineTTFT: both}}
	if c := compare(e, 0.02); c.Hidden {
		t.Errorf("others' waits are taken for a hidden queue: %v", c.Notes)
	}
	e = agreeing(100)
	e.Engine = &engineSaid{From: e.From, To: e.To}
	if c := compare(e, 0.02); c.Hidden || !strings.Contains(strings.Join(c.Notes, "\n"), "does not report") {
		t.Errorf("notes %v", c.Notes)
	}
}

func TestReportsSayTheVerdict(t *testing.T) {
	e := agreeing(100)
	e.Rows[5].Output++
	for _, c := range []struct {
		e    evidence
		says string
	}{{agreeing(100), "Everything agrees"}, {e, "do not agree"}} {
		r := replayReport{comparison: compare(c.e, 0.02), Target: "http://x", Model: "<m>", Load: "constant:1/s", Tolerance: 0.02, Compared: true}
		var text strings.Builder
		r.print(&text)
		path := filepath.Join(t.TempDir(), "report.html")
		if err := r.writeHTML(path); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), c.says) || !strings.Contains(text.String(), "TTFT p99") {
			t.Errorf("printed:\n%s", text.String())
		}
		if s := string(page); !strings.Contains(s, c.says) || !strings.Contains(s, "&lt;m&gt;") || strings.Contains(s, "<script") || strings.Contains(s, "http-equiv") || strings.Contains(s, "src=") {
			t.Errorf("page:\n%s", s)
		}
	}
}
