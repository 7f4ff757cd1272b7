//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// everythingOn is what an operator applies before an engine that already runs. Every
// kind of limit is in force, so that each request is counted against it, and none is
// ever reached.
const everythingOn = `
kind: cluster
name: bench
---
kind: endpoint
name: front
spec: {cluster: bench}
---
kind: provider
name: bench
---
kind: model
name: bench
spec: {provider: bench, source: huggingface, location: ` + modelName + `, context_length: 32768}
---
kind: tenant
name: bench
spec: {requests_per_minute: 10000000}
---
kind: key
name: bench
spec:
  tenant: bench
  requests_per_minute: 10000000
  tokens_per_minute: 1000000000
  input_tokens_per_minute: 1000000000
  output_tokens_per_minute: 1000000000
  concurrent_requests: 100000
  budget: "100000000000"
  budget_period: month
---
kind: deployment
name: bench
spec:
  model: bench
  endpoint: front
  engine: sim
  address: http://127.0.0.1:%d
  gpu_count: 0
  replicas: 1
  prefix_caching: true
  workload: interactive
  input_price: "0.15"
  cached_input_price: "0.03"
  output_price: "0.60"
  shared_with_all: true
`

// house is the product as an operator sets it up: server, agent, deployment and key.
type house struct {
	base   string
	port   int
	token  string // of management
	key    string
	server *process
	agent  *process
}

// newHouse starts the programs that lie in a folder and waits for a first answer.
func newHouse(dir, programs string, engine int, extra []string) (h *house, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	h = &house{port: port, base: fmt.Sprintf("http://127.0.0.1:%d", port)}
	defer func() {
		if err != nil {
			h.stop()
		}
	}()
	program, err := filepath.Abs(filepath.Join(programs, "tokenfactory"))
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	args := append([]string{"--log-level=warn", "serve", "--listen", strings.TrimPrefix(h.base, "http://"), "--data", data}, extra...)
	if h.server, err = start(dir, "tokenfactory", nil, program, args...); err != nil {
		return h, err
	}
	if err = h.server.listening(port); err != nil {
		return h, err
	}
	token, err := exec.Command(program, "admin", "token", "--data", data).Output()
	if err != nil {
		return h, fmt.Errorf("make a management token: %w", err)
	}
	h.token = strings.TrimSpace(string(token))

	documents := filepath.Join(dir, "everything.yaml")
	if err = os.WriteFile(documents, fmt.Appendf(nil, everythingOn, engine), 0o600); err != nil {
		return h, err
	}
	apply := exec.Command(program, "apply", "-f", documents, "--server", h.base, "--json")
	apply.Env = append(os.Environ(), "TOKENFACTORY_TOKEN="+h.token)
	made, err := apply.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return h, fmt.Errorf("apply: %w", err)
	}
	var results struct {
		Results []struct {
			Kind    string
			Secrets map[string]string
		}
	}
	if err = json.Unmarshal(made, &results); err != nil {
		return h, err
	}
	join := ""
	for _, r := range results.Results {
		switch r.Kind {
		case "cluster":
			join = r.Secrets["join_token"]
		case "key":
			h.key = r.Secrets["key"]
		}
	}
	h.agent, err = start(dir, "agent", []string{"TOKENFACTORY_JOIN_TOKEN=" + join}, program+"-agent",
		"--server", h.base, "--data", filepath.Join(dir, "agent"), "--advertise", "127.0.0.1")
	if err != nil {
		return h, err
	}
	return h, h.serves()
}

// serves waits until a request is answered.
func (h *house) serves() error {
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		out, err := load{port: h.port, request: chat(h.key, plainBody), conns: 1, each: 1, patience: 5 * time.Second}.run()
		if err == nil && out.requests == 1 {
			return nil
		}
		if last = err; err == nil {
			last = out.failure
		}
	}
	return h.agent.failure(fmt.Errorf("the gateway does not serve the engine: %w", last))
}

func (h *house) stop() {
	for _, p := range []*process{h.agent, h.server} {
		if p != nil {
			p.stop()
		}
	}
}

// ledger is what the ledger holds, as the usage API tells it.
type ledger struct {
	Requests         int64 `json:"requests"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Estimated        int64 `json:"estimated"`
	Aborted          int64 `json:"aborted"`
}

func (h *house) ledger() (ledger, error) {
	var answer struct{ Total ledger }
	now := time.Now().UTC()
	q := "?from=" + now.AddDate(0, 0, -1).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 1).Format(time.DateOnly)
	req, err := http.NewRequest(http.MethodGet, h.base+"/api/v1/usage"+q, nil)
	if err != nil {
		return ledger{}, err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ledger{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ledger{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return ledger{}, fmt.Errorf("the usage API answers %s: %.300s", resp.Status, text)
	}
	return answer.Total, json.Unmarshal(text, &answer)
}

// metered waits until the ledger has exactly what was answered since before: proof
// that nothing was switched off while it was measured.
func (h *house) metered(before ledger, answers int, tokens int) (time.Duration, error) {
	want := ledger{
		Requests:         before.Requests + int64(answers),
		PromptTokens:     before.PromptTokens + int64(answers)*promptTokens,
		CompletionTokens: before.CompletionTokens + int64(answers)*int64(tokens),
		Estimated:        before.Estimated,
		Aborted:          before.Aborted,
	}
	begun := time.Now()
	for {
		got, err := h.ledger()
		if err == nil && got == want {
			return time.Since(begun), nil
		}
		if time.Since(begun) > 20*time.Second {
			return 0, errors.Join(err, fmt.Errorf("the ledger is not exact: it has %+v and should have %+v", got, want))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
