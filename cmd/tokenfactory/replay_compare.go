package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tokenfactory/metrics"
)

// evidence is all that is compared: what was seen here and what the factory says.
type evidence struct {
	Outcomes []outcome
	Rows     []replayRow // everybody's, of the window and around it
	Shown    *shownMetrics
	From, To time.Time // the dashboard's window
	Engine   *engineSaid
}

// comparedRow is a line of the report. Cells are text; a difference beyond what is
// allowed fails the run when it is judged.
type comparedRow struct {
	Metric                             string
	Client, Gateway, Dashboard, Engine string
	Difference                         string
	Judged, Failed                     bool
}

// comparison is a report's content.
type comparison struct {
	Seen     seen
	Rows     []comparedRow
	Findings []string // what is wrong, in sentences
	Notes    []string
	Others   int  // requests of others that the dashboard's window has
	Hidden   bool // time between gateway and engine is in nobody's figures
	Agrees   bool
}

// own tells the rows of the replay's requests from everybody else's in the window.
func (e *evidence) own() (rows []replayRow, deployment, keyID string) {
	ids := map[string]bool{}
	for i := range e.Outcomes {
		if id := e.Outcomes[i].ID; id != "" {
			ids[id] = true
		}
	}
	for _, r := range e.Rows {
		if ids[r.ID] {
			rows, deployment, keyID = append(rows, r), r.Deployment, r.KeyID
		}
	}
	return rows, deployment, keyID
}

// behind are the values of the requests that the dashboard's figures are of, in a window:
// of one key, or of everybody.
func (e *evidence) behind(deployment, keyID string, from, to time.Time) map[metrics.Name]exact {
	return values(e.Rows, func(r replayRow, ms float64) bool {
		at := r.Time.Add(time.Duration(ms * float64(time.Millisecond)))
		return r.Deployment == deployment && (keyID == "" || r.KeyID == keyID) && !at.Before(from) && at.Before(to)
	})
}

// compare holds the client's figures against the gateway's ledger, request by request
// and to the token, and the dashboard's percentiles against the very requests that its
// window has.
func compare(e evidence, tolerance float64) comparison {
	c := comparison{Seen: look(e.Outcomes)}
	own, deployment, _ := e.own()
	c.reconcile(e, own)
	ledger := values(own, nil)
	behind := ledger // the requests behind the dashboard's figures
	if e.Shown != nil {
		behind = e.behind(deployment, e.Shown.KeyID, e.From, e.To)
		c.Others = max(0, len(behind[metrics.E2E])-len(ledger[metrics.E2E]))
		if c.Others > 0 {
			whose := "of others"
			if e.Shown.KeyID != "" {
				whose = "with the same key"
			}
			c.Notes = append(c.Notes, fmt.Sprintf("The window has %d requests %s too. The dashboard's figures, which are of all, are held against all of them in the ledger.", c.Others, whose))
		}
	}
	for _, name := range []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E} {
		for i, q := range metrics.Percentiles {
			c.latency(e, name, i, q, ledger[name], behind[name], tolerance)
		}
	}
	c.gap(e, deployment, tolerance)
	c.Agrees = len(c.Findings) == 0
	return c
}

// values are the latencies in a ledger, sorted. The keep function says which count;
// nil keeps all.
func values(rows []replayRow, keep func(r replayRow, ms float64) bool) map[metrics.Name]exact {
	out := map[metrics.Name]exact{}
	add := func(n metrics.Name, r replayRow, ms *float64) {
		if ms != nil && (keep == nil || keep(r, *ms)) {
			out[n] = append(out[n], *ms)
		}
	}
	for _, r := range rows {
		add(metrics.TTFT, r, r.TTFTMS)
		add(metrics.E2E, r, r.E2EMS)
	}
	for _, v := range out {
		slices.Sort(v)
	}
	return out
}

