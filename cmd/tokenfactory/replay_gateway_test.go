package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/engines/sim"
	"tokenfactory/factory"
	"tokenfactory/gateway"
	"tokenfactory/metrics"
)

// replayWorld is a factory in memory: a real gateway before a simulated engine, and a
// console that answers from what the gateway handed over.
type replayWorld struct {
	mu      sync.Mutex
	hash    string
	route   factory.Route
	rows    []factory.Usage
	buckets []metrics.Bucket
	ofKeys  []metrics.Bucket // by the minute, as a console keeps them
	spoil   func(*factory.Usage)

	otherHash string
	earlier   int          // requests with the same key before the replay
	others    int          // requests with another key meanwhile
	keyless   bool         // the console does not tell keys apart
	tells     bool         // the console has the engine's account, and nobody else
	engine    *shownEngine // that account
}

func (w *replayWorld) KeyByHash(_ context.Context, hash string) (factory.Key, error) {
	if hash == w.otherHash {
		return factory.Key{ID: "key2", TenantID: "tenant2", Hash: hash, Scope: factory.ScopeInference}, nil
	}
	if hash != w.hash {
		return factory.Key{}, factory.Errorf(factory.NotFound, "There is no such key.")
	}
	return factory.Key{ID: "key1", TenantID: "tenant1", Hash: hash, Scope: factory.ScopeInference}, nil
}
func (w *replayWorld) TouchKeys(context.Context, map[string]time.Time) error { return nil }
func (w *replayWorld) AllRoutes(context.Context, time.Time) ([]factory.Route, error) {
	return []factory.Route{w.route}, nil
}
func (w *replayWorld) AllAliases(context.Context) ([]factory.Alias, error) { return nil, nil }
func (w *replayWorld) WakeDeployment(context.Context, string) error        { return nil }
func (w *replayWorld) SetRunningUsage(context.Context, string, int, factory.Learned) error {
	return nil
}

func (w *replayWorld) AppendUsage(_ context.Context, rows []factory.Usage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range rows {
		if w.spoil != nil {
			w.spoil(&u)
		}
		w.rows = append(w.rows, u)
	}
	return nil
}

func (w *replayWorld) MergeBuckets(_ context.Context, buckets []metrics.Bucket) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	spread, err := metrics.Spread(buckets)
	for _, b := range spread {
		switch {
		case b.KeyID == "" && b.Step == 10*time.Second:
			w.buckets = append(w.buckets, b)
		case b.KeyID != "" && b.Step == time.Minute:
			w.ofKeys = append(w.ofKeys, b)
		}
	}
	return err
}

