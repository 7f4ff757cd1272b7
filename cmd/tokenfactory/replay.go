package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"tokenfactory/metrics"
)

type replayCommand struct {
	Target string `help:"Address of the gateway." placeholder:"URL" required:""`
	Key    string `help:"Key to send with." env:"TOKENFACTORY_KEY"`
	Model  string `help:"Model to ask for." required:""`

	Trace     string        `help:"File of JSON lines with timestamp, input_length and output_length, as public traces have." xor:"load" placeholder:"FILE"`
	Synthetic string        `help:"Arrivals by a pattern: poisson:10/s, constant:10/s, burst:10/s or ramp:10/s." xor:"load" placeholder:"PATTERN:RATE/s"`
	TimeUnit  string        `help:"Unit of the trace's timestamps; auto takes whole numbers as milliseconds." enum:"auto,s,ms" default:"auto"`
	Speed     float64       `help:"How many times faster than recorded the trace is sent." default:"1"`
	Requests  int           `help:"How many requests are sent at most."`
	For       time.Duration `help:"For how long requests are sent at most."`
	Prompt    tokenRange    `name:"prompt-tokens" help:"Length of synthetic prompts, as 200 or 50-200." default:"100"`
	Output    tokenRange    `name:"output-tokens" help:"Length of synthetic answers, as 200 or 50-200." default:"50"`
	Seed      uint64        `help:"Seed of arrivals, lengths and texts." default:"1"`

	Console   string   `help:"Address of the console to compare with." placeholder:"URL"`
	Token     string   `help:"Management token, to read the console." env:"TOKENFACTORY_TOKEN"`
	Engine    []string `help:"Address of an engine whose metrics page is read before and after; once for each replica. Without it the console's account of the engines is shown." placeholder:"URL"`
	HTML      string   `name:"html" help:"Write the report to this file." placeholder:"FILE"`
	Tolerance string   `help:"How far latencies may differ before the exit status is 1." default:"2%"`
}

// exitError ends the program with a status of its own.
type exitError struct {
	status int
	err    error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

const (
	exitDiffers = 1
	exitUsage   = 2
)

// patience is how long the console may take to have everything after the last answer, and
// enginePatience how long the engines' own figures may take, which not every engine has.
const (
	patience       = time.Minute
	enginePatience = 30 * time.Second
)

// Help is what is printed below the list of flags.
func (c *replayCommand) Help() string {
	return "The exit status is 0 when everything agrees, 1 when a latency differs by more than the tolerance or any count of requests or tokens differs, and 2 when the flags make no sense. " +
		"Time between gateway and engine that is in nobody's figures, such as a queue that the engine does not tell of, is shown and named; the figures agree all the same, so it alone leaves the status at 0. " +
		"The engine's figures come from --engine, or else from the console, which shows them to operators. " +
		"Where the console can tell the key's own requests apart, other traffic does not disturb the comparison."
}

func (c *replayCommand) Run(ctx context.Context, log *slog.Logger) error {
	tolerance, plan, err := c.prepare()
	if err != nil {
		return exitError{exitUsage, err}
	}
	client := &replayClient{HTTP: newReplayHTTP(), Base: v1Base(c.Target), Key: c.Key, Model: c.Model, Seed: c.Seed}
	report := replayReport{Target: c.Target, Model: c.Model, Load: c.load(plan), Tolerance: tolerance, Compared: c.Console != ""}

	// A window of the dashboard is made of whole steps, so the first request waits for one to begin.
	step := stepFor(plan[len(plan)-1].At + 2*time.Minute)
	if c.Console != "" {
		begin := time.Now().Truncate(step).Add(step)
		log.Info("waiting for the dashboard's next step", "begins", begin.Format(time.TimeOnly))
		if err := pause(ctx, time.Until(begin)); err != nil {
			return err
		}
	}
	before, err := readPages(ctx, client.HTTP, c.Engine)
	if err != nil {
		return err
	}
	report.Began = time.Now()
	counts := &replayCounts{all: len(plan)}
	finished := showProgress(os.Stderr, counts)
	outcomes := client.run(ctx, plan, counts)
	finished()
	report.Ended = time.Now()
	if ctx.Err() != nil {
		return errors.New("stopped before the end; nothing was compared")
	}
	e := evidence{Outcomes: outcomes, From: report.Began.Truncate(step), To: report.Ended.Truncate(step).Add(step)}
	if len(c.Engine) > 0 {
		after, err := readPages(ctx, client.HTTP, c.Engine)
		if err != nil {
			return err
		}
		said := between(before, after)
		said.From, said.To = report.Began, time.Now()
		e.Engine = &said
	}
	if c.Console == "" {
		report.comparison = measuredOnly(e)
	} else {
		console := &replayConsole{HTTP: client.HTTP, Base: c.Console, Token: c.Token}
		if err := console.fill(ctx, &e); err != nil {
			return err
		}
		report.comparison = compare(e, tolerance)
		if e.Engine == nil {
			report.Notes = append(report.Notes, "The engine's own figures are for operators: give their management token, or --engine.")
		}
	}
	report.print(os.Stdout)
	if c.HTML != "" {
		if err := report.writeHTML(c.HTML); err != nil {
			return err
		}
	}
	if !report.Agrees {
		return exitError{exitDiffers, errors.New(strings.TrimSuffix(report.Verdict(), "."))}
	}
	return nil
}

// prepare checks the flags and makes the schedule.
func (c *replayCommand) prepare() (tolerance float64, plan []arrival, err error) {
	percent, isPercent := strings.CutSuffix(c.Tolerance, "%")
	if tolerance, err = strconv.ParseFloat(percent, 64); err != nil || !(tolerance >= 0) {
		return 0, nil, fmt.Errorf("%q is no tolerance; write one such as 2%%", c.Tolerance)
	}
	if isPercent {
		tolerance /= 100
	}
	for _, address := range append([]string{c.Target, c.Console}, c.Engine...) {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http")) {
			return 0, nil, fmt.Errorf("%q is no address; write one such as http://localhost:8080", address)
		}
	}
	if c.Console != "" && c.Token == "" {
		return 0, nil, errors.New("the console is read with a management token; give --token or TOKENFACTORY_TOKEN")
	}
	if c.Requests < 0 || c.For < 0 || !(c.Speed > 0) {
		return 0, nil, errors.New("--requests, --for and --speed must be above zero")
	}
	if c.Trace != "" {
		plan, err = c.readTrace()
		return tolerance, plan, err
	}
	if c.Synthetic == "" {
		return 0, nil, errors.New("say what to send: --trace FILE or --synthetic poisson:10/s")
	}
	if c.Requests == 0 && c.For == 0 {
		return 0, nil, errors.New("say when to stop: --requests N or --for 5m")
	}
	p, err := parsePattern(c.Synthetic)
	if err != nil {
		return 0, nil, err
	}
	plan, err = p.synthetic(c.Requests, c.For, c.Prompt, c.Output, c.Seed)
	return tolerance, plan, err
}

