// Package e2e runs the real binaries, in a real browser and against official
// clients. It also keeps the import map.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take on a busy machine before a test gives up.
const patience = 60 * time.Second

// Most tests wait most of the time, so more of them run beside each other than there
// are cores, unless the command line says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// binary finds a program that `make build` made, or one in the folder that TEST_BIN
// names.
func binary(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("TEST_BIN")
	if folder == "" {
		folder = filepath.Join("..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built; run make build first", name)
	}
	return path
}

// house is a running factory: one `tokenfactory serve` and the agents that a test starts.
type house struct {
	t        *testing.T
	base     string // http://127.0.0.1:port
	data     string
	database string // empty: SQLite
	token    string // management
	serve    *process
}

// process is a child whose output is kept for the failure message.
type process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it has ended
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func start(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), out: &output{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Engines that outlive a killed agent keep our pipe open; do not wait for them.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is visible in its output
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(path), tail(p.out.String(), 60))
		}
	})
	return p
}

// stop ends the process as an operator would, and by force when that takes too long.
func (p *process) stop() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

var givenPorts sync.Map

// freePort is a port that nobody listens on and no outgoing connection takes for its
// own end: a server that is killed finds it free when it comes back.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(10000)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		ln.Close()
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// newHouse starts a factory on an empty data folder. database is a postgres
// address, or empty for SQLite.
func newHouse(t *testing.T, database string) *house {
	t.Helper()
	return newHouseIn(t, t.TempDir(), database)
}

func newHouseIn(t *testing.T, data, database string) *house {
	t.Helper()
	h := &house{t: t, data: data, database: database, base: fmt.Sprintf("http://127.0.0.1:%d", freePort(t))}
	h.startServe()
	h.token = strings.TrimSpace(h.run("admin", append([]string{"token", "--data", h.data}, h.databaseArgs()...)...))
	return h
}

func (h *house) databaseArgs() []string {
	if h.database == "" {
		return nil
	}
	return []string{"--database-url", h.database}
}

// startServe starts, or starts again, the server and waits until it answers.
func (h *house) startServe() {
	h.t.Helper()
	h.serve = h.tryServe()
	h.wait("the server answers", h.answers)
}

// tryServe starts a server that may not stay.
func (h *house) tryServe() *process {
	h.t.Helper()
	args := append([]string{"serve", "--listen", strings.TrimPrefix(h.base, "http://"), "--data", h.data}, h.databaseArgs()...)
	return start(h.t, nil, binary(h.t, "tokenfactory"), args...)
}

// answers tells whether somebody answers at the server's address.
func (h *house) answers() bool {
	resp, err := http.Get(h.base + "/signin")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode < 500
}

// run runs a subcommand of the binary to its end and returns what it printed.
func (h *house) run(command string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(binary(h.t, "tokenfactory"), append([]string{command}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("tokenfactory %s: %v\n%s", command, err, stderr.String())
	}
	return string(out)
}

// result is one line of what `apply --json` prints.
type result struct {
	Kind, Name, Result string
	Secrets            map[string]string
}

func (h *house) apply(documents string) []result {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "documents.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		h.t.Fatal(err)
	}
	var out struct{ Results []result }
	if err := json.Unmarshal([]byte(h.run("apply", "-f", file, "--server", h.base, "--token", h.token, "--json")), &out); err != nil {
		h.t.Fatal(err)
	}
	return out.Results
}

// secret finds a secret that an apply made.
func secret(t *testing.T, results []result, kind, name, which string) string {
	t.Helper()
	for _, r := range results {
		if r.Kind == kind && r.Name == name && r.Secrets[which] != "" {
			return r.Secrets[which]
		}
	}
	t.Fatalf("no %s of %s %s among %v", which, kind, name, results)
	return ""
}

// startAgent starts a real agent in its own data folder.
func (h *house) startAgent(join string, more ...string) *process {
	h.t.Helper()
	args := append([]string{"--server", h.base, "--token", join, "--data", h.t.TempDir(), "--runtime", "process"}, more...)
	return start(h.t, nil, binary(h.t, "tokenfactory-agent"), args...)
}

func (h *house) wait(what string, done func() bool) {
	h.t.Helper()
	waitFor(h.t, patience, what, done)
}

func waitFor(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up after %s waiting until %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// get reads JSON from the management API.
func (h *house) get(path string, into any) {
	h.t.Helper()
	if err := h.tryGet(path, into); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) tryGet(path string, into any) error {
	req, err := http.NewRequest(http.MethodGet, h.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, resp.Status, body)
	}
	return json.Unmarshal(body, into)
}

// ledgerRow is what the tests read of a row of GET /api/v1/requests.
type ledgerRow struct {
	ID               string
	Key              string
	Status           int
	Flags            string
	Endpoint         string
	ModelAsked       string `json:"model_asked"`
	ModelServed      string `json:"model_served"`
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`

	// In milliseconds; nil where there is none.
	Queue *float64 `json:"queue_ms"`
	TTFT  *float64 `json:"ttft_ms"`
	E2E   *float64 `json:"e2e_ms"`
}

// ledger reads every row, page by page.
func (h *house) ledger() []ledgerRow {
	h.t.Helper()
	var rows []ledgerRow
	cursor := ""
	for {
		var page struct {
			Rows []ledgerRow
			Next string
		}
		h.get("/api/v1/requests?limit=500&cursor="+cursor, &page)
		rows = append(rows, page.Rows...)
		if page.Next == "" {
			return rows
		}
		cursor = page.Next
	}
}

// chat sends one chat request and returns the answer's body and request id; it
// fails unless the whole answer arrived.
func chat(ctx context.Context, base, key, body string) (answer, requestID string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", "", err
	}
	if resp.StatusCode != http.StatusOK {
		return string(b), resp.Header.Get("x-request-id"), fmt.Errorf("%s: %s", resp.Status, b)
	}
	return string(b), resp.Header.Get("x-request-id"), nil
}