// ServeHTTP answers as the console's API does.
func (w *replayWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer management" {
		http.Error(rw, `{"error":{"message":"Sign in."}}`, http.StatusUnauthorized)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var answer any
	if r.URL.Path == "/api/v1/requests" {
		rows := []replayRow{}
		for _, u := range w.rows {
			rows = append(rows, replayRow{ID: u.ID, Time: u.StartedAt, KeyID: u.KeyID, Deployment: "dep", Status: u.Status, Flags: u.Flags,
				Prompt: u.PromptTokens, Output: u.CompletionTokens, QueueMS: u.QueueMS, TTFTMS: u.TTFTMS, E2EMS: u.E2EMS})
		}
		answer = map[string]any{"rows": rows, "next": ""}
	} else {
		shown, err := w.shown(r)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		answer = shown
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

func (w *replayWorld) shown(r *http.Request) (m shownMetrics, err error) {
	if m.From, err = time.Parse(time.RFC3339, r.URL.Query().Get("from")); err != nil {
		return m, err
	}
	if m.To, err = time.Parse(time.RFC3339, r.URL.Query().Get("to")); err != nil {
		return m, err
	}
	m.Engine, m.StepS = w.engine, 10
	buckets := w.buckets
	if key := r.URL.Query().Get("key"); key != "" && !w.keyless {
		m.KeyID, m.StepS, m.From = key, 60, m.From.Truncate(time.Minute)
		buckets = slices.DeleteFunc(slices.Clone(w.ofKeys), func(b metrics.Bucket) bool { return b.KeyID != key })
	}
	for name, into := range map[metrics.Name]*shownLatency{metrics.TTFT: &m.Summary.TTFT, metrics.ITL: &m.Summary.ITL, metrics.E2E: &m.Summary.E2E} {
		s, err := metrics.SeriesOf(name, metrics.Window{From: m.From, To: m.To, Step: time.Duration(m.StepS) * time.Second}, buckets)
		if err != nil {
			return m, err
		}
		*into = shownLatency{s.Summary.Q[0], s.Summary.Q[1], s.Summary.Q[2], s.Summary.Q[3], int64(s.Summary.N)}
	}
	return m, nil
}

// anyTime is a tolerance for what is not tested: how busy the machine is that tests run on.
const anyTime = 1e6

// replayed sends 40 requests through a factory and compares.
func replayed(t *testing.T, o sim.Options, tolerance float64, spoil func(*factory.Usage)) comparison {
	t.Helper()
	return (&replayWorld{spoil: spoil}).replayed(t, o, tolerance)
}

func (w *replayWorld) replayed(t *testing.T, o sim.Options, tolerance float64) comparison {
	t.Helper()
	o.Model = "m"
	engine := httptest.NewServer(sim.New(o))
	t.Cleanup(engine.Close)
	secret, hash := factory.NewSecret(factory.PrefixKey)
	otherSecret, otherHash := factory.NewSecret(factory.PrefixKey)
	w.hash, w.otherHash = hash, otherHash
	w.route = factory.Route{
		Deployment: factory.Deployment{ID: "d1", Name: "dep", DeploymentSpec: factory.DeploymentSpec{PublicName: "m", Engine: "sim", SharedWithAll: true}},
		Replicas:   []factory.Replica{{ID: "A", URL: engine.URL, ServedName: "m"}},
	}
	g := &gateway.Gateway{Keys: w, Routes: w, Deployments: w, Ledger: w, Buckets: w, SpoolDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := g.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	front, back := httptest.NewServer(g), httptest.NewServer(w)
	t.Cleanup(func() {
		front.Close()
		back.Close()
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	plan, err := pattern{"poisson", 400}.synthetic(40, 0, tokenRange{10, 60}, tokenRange{1, 12}, 3)
	if err != nil {
		t.Fatal(err)
	}
	client := &replayClient{HTTP: newReplayHTTP(), Base: v1Base(front.URL), Key: secret, Model: "m", Seed: 1}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	from := time.Now().Truncate(10 * time.Second)
	sendAll := func(secret string, n int) {
		other := *client
		other.Key = secret
		for _, o := range other.run(t.Context(), plan[:n], &replayCounts{all: n}) {
			if !o.whole() {
				t.Error(o.Err)
			}
		}
	}
	sendAll(secret, w.earlier)
	began := time.Now()
	before, err := readPages(t.Context(), client.HTTP, []string{engine.URL})
	if err != nil {
		t.Fatal(err)
	}
	sendAll(otherSecret, w.others)
	e := evidence{Outcomes: client.run(t.Context(), plan, &replayCounts{all: len(plan)}), From: from, To: time.Now().Add(10 * time.Second).Truncate(10 * time.Second)}
	after, err := readPages(t.Context(), client.HTTP, []string{engine.URL})
	if err != nil {
		t.Fatal(err)
	}
	said := between(before, after)
	said.From, said.To = began, time.Now()
	if w.tells {
		w.engine = &shownEngine{Prompt: said.Prompt, Output: said.Output}
		for name, into := range map[metrics.Name]*shownTime{metrics.EngineTTFT: &w.engine.TTFT, metrics.EngineITL: &w.engine.ITL, metrics.EngineE2E: &w.engine.E2E} {
			x := said.Times[name]
			*into = shownTime{x.N, x.Mean, x.Q[0], x.Q[1], x.Q[2], x.Q[3]}
		}
	} else {
		e.Engine = &said
	}
	console := &replayConsole{HTTP: client.HTTP, Base: back.URL, Token: "management"}
	if err := console.fill(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	return compare(e, tolerance)
}

func TestReplayAgreesWithAGatewayToTheToken(t *testing.T) {
	c := replayed(t, sim.Options{TTFT: 5 * time.Millisecond, ITL: time.Millisecond, Jitter: 0.2, TokensPerEvent: 2}, anyTime, nil)
	if !c.Agrees || c.Seen.Whole != 40 || c.Others != 0 || len(c.Findings) != 0 {
		t.Fatalf("%d whole, %d others, findings %v, notes %v", c.Seen.Whole, c.Others, c.Findings, c.Notes)
	}
	for _, r := range c.Rows[:3] {
		if r.Client == "0" || r.Client != r.Gateway || r.Metric != "Answers, whole" && r.Engine != r.Client {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range c.Rows[3:] {
		if r.Client == "–" || r.Engine == "–" || r.Judged && (r.Gateway == "–" || r.Dashboard == "–") {
			t.Errorf("a figure is missing: %+v", r)
		}
	}
}

func TestReplayFindsATokenThatTheLedgerLost(t *testing.T) {
	lost := false
	c := replayed(t, sim.Options{}, anyTime, func(u *factory.Usage) {
		if !lost {
			lost = true
			u.CompletionTokens--
		}
	})
	if all := strings.Join(c.Findings, "\n"); c.Agrees || !strings.Contains(all, "Tokens out") || !strings.Contains(all, "1 requests have other token counts") {
		t.Errorf("agrees %v, findings:\n%s", c.Agrees, all)
	}
}

func TestReplayNamesAQueueThatTheEngineHides(t *testing.T) {
	c := replayed(t, sim.Options{TTFT: time.Millisecond, Faults: []sim.Fault{{Kind: sim.HiddenQueue, Delay: 300 * time.Millisecond}}}, 0.02, nil)
	if all := strings.Join(c.Notes, "\n"); !c.Hidden || !strings.Contains(all, "Hidden queue or network between gateway and engine") {
		t.Errorf("hidden %v, notes:\n%s", c.Hidden, all)
	}
}

func TestReplayIsNotDisturbedByOtherTraffic(t *testing.T) {
	for name, c := range map[string]struct {
		world  *replayWorld
		others int
		says   string
	}{
		"others, told apart":     {&replayWorld{others: 15}, 0, ""},
		"others, not told apart": {&replayWorld{others: 15, keyless: true}, 15, "15 requests of others"},
		"the same key before":    {&replayWorld{earlier: 15}, 15, "15 requests with the same key"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.world.replayed(t, sim.Options{TTFT: 5 * time.Millisecond, ITL: time.Millisecond, Jitter: 0.3}, 0.5)
			if all := strings.Join(got.Notes, "\n"); got.Others != c.others || !strings.Contains(all, c.says) || c.says == "" && strings.Contains(all, "too. The dashboard's") {
				t.Errorf("%d others, notes:\n%s", got.Others, all)
			}
			for _, f := range got.Findings { // what a busy machine does to the client is not tested
				if !strings.Contains(f, "the gateway has") {
					t.Error(f)
				}
			}
		})
	}
}

func TestReplayTakesTheEnginesFiguresFromTheConsole(t *testing.T) {
	w := &replayWorld{tells: true}
	c := w.replayed(t, sim.Options{TTFT: time.Millisecond, Faults: []sim.Fault{{Kind: sim.HiddenQueue, Delay: 300 * time.Millisecond}}}, 0.02)
	if all := strings.Join(c.Notes, "\n"); !c.Hidden || !strings.Contains(all, "Hidden queue or network between gateway and engine") {
		t.Errorf("hidden %v, notes:\n%s", c.Hidden, all)
	}
	for _, r := range c.Rows {
		if r.Engine == "–" && r.Metric != "Answers, whole" {
			t.Errorf("the engine's column is empty: %+v", r)
		}
	}
	// Others in the engine's account are in the ledger as well.
	w = &replayWorld{tells: true, others: 15}
	c = w.replayed(t, sim.Options{TTFT: time.Millisecond, Faults: []sim.Fault{{Kind: sim.HiddenQueue, Delay: 300 * time.Millisecond}}}, 0.02)
	if all := strings.Join(c.Notes, "\n"); !c.Hidden || c.Others != 0 || strings.Contains(all, "cannot be told") {
		t.Errorf("hidden %v, notes:\n%s", c.Hidden, all)
	}
}

func TestReplayCountsWhatFails(t *testing.T) {
	c := replayed(t, sim.Options{Faults: []sim.Fault{{Kind: sim.Errors, Factor: 1}}}, anyTime, nil)
	if c.Agrees || c.Seen.Failed != 40 || c.Seen.Whole != 0 || !strings.Contains(strings.Join(c.Findings, "\n"), "nothing is proven") {
		t.Errorf("agrees %v, %d failed, findings %v", c.Agrees, c.Seen.Failed, c.Findings)
	}
}
