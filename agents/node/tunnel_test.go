package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/agents"
	"tokenfactory/agents/agenttest"
	"tokenfactory/factory"
	"tokenfactory/gateway"
	"tokenfactory/metrics"
)

// town is a factory in memory: the real intake and the real gateway, one agent that
// can be reached through its tunnel alone, and an engine beside it.
type town struct {
	*testing.T
	tunnels *agents.Tunnels
	server  *httptest.Server // of the gateway and the intake
	network *agenttest.Network
	engine  *httptest.Server
	key     string
	log     *agentLog

	mu       sync.Mutex
	node     factory.Node
	desired  []factory.ReplicaSpec
	replicas []factory.Replica
	rows     []factory.Usage
}

type agentLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *agentLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *agentLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newTown(t *testing.T, chat http.HandlerFunc) *town {
	t.Parallel() // most of the time is the agent's, between two reports
	secret, _ := factory.NewSecret(factory.PrefixKey)
	tn := &town{T: t, key: secret, log: &agentLog{}}
	log := slog.New(slog.NewTextHandler(tn.log, nil))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Stream bool }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		if asked.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			chat(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	})
	tn.engine = httptest.NewServer(mux)
	t.Cleanup(func() { tn.engine.CloseClientConnections(); tn.engine.Close() })
	tn.desired = []factory.ReplicaSpec{{ID: "r", DeploymentID: "d", Deployment: "d", Revision: 1, Engine: "vllm", Address: tn.engine.URL, ServedName: "m"}}

	tn.tunnels = &agents.Tunnels{Fleet: tn, Log: log}
	intake := &agents.Intake{Fleet: tn, Tunnels: tn.tunnels, Log: log, Now: factory.Now}
	g := &gateway.Gateway{Keys: tn, Routes: tn, Ledger: tn, Buckets: tn, Tunnels: tn.tunnels, SpoolDir: t.TempDir(), Log: log}
	if err := g.Open(); err != nil {
		t.Fatal(err)
	}
	tn.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/agent/") {
			intake.ServeHTTP(w, r)
			return
		}
		g.ServeHTTP(w, r)
	}))
	tn.network = agenttest.NewNetwork(t, tn.server.URL)
	hardware := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(hardware, []byte("arch: amd64\nhostname: desk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := &Agent{Server: tn.network.URL, Token: "tfj-token", Dir: t.TempDir(), Version: "1", Tunnel: true, Hardware: hardware, Log: log}

	ctx, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	for _, run := range []func(context.Context) error{g.Run, tn.tunnels.Run, agent.Run} {
		loops.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		tn.server.CloseClientConnections()
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.Close(limit); err != nil {
			t.Error(err)
		}
		stop()
		loops.Wait()
		tn.server.Close()
		if t.Failed() {
			t.Log(tn.log)
		}
	})
	return tn
}

func (tn *town) KeyByHash(_ context.Context, hash string) (factory.Key, error) {
	return factory.Key{ID: "k", TenantID: "t", Hash: hash, Scope: factory.ScopeInference}, nil
}

func (tn *town) TouchKeys(context.Context, map[string]time.Time) error  { return nil }
func (tn *town) AllAliases(context.Context) ([]factory.Alias, error)    { return nil, nil }
func (tn *town) MergeBuckets(context.Context, []metrics.Bucket) error   { return nil }
func (tn *town) AllReplicas(context.Context) ([]factory.Replica, error) { return nil, nil }
func (tn *town) NodeCredentials(ctx context.Context) (map[string]string, error) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	return map[string]string{tn.node.ID: tn.node.CredentialHash}, nil
}

func (tn *town) AllRoutes(context.Context, time.Time) ([]factory.Route, error) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	return []factory.Route{{Replicas: tn.replicas, Deployment: factory.Deployment{ID: "d", Name: "d", Price: &factory.Price{ID: "p"},
		DeploymentSpec: factory.DeploymentSpec{PublicName: "m", Engine: "vllm", SharedWithAll: true}}}}, nil
}

func (tn *town) AppendUsage(_ context.Context, rows []factory.Usage) error {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.rows = append(tn.rows, rows...)
	return nil
}

