package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

const asked = "demo-small"

// world is everything the gateway talks to, in memory. Set away to take it down.
type world struct {
	mu         sync.Mutex
	keys       map[string]factory.Key
	routes     []factory.Route
	aliases    []factory.Alias
	rows       []factory.Usage
	batches    int
	buckets    []metrics.Bucket
	keyBuckets []metrics.Bucket // of single keys, beside everybody's
	touched    map[string]time.Time
	away       bool
	lookups    int
	wakes      int
	learned    []factory.Learned
	// deaf, when set, is how many more times it cannot be told anything.
	deaf int
	// refuse, when set, decides about a batch of usage.
	refuse func([]factory.Usage) error
}

var errAway = errors.New("connection refused by the database")

func (w *world) KeyByHash(_ context.Context, hash string) (factory.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	if w.away {
		return factory.Key{}, errAway
	}
	k, ok := w.keys[hash]
	if !ok {
		return factory.Key{}, factory.Errorf(factory.NotFound, "There is no such key.")
	}
	return k, nil
}

func (w *world) TouchKeys(_ context.Context, used map[string]time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return errAway
	}
	if w.touched == nil {
		w.touched = map[string]time.Time{}
	}
	for id, at := range used {
		w.touched[id] = at
	}
	return nil
}

func (w *world) AllRoutes(context.Context, time.Time) ([]factory.Route, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, errAway
	}
	return append([]factory.Route(nil), w.routes...), nil
}

func (w *world) AllAliases(context.Context) ([]factory.Alias, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, errAway
	}
	return append([]factory.Alias(nil), w.aliases...), nil
}

// WakeDeployment makes a sleeping deployment one whose replica is on its way.
func (w *world) WakeDeployment(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes++
	if w.deaf > 0 {
		w.deaf--
		return errAway
	}
	for i := range w.routes {
		if d := &w.routes[i].Deployment; d.ID == id {
			d.Asleep = false
		}
	}
	return nil
}

func (w *world) SetRunningUsage(_ context.Context, id string, revision int, learned factory.Learned) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf > 0 {
		w.deaf--
		return errAway
	}
	w.learned = append(w.learned, learned)
	for i := range w.routes {
		if d := &w.routes[i].Deployment; d.ID == id && d.Revision == revision {
			d.RunningUsage = learned
		}
	}
	return nil
}

func (w *world) AppendUsage(_ context.Context, rows []factory.Usage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches++
	if w.away {
		return errAway
	}
	if w.refuse != nil {
		if err := w.refuse(rows); err != nil {
			return err
		}
	}
	have := map[string]bool{}
	for _, u := range w.rows {
		have[u.ID] = true
	}
	for _, u := range rows {
		if !have[u.ID] {
			have[u.ID] = true
			w.rows = append(w.rows, u)
		}
	}
	return nil
}

func (w *world) MergeBuckets(_ context.Context, b []metrics.Bucket) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return errAway
	}
	for _, x := range b {
		if x.KeyID == "" {
			w.buckets = append(w.buckets, x)
		} else {
			w.keyBuckets = append(w.keyBuckets, x)
		}
	}
	return nil
}

func (w *world) set(f func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *world) ledger() []factory.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]factory.Usage(nil), w.rows...)
}

// bench is a running gateway in a world.
type bench struct {
	testing.TB
	*world
	g      *Gateway
	server *httptest.Server
	secret string
	logs   *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newBench starts a gateway in front of engines. Setups run before it opens.
func newBench(t testing.TB, engines []string, setups ...func(*bench)) *bench {
	t.Helper()
	secret, hash := factory.NewSecret(factory.PrefixKey)
	b := &bench{TB: t, secret: secret, logs: &syncBuffer{}, world: &world{
		keys: map[string]factory.Key{hash: {ID: "key1", TenantID: "tenant1", Hash: hash, Scope: factory.ScopeInference}},
	}}
	b.routes = []factory.Route{routeTo(asked, engines...)}
	b.g = &Gateway{
		Keys: b.world, Routes: b.world, Deployments: b.world, Ledger: b.world, Buckets: b.world, SpoolDir: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(b.logs, nil)),
	}
	for _, f := range setups {
		f(b)
	}
	if err := b.g.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.g.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	b.server = httptest.NewServer(b.g)
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
		limit, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		b.world.set(func(w *world) { w.away, w.refuse = false, nil })
		if err := b.g.Close(limit); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		<-done
		if t.Failed() {
			t.Log(b.logs.String())
		}
	})
	return b
}

func routeTo(name string, urls ...string) factory.Route {
	r := factory.Route{Deployment: factory.Deployment{ID: "dep-" + name, Name: "dep", Price: &factory.Price{ID: "price1"},
		DeploymentSpec: factory.DeploymentSpec{PublicName: name, Engine: "vllm", SharedWithAll: true}}}
	for i, u := range urls {
		r.Replicas = append(r.Replicas, factory.Replica{ID: string(rune('A' + i)), URL: u, ServedName: name})
	}
	return r
}

// route changes the only route before the gateway reads it.
func withRoute(f func(*factory.Route)) func(*bench) {
	return func(b *bench) { f(&b.routes[0]) }
}

func (b *bench) request(method, path, body string) *http.Request {
	b.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, b.server.URL+path, r)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.secret)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body: a cut
}

func (b *bench) do(req *http.Request) reply {
	b.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text), err}
}

func (b *bench) post(path, body string) reply {
	b.Helper()
	return b.do(b.request("POST", path, body))
}

func (b *bench) chat(body string) reply {
	b.Helper()
	return b.post("/v1/chat/completions", body)
}

// row waits for the ledger to hold n rows and returns the last one.
func (b *bench) row(n int) factory.Usage {
	b.Helper()
	b.until("the ledger has its rows", func() bool { return len(b.ledger()) >= n })
	rows := b.ledger()
	if len(rows) != n {
		b.Fatalf("the ledger has %d rows, want %d", len(rows), n)
	}
	return rows[n-1]
}

// change changes what may be asked for, and waits until the gateway knows.
func (b *bench) change(f func(*world)) {
	b.Helper()
	b.set(f)
	before := b.g.routes.now.Load()
	b.g.Poke()
	b.until("routes are read", func() bool { return b.g.routes.now.Load() != before })
	// A reading that had begun before the change may have been the one.
	before = b.g.routes.now.Load()
	b.g.Poke()
	b.until("routes are read again", func() bool { return b.g.routes.now.Load() != before })
}

func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	b.Fatalf("waited in vain until %s\n%s", what, b.logs)
}

func (b *bench) idle() {
	b.Helper()
	b.until("nothing is in flight", func() bool {
		n := b.g.inFlight.Load()
		for _, r := range b.g.routes.now.Load().byName {
			for _, rep := range r.replicas {
				n += rep.inFlight.Load()
			}
		}
		return n == 0
	})
}

func wantTokens(t *testing.T, u factory.Usage, prompt, completion int64, flags string, status int) {
	t.Helper()
	if u.PromptTokens != prompt || u.CompletionTokens != completion || u.Flags != flags || u.Status != status {
		t.Errorf("row is %d/%d flags %q status %d, want %d/%d %q %d", u.PromptTokens, u.CompletionTokens, u.Flags, u.Status, prompt, completion, flags, status)
	}
}

// dataEvents are the data of the events in a body.
func dataEvents(body string) []string {
	var out []string
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		if d, ok := strings.CutPrefix(line, "data:"); ok {
			out = append(out, strings.TrimSpace(d))
		}
	}
	return out
}
