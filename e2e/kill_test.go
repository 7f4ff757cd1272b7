package e2e

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// oneEngine is the least factory that serves: one machine, one practice engine,
// one tenant with a key. Prices make mistakes in tokens visible in money.
const oneEngine = `
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
  engine_args: ["--ttft=20ms", "--itl=3ms", "--max-seqs=64"]
  gpu_count: 0
  replicas: 1
  prefix_caching: true
  workload: interactive
  input_price: "0.15"
  output_price: "0.60"
  shared_with_all: true
`

const smallModel = "Qwen/Qwen2-0.5B-Instruct"

// serving starts a house with oneEngine and waits for a first answer.
func serving(t *testing.T, database string) (h *house, key string, agent *process) {
	t.Helper()
	h = newHouse(t, database)
	made := h.apply(oneEngine)
	key = secret(t, made, "key", "app", "key")
	agent = h.startAgent(secret(t, made, "cluster", "bench", "join_token"))
	h.wait("the engine serves", func() bool {
		_, _, err := chat(context.Background(), h.base, key, `{"model":"`+smallModel+`","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`)
		return err == nil
	})
	return h, key, agent
}

// seen is what a client knows of an answer that reached it whole.
type seen struct {
	prompt, completion int64
}

// usageOf reads the usage from a plain answer, or from the last event that has one.
func usageOf(answer string) (seen, bool) {
	var body struct {
		Usage *struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		}
	}
	if json.Unmarshal([]byte(answer), &body) == nil && body.Usage != nil {
		return seen{body.Usage.Prompt, body.Usage.Completion}, true
	}
	if !strings.Contains(answer, "data: [DONE]") {
		return seen{}, false
	}
	var found seen
	ok := false
	for line := range strings.Lines(answer) {
		data, isData := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !isData || json.Unmarshal([]byte(data), &body) != nil || body.Usage == nil {
			continue
		}
		found, ok = seen{body.Usage.Prompt, body.Usage.Completion}, true
		body.Usage = nil
	}
	return found, ok
}

// What a client received whole is in the ledger, once and with the tokens that
// the client was told, however often the server is killed.
func TestKilledServerLosesAndDoublesNothing(t *testing.T) {
	const rounds, clients = 20, 6
	h, key, _ := serving(t, "")

	var mu sync.Mutex
	whole := map[string]seen{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				options := ``
				if rnd.IntN(3) > 0 {
					options = `,"stream":true,"stream_options":{"include_usage":true}`
				}
				body := `{"model":"` + smallModel + `","max_tokens":` + []string{"1", "5", "20", "60"}[rnd.IntN(4)] + options +
					`,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 1+rnd.IntN(40)) + `"}]}`
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				answer, id, err := chat(ctx, h.base, key, body)
				cancel()
				if err != nil {
					time.Sleep(20 * time.Millisecond) // the server is away; do not spin
					continue
				}
				if u, ok := usageOf(answer); ok {
					mu.Lock()
					whole[id] = u
					mu.Unlock()
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(2, 0))
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(whole) }
	for range rounds {
		before := count()
		h.wait("traffic flows", func() bool { return count() > before+10 })
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		h.serve.kill()
		h.startServe()
	}
	close(stop)
	wg.Wait()

	var rows map[string]ledgerRow
	missing := func() (ids []string) {
		for id := range whole {
			if _, ok := rows[id]; !ok {
				ids = append(ids, id)
			}
		}
		return ids
	}
	h.wait("the ledger has every answer", func() bool {
		rows = map[string]ledgerRow{}
		for _, r := range h.ledger() {
			if _, twice := rows[r.ID]; twice {
				t.Fatalf("request %s is in the ledger twice", r.ID)
			}
			rows[r.ID] = r
		}
		return len(missing()) == 0
	})
	for id, u := range whole {
		if r := rows[id]; r.PromptTokens != u.prompt || r.CompletionTokens != u.completion {
			t.Errorf("request %s: ledger has %d/%d tokens, the client was told %d/%d", id, r.PromptTokens, r.CompletionTokens, u.prompt, u.completion)
		}
	}
	if len(whole) < rounds*10 {
		t.Fatalf("only %d answers arrived whole: the test did not put the server under load", len(whole))
	}
	t.Logf("%d whole answers over %d kills, %d ledger rows", len(whole), rounds, len(rows))

	// The roll-ups that the usage page reads say the same as the rows.
	var usage struct {
		Total struct {
			Requests         int64
			PromptTokens     int64 `json:"prompt_tokens"`
			CompletionTokens int64 `json:"completion_tokens"`
		}
	}
	var prompt, completion int64
	for _, r := range rows {
		prompt += r.PromptTokens
		completion += r.CompletionTokens
	}
	h.get("/api/v1/usage?group=day", &usage)
	if usage.Total.Requests != int64(len(rows)) || usage.Total.PromptTokens != prompt || usage.Total.CompletionTokens != completion {
		t.Errorf("usage total %+v, rows add up to %d requests, %d/%d tokens", usage.Total, len(rows), prompt, completion)
	}
}