func (tn *town) RedeemJoinToken(_ context.Context, _ string, n factory.Node, _ time.Time) (factory.Node, error) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.node = n
	return n, nil
}

func (tn *town) NodeByCredential(_ context.Context, hash string) (factory.Node, error) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	if tn.node.CredentialHash != hash {
		return factory.Node{}, factory.Errorf(factory.NotFound, "none")
	}
	return tn.node, nil
}

func (tn *town) DesiredReplicas(context.Context, string) ([]factory.ReplicaSpec, error) {
	return tn.desired, nil
}

func (tn *town) SaveReport(_ context.Context, _ string, r factory.NodeReport, _ []metrics.Bucket) error {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.node.Address, tn.node.ReportSeq = r.Address, r.AckSeq
	tn.replicas = nil
	for _, s := range r.Replicas {
		if s.State == factory.Ready {
			tn.replicas = append(tn.replicas, factory.Replica{ID: s.ID, DeploymentID: "d", NodeID: tn.node.ID, Revision: s.Revision, State: s.State, URL: s.URL, ServedName: s.ServedName})
		}
	}
	return nil
}

func (tn *town) eventually(what string, done func() bool) {
	tn.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tn.Fatalf("never: %s", what)
		}
	}
}

func (tn *town) ask(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, tn.server.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		tn.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tn.key)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultTransport.RoundTrip(req)
}

const (
	wholeAnswer = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	asStream    = `{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// answers reports whether a request that is not streamed is answered.
func (tn *town) answers() bool {
	resp, err := tn.ask(tn.Context(), wholeAnswer)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"hi"`)
}

func (tn *town) ready() {
	tn.Helper()
	tn.eventually("requests are answered", tn.answers)
}

// stream asks for a stream and reads its first event.
func (tn *town) stream(ctx context.Context) (*http.Response, *bufio.Reader) {
	tn.Helper()
	resp, err := tn.ask(ctx, asStream)
	if err != nil {
		tn.Fatal(err)
	}
	tn.Cleanup(func() { resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	line, err := r.ReadString('\n')
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(line, "word") {
		tn.Fatalf("%s %q %v", resp.Status, line, err)
	}
	return resp, r
}

func say(w http.ResponseWriter, data string) {
	_, _ = io.WriteString(w, "data: "+data+"\n\n")
	_ = http.NewResponseController(w).Flush()
}

func word(n int) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"word"}}],"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}}`, n, n+3)
}

func TestRequestsAreCarriedByTheTunnel(t *testing.T) {
	tn := newTown(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 5 {
			say(w, word(i+1))
		}
		say(w, "[DONE]")
	})
	tn.ready()
	tn.mu.Lock()
	if tn.node.Address != "" || tn.replicas[0].URL != "tunnel://"+tn.node.ID+"/r" {
		t.Errorf("the machine is at %q, its replica at %q", tn.node.Address, tn.replicas[0].URL)
	}
	tn.mu.Unlock()
	_, r := tn.stream(t.Context())
	rest, err := io.ReadAll(r)
	if err != nil || strings.Count(string(rest), "word") != 4 || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%q %v", rest, err)
	}
}

func TestAClientThatLeavesStopsTheEngineThroughTheTunnel(t *testing.T) {
	stopped := make(chan struct{})
	tn := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		say(w, word(1))
		<-r.Context().Done()
		close(stopped)
	})
	tn.ready()
	ctx, leave := context.WithCancel(t.Context())
	tn.stream(ctx)
	leave()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second): // generous; the aim is a hundredth of it
		t.Error("the engine works on for a client that left")
	}
}

// cutShort checks that a stream ends as one that was not whole: an error event, no
// [DONE], and no end in order.
func (tn *town) cutShort(r io.Reader) {
	tn.Helper()
	rest, err := io.ReadAll(r)
	if err == nil || strings.Contains(string(rest), "[DONE]") || !strings.Contains(string(rest), `"error"`) {
		tn.Errorf("the broken stream ends with %q, %v", rest, err)
	}
}