func (c *replayCommand) readTrace() ([]arrival, error) {
	f, err := os.Open(c.Trace)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	plan, err := readTrace(f, c.TimeUnit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Trace, err)
	}
	for i := range plan {
		plan[i].At = time.Duration(float64(plan[i].At) / c.Speed)
		if c.Requests > 0 && i == c.Requests || c.For > 0 && plan[i].At >= c.For {
			return plan[:i], nil
		}
	}
	return plan, nil
}

func (c *replayCommand) load(plan []arrival) string {
	if c.Trace != "" {
		return fmt.Sprintf("trace %s, %d requests", c.Trace, len(plan))
	}
	return c.Synthetic
}

// v1Base is where the API begins, whether or not the address says so.
func v1Base(address string) string {
	address = strings.TrimRight(address, "/")
	if strings.HasSuffix(address, "/v1") {
		return address
	}
	return address + "/v1"
}

// stepFor is the step in which the dashboard keeps a window of that length.
func stepFor(length time.Duration) time.Duration {
	now := time.Now()
	w, err := metrics.NewWindow(now.Add(-length), now, now, 0)
	if err != nil {
		return time.Hour
	}
	return w.Step
}

// fill adds what the console says.
func (c *replayConsole) fill(ctx context.Context, e *evidence) error {
	ids := map[string]bool{}
	whole := 0 // requests that were answered to their end
	for i := range e.Outcomes {
		if o := &e.Outcomes[i]; o.whole() {
			whole++
			if o.ID != "" {
				ids[o.ID] = true
			}
		}
	}
	var err error
	if e.Rows, err = c.settled(ctx, ids, e.From, e.To, patience); err != nil {
		return err
	}
	_, deployment, keyID := e.own()
	if deployment == "" {
		return nil // which the comparison says
	}
	if e.Engine == nil {
		// A reading of the engine comes a moment after what it counts.
		if e.Engine, err = c.engine(ctx, deployment, e.From, e.To.Add(enginePatience), int64(whole), enginePatience); err != nil {
			return err
		}
	}
	// What one key did is kept by the minute. The window's edges are then whole minutes, with
	// whatever else the key did in them, which the ledger has too.
	from, to := e.From.Truncate(metrics.KeyStep), e.To.Add(metrics.KeyStep-1).Truncate(metrics.KeyStep)
	most := func(keyID string, from, to time.Time) int64 {
		return int64(max(whole, len(e.behind(deployment, keyID, from, to)[metrics.E2E])))
	}
	shown, err := c.shown(ctx, deployment, keyID, from, to, most(keyID, from, to), patience)
	if err != nil {
		return err
	}
	if shown.KeyID == "" { // a console that does not tell keys apart
		to = e.To
		if shown, err = c.shown(ctx, deployment, "", e.From, to, most("", e.From, to), patience); err != nil {
			return err
		}
	}
	// A long run may have been shown in coarser steps, which begin earlier and end later.
	e.From, e.To, e.Shown = shown.From, shown.end(to), &shown
	return nil
}

// measuredOnly is a report without anything to compare with.
func measuredOnly(e evidence) comparison {
	c := comparison{Seen: look(e.Outcomes), Agrees: true}
	for _, name := range []metrics.Name{metrics.TTFT, metrics.ITL, metrics.E2E} {
		for i, q := range metrics.Percentiles {
			c.latency(e, name, i, q, nil, nil, 0)
		}
	}
	for i := range c.Rows {
		c.Rows[i].Judged, c.Rows[i].Failed = false, false
	}
	c.Findings, c.Agrees = nil, c.Seen.Whole > 0
	return c
}
