package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// watched is a factory whose only engine was there before: the agent watches it.
const watched = `
kind: cluster
name: bench
---
kind: endpoint
name: front
spec: {cluster: bench}
---
kind: provider
name: qwen
---
kind: model
name: small
spec: {provider: qwen, source: huggingface, location: Qwen/Qwen2-0.5B-Instruct, context_length: 32768}
---
kind: tenant
name: acme
---
kind: key
name: app
spec: {tenant: acme}
---
kind: deployment
name: small
spec:
  model: small
  endpoint: front
  engine: sim
  address: %s
  gpu_count: 0
  replicas: 1
  prefix_caching: true
  workload: interactive
  free: true
  shared_with_all: true
`

// engineTokens reads the engine's own counters.
func engineTokens(t *testing.T, engine string) (prompt, generation int64) {
	t.Helper()
	resp, err := http.Get(engine + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, "vllm:prompt_tokens_total"):
			prompt += int64(n)
		case strings.HasPrefix(name, "vllm:generation_tokens_total"):
			generation += int64(n)
		}
	}
	return prompt, generation
}

// The ledger holds what the engine says it did: to the token for answers that
// ended, and for a stream that its client left, no less than the client got and
// no more than the engine made.
func TestLedgerEqualsWhatTheEngineReports(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	engine := fmt.Sprintf("http://127.0.0.1:%d", port)
	start(t, nil, binary(t, "tokenfactory"), "sim-engine", "--listen", strings.TrimPrefix(engine, "http://"),
		"--model", smallModel, "--ttft", "15ms", "--itl", "5ms", "--tokens-per-event", "3")
	h := newHouse(t, "")
	made := h.apply(fmt.Sprintf(watched, engine))
	key := secret(t, made, "key", "app", "key")
	agent := h.startAgent(secret(t, made, "cluster", "bench", "join_token"))

	request := func(i int, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`,
			smallModel, stream, 3+7*i, strings.Repeat("word ", 5+i))
	}
	h.wait("the watched engine serves", func() bool {
		_, _, err := chat(context.Background(), h.base, key, request(0, false))
		return err == nil
	})
	// Requests that came before the engine was ready are in the ledger as failed.
	answered := func() (rows []ledgerRow) {
		for _, r := range h.ledger() {
			if r.Status == http.StatusOK || r.Status == 499 {
				rows = append(rows, r)
			}
		}
		return rows
	}
	sum := func() (prompt, completion int64, rows int) {
		for _, r := range answered() {
			prompt += r.PromptTokens
			completion += r.CompletionTokens
			rows++
		}
		return
	}
	// Readiness took tokens of its own; what counts is what comes after.
	h.wait("the first answer is booked", func() bool { return len(answered()) == 1 })
	const settled = 1
	prompt0, generation0 := engineTokens(t, engine)
	before, completionBefore, _ := sum()

	const each = 15
	for i := range each {
		for _, stream := range []bool{true, false} {
			if _, _, err := chat(context.Background(), h.base, key, request(i, stream)); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.wait("every answer is booked", func() bool { _, _, n := sum(); return n >= settled+2*each })
	prompt1, generation1 := engineTokens(t, engine)
	prompt, completion, _ := sum()
	if prompt-before != prompt1-prompt0 || completion-completionBefore != generation1-generation0 {
		t.Errorf("ledger grew by %d/%d tokens, the engine's counters by %d/%d",
			prompt-before, completion-completionBefore, prompt1-prompt0, generation1-generation0)
	}

	// Streams whose client leaves.
	const leaving = 8
	var got int64
	for range leaving {
		got += leave(t, h.base, key, 4)
	}
	h.wait("streams that were left are booked", func() bool { _, _, n := sum(); return n >= settled+2*each+leaving })
	_, generation2 := engineTokens(t, engine)
	_, completionAfter, _ := sum()
	if booked, generated := completionAfter-completion, generation2-generation1; booked < got || booked > generated {
		t.Errorf("%d tokens booked for streams that were left; clients got %d, the engine made %d", booked, got, generated)
	}
	aborted := 0
	for _, r := range answered() {
		if strings.Contains(r.Flags, "aborted") {
			aborted++
			if strings.Contains(r.Flags, "estimated") {
				t.Errorf("row %s of a stream that was left is an estimate: %+v", r.ID, r)
			}
		}
	}
	if aborted != leaving {
		t.Errorf("%d rows say aborted, %d clients left", aborted, leaving)
	}

	// The engine was there before the agent and is there after it.
	agent.stop()
	if _, err := http.Get(engine + "/health"); err != nil {
		t.Errorf("the agent stopped an engine that it only watched: %v", err)
	}
}

// leave opens a stream, reads some token events and hangs up. It returns the
// tokens that it was sent: one in the first event of this engine, then three in each.
func leave(t *testing.T, base, key string, events int) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":400,"messages":[{"role":"user","content":"hello"}]}`, smallModel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for n := 0; n < events; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d events: %v", n, err)
		}
		if strings.Contains(line, `"content":"`) && !strings.Contains(line, `"content":""`) {
			n++
		}
	}
	return int64(1 + 3*(events-1))
}

// Applying the same documents again changes nothing, and a mistake in one of
// them keeps all of them out.
func TestApplyIsIdempotentAndAllOrNothing(t *testing.T) {
	h := newHouse(t, "")
	for _, r := range h.apply(oneEngine) {
		if r.Result != "created" {
			t.Errorf("first time: %+v", r)
		}
	}
	for _, r := range h.apply(oneEngine) {
		if r.Result != "unchanged" || len(r.Secrets) > 0 {
			t.Errorf("second time: %+v", r)
		}
	}
	for _, r := range h.apply(strings.Replace(oneEngine, `output_price: "0.60"`, `output_price: "0.80"`, 1)) {
		want := "unchanged"
		if r.Kind == "deployment" {
			want = "changed"
		}
		if r.Result != want {
			t.Errorf("with another price: %+v", r)
		}
	}
	wrong := "kind: tenant\nname: newcomer\n---\nkind: tenant\nname: other\nspec: {colour: blue}\n"
	file := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, binary(t, "tokenfactory"), "apply", "-f", file, "--server", h.base, "--token", h.token)
	<-p.done
	if p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(p.out.String(), "colour") {
		t.Errorf("exit %d, said: %s", p.cmd.ProcessState.ExitCode(), p.out)
	}
	for _, r := range h.apply("kind: tenant\nname: newcomer\n") {
		if r.Result != "created" {
			t.Errorf("the refused list left a tenant behind: %+v", r)
		}
	}
}