func TestABrokenTunnelFailsItsRequestsAndComesBack(t *testing.T) {
	var once sync.Once
	tn := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		say(w, word(1))
		once.Do(func() { <-r.Context().Done() })
		say(w, "[DONE]")
	})
	tn.ready()
	_, broken := tn.stream(t.Context())
	tn.network.Cut()
	tn.cutShort(broken)
	resp, err := tn.ask(t.Context(), wholeAnswer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || err != nil || resp.Header.Get("Retry-After") == "" {
		t.Errorf("without a tunnel: %s %v %s", resp.Status, resp.Header, body)
	}
	tn.network.Mend()
	tn.ready()
	_, whole := tn.stream(t.Context())
	if rest, err := io.ReadAll(whole); err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("after it came back: %q %v", rest, err)
	}
	tn.eventually("the ledger has the broken answer", func() bool {
		tn.mu.Lock()
		defer tn.mu.Unlock()
		for _, row := range tn.rows {
			if strings.Contains(row.Flags, factory.FlagTruncated) && row.CompletionTokens == 1 {
				return true
			}
		}
		return false
	})
}

func TestAnEngineThatDiesBehindATunnelCutsItsStreamsOnly(t *testing.T) {
	die, finish := make(chan struct{}), make(chan struct{})
	var first sync.Once
	tn := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		dies := false
		first.Do(func() { dies = true })
		say(w, word(1))
		if dies {
			<-die
			panic(http.ErrAbortHandler)
		}
		<-finish
		say(w, "[DONE]")
	})
	tn.ready()
	_, dying := tn.stream(t.Context())
	_, other := tn.stream(t.Context())
	close(die)
	tn.cutShort(dying)
	close(finish)
	if rest, err := io.ReadAll(other); err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("another stream: %q %v", rest, err)
	}
}

// The server must not be able to use an agent to look around in its network.
func TestAnAgentConnectsToItsOwnReplicasOnly(t *testing.T) {
	tn := newTown(t, func(http.ResponseWriter, *http.Request) {})
	tn.ready()
	for _, id := range []string{"another", "127.0.0.1:22", tn.engine.URL, "../r", "r\x00"} {
		if c, err := tn.tunnels.DialReplica(t.Context(), tn.node.ID, id); err == nil {
			c.Close()
			t.Errorf("%q was connected", id)
		} else if !strings.Contains(err.Error(), "no engine of this replica") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestARemovedMachineIsReachedNoMore(t *testing.T) {
	tn := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		say(w, word(1))
		<-r.Context().Done()
	})
	tn.ready()
	_, open := tn.stream(t.Context())
	tn.mu.Lock()
	id := tn.node.ID
	tn.node.CredentialHash = "none"
	tn.mu.Unlock()
	removed := time.Now()
	tn.cutShort(open)
	if d := time.Since(removed); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
	tn.eventually("it is reached no more", func() bool { // it had several tunnels, ended one by one
		c, err := tn.tunnels.DialReplica(t.Context(), id, "r")
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	tn.eventually("its agent says why", func() bool { return strings.Contains(tn.log.String(), "not known here") })
}

func TestAnAgentBehindARouterIsAdvisedToUseATunnel(t *testing.T) {
	for what, c := range map[string]struct {
		agent *Agent
		host  string
		warns bool
	}{
		"a router between":      {&Agent{seenFrom: "198.51.100.7"}, "192.168.1.20", true},
		"none":                  {&Agent{seenFrom: "192.168.1.20"}, "192.168.1.20", false},
		"the same, as IPv6":     {&Agent{seenFrom: "192.168.1.20"}, "::ffff:192.168.1.20", false},
		"a proxy at the server": {&Agent{seenFrom: "127.0.0.1"}, "192.168.1.20", false},
		"an older server":       {&Agent{}, "192.168.1.20", false},
		"an address was given":  {&Agent{seenFrom: "198.51.100.7", Advertise: "192.168.1.20"}, "192.168.1.20", false},
		"a tunnel":              {&Agent{seenFrom: "198.51.100.7", Tunnel: true}, "127.0.0.1", false},
	} {
		if w := c.agent.unreachable(c.host); (w != "") != c.warns || (c.warns && !strings.Contains(w, "--tunnel")) {
			t.Errorf("%s: %q", what, w)
		}
	}
}