// reconcile compares counts: each request has one row, and each token is in it.
func (c *comparison) reconcile(e evidence, own []replayRow) {
	byID := map[string]replayRow{}
	for _, r := range own {
		byID[r.ID] = r
	}
	var rows, prompt, output int64
	missing, differing := 0, 0
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		if !o.whole() {
			continue
		}
		r, ok := byID[o.ID]
		if !ok {
			missing++
			continue
		}
		rows, prompt, output = rows+1, prompt+r.Prompt, output+r.Output
		if o.counted && (r.Prompt != o.Prompt || r.Output != o.Output) {
			differing++
		}
	}
	var enginePrompt, engineOutput *float64
	if e.Engine != nil {
		enginePrompt, engineOutput = e.Engine.Prompt, e.Engine.Output
	}
	c.count("Answers, whole", int64(c.Seen.Whole), rows, nil)
	c.count("Tokens in", c.Seen.Prompt, prompt, enginePrompt)
	c.count("Tokens out", c.Seen.Output, output, engineOutput)
	if c.Seen.Whole == 0 {
		c.Findings = append(c.Findings, "No request was answered, so nothing is proven.")
	}
	if missing > 0 {
		c.Findings = append(c.Findings, fmt.Sprintf("The ledger lacks %d requests that were answered.", missing))
	}
	if differing > 0 {
		c.Findings = append(c.Findings, fmt.Sprintf("%d requests have other token counts in the ledger than in their answers.", differing))
	}
	if len(own) > len(byID) {
		c.Findings = append(c.Findings, fmt.Sprintf("%d requests are in the ledger twice.", len(own)-len(byID)))
	}
	if c.Seen.Uncounted > 0 {
		c.Findings = append(c.Findings, fmt.Sprintf("%d answers came without a usage, so their tokens cannot be compared.", c.Seen.Uncounted))
	}
	if c.Seen.Failed > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d of %d requests were not answered: %s.", c.Seen.Failed, c.Seen.Sent, c.Seen.commonest()))
	}
	if c.Seen.Late > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d requests were sent more than %s after they were due, the latest by %s: this machine did not keep up.", c.Seen.Late, lateAfter, c.Seen.Latest.Round(time.Millisecond)))
	}
}

// commonest is the problem that most of those that failed had.
func (s seen) commonest() string {
	text, most := "", 0
	for p, n := range s.Problems {
		if n > most || n == most && p < text {
			text, most = p, n
		}
	}
	return strings.TrimSuffix(text, ".")
}

func (c *comparison) count(name string, client, gateway int64, engine *float64) {
	r := comparedRow{Metric: name, Client: fmt.Sprint(client), Gateway: fmt.Sprint(gateway), Dashboard: "–", Engine: "–",
		Difference: "0", Judged: true, Failed: client != gateway}
	if engine != nil {
		r.Engine = fmt.Sprintf("%.0f", *engine)
	}
	if r.Failed {
		r.Difference = fmt.Sprintf("%+d", gateway-client)
		c.Findings = append(c.Findings, fmt.Sprintf("%s: the client counts %d, the ledger %d.", name, client, gateway))
	}
	c.Rows = append(c.Rows, r)
}

// latency compares one percentile. ITL is shown and not judged: which gaps an event has
// is decided anew on each hop.
func (c *comparison) latency(e evidence, name metrics.Name, i int, q float64, ledger, behind exact, tolerance float64) {
	m, _ := metrics.Find(name)
	r := comparedRow{Metric: fmt.Sprintf("%s p%.0f", m.Title, q*100), Client: "–", Gateway: "–", Dashboard: "–", Engine: "–", Difference: "–", Judged: name != metrics.ITL}
	client, gateway := c.Seen.Values[name].quantile(q), ledger.quantile(q)
	var dashboard *float64
	if e.Shown != nil {
		dashboard = e.Shown.latency(name).at(i)
	}
	for _, cell := range []struct {
		v    *float64
		into *string
	}{{client, &r.Client}, {gateway, &r.Gateway}, {dashboard, &r.Dashboard}} {
		if cell.v != nil {
			*cell.into = milliText(*cell.v)
		}
	}
	if e.Engine != nil {
		if t, ok := e.Engine.Times[engineName[name]]; ok && t.N > 0 {
			r.Engine = estimateText(t.Q[i])
		}
	}
	worst := 0.0
	hold := func(who, against string, v, reference *float64) {
		switch {
		case reference == nil && v == nil:
		case reference == nil || v == nil:
			if r.Judged {
				r.Failed = true
				c.Findings = append(c.Findings, fmt.Sprintf("%s: %s and %s cannot be compared, one of them has no value.", r.Metric, who, against))
			}
		default:
			d := (*v - *reference) / max(*reference, 1e-9)
			if math.Abs(d) > math.Abs(worst) {
				worst = d
			}
			r.Difference = fmt.Sprintf("%+.2f %%", 100*worst)
			if r.Judged && math.Abs(d) > tolerance {
				r.Failed = true
				c.Findings = append(c.Findings, fmt.Sprintf("%s: %s has %s, %s %s; that is %+.1f %%.", r.Metric, who, milliText(*v), against, milliText(*reference), 100*d))
			}
		}
	}
	switch {
	case name == metrics.ITL && c.Others == 0:
		hold("the dashboard", "the client", dashboard, client)
	case name != metrics.ITL:
		hold("the gateway", "the client", gateway, client)
		if e.Shown != nil {
			hold("the dashboard", "the ledger", dashboard, behind.quantile(q))
		}
	}
	c.Rows = append(c.Rows, r)
}

var engineName = map[metrics.Name]metrics.Name{metrics.TTFT: metrics.EngineTTFT, metrics.ITL: metrics.EngineITL, metrics.E2E: metrics.EngineE2E}
