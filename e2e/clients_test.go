package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// clientSetup is what a program needs to know to use the factory.
type clientSetup struct {
	Base  string            `json:"base"`
	Model string            `json:"model"`
	User  string            `json:"user"` // sent along, to know the client's requests by
	Keys  map[string]string `json:"keys"`
	Full  int64             `json:"full"` // milliseconds since 1970; see openai_cases.mjs
}

// clientReport is what an official client made of the factory's answers.
type clientReport struct {
	Models struct {
		IDs       []string `json:"ids"`
		Retrieved string
	}
	Plain, Streamed, Counted textReport
	Tool                     toolReport
	StreamedTool             toolReport `json:"streamed_tool"`
	Schema                   string
	Probe                    struct {
		Status              int
		Type, Code, Message string
		Called              string
		Took                float64 // milliseconds
		Tries               int
	}
	Cancelled struct {
		ID     string
		Tokens int64
		At     int64 // milliseconds since 1970
	}
	Broken struct {
		ID, Error string
		Tokens    int64
	}
	Concurrency, Rate retriedReport
	Quota             struct {
		Status     int
		Type, Code string
		Statuses   []int
	}
	Embeddings struct {
		Vector []float32
		Prompt int64
	}
}

// textReport is an answer in words; usages counts how often it came with usage.
type textReport struct {
	ID, Model, Text, Reason, Unknown string
	Prompt, Completion               int64
	Usages, Chunks                   int
}

// toolReport is a call of a tool as a client put it together, and the text that
// came for the tool's result.
type toolReport struct {
	Calls                             int
	ID, Name, Arguments, Reason, Text string
}

// retriedReport has the status of every answer that one call took.
type retriedReport struct {
	Statuses []int
	Text     string
}

// clientKeys are the keys that one client uses: one without limits, one for a
// request at a time, one for a request a minute, and one whose money is gone.
const clientKeys = `
kind: key
name: app-%[1]s
spec: {tenant: acme}
---
kind: key
name: single-%[1]s
spec: {tenant: acme, concurrent_requests: 1}
---
kind: key
name: slow-%[1]s
spec: {tenant: acme, requests_per_minute: 1}
---
kind: key
name: poor-%[1]s
spec: {tenant: acme, budget: "0.00004", budget_period: month}
`

// The official clients do with the factory what they do with the service that they
// were made for.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	engine := newStub(t)
	h, _ := watching(t, "", "sim", engine)
	for name, client := range map[string]func(*testing.T, clientSetup) clientReport{"node": nodeClient, "go": goClient} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup := clientSetup{Base: h.base + "/v1", Model: smallModel, User: name, Keys: map[string]string{}}
			made := h.apply(fmt.Sprintf(clientKeys, name))
			for _, key := range []string{"app", "single", "slow", "poor"} {
				setup.Keys[key] = secret(t, made, "key", key+"-"+name, "key")
			}
			if status, code, _ := h.refusal(setup.Keys["slow"], hello); status != http.StatusOK {
				t.Fatalf("the first request of a minute is answered %d %s", status, code)
			}
			status, code, header := h.refusal(setup.Keys["slow"], hello)
			wait, err := time.ParseDuration(header.Get("Retry-After") + "s")
			if status != http.StatusTooManyRequests || code != "rate_limit_exceeded" || err != nil || wait < 30*time.Second || wait > time.Minute || header.Get("X-Should-Retry") != "" {
				t.Fatalf("the second request of a minute is answered %d %s, %v", status, code, header)
			}
			// The client comes shortly before its time, is told how long, and waits that long.
			setup.Full = time.Now().Add(wait - 8*time.Second).UnixMilli()
			before := spend(t, h, setup.Keys["poor"])
			h.wait("what the key spent is booked", func() bool { return h.requestsOf("poor-"+name) == before })

			r := client(t, setup)
			r.check(t)
			if after := h.requestsOf("poor-" + name); after != before {
				t.Errorf("a key without money had %d ledger rows and has %d", before, after)
			}
			checkEngine(t, engine, name, r)
			h.checkBooked(t, r)
		})
	}
}

func (h *house) requestsOf(key string) (n int) {
	h.t.Helper()
	for _, r := range h.ledger() {
		if r.Key == key {
			n++
		}
	}
	return n
}

func nodeClient(t *testing.T, setup clientSetup) (r clientReport) {
	t.Helper()
	argument, err := json.Marshal(setup)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "node", "openai_cases.mjs", string(argument)).Output()
	if err != nil {
		t.Fatalf("the client for Node: %v\n%s", err, stderrOf(err))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// check compares what the client understood with what the engine said.
func (r clientReport) check(t *testing.T) {
	t.Helper()
	if fmt.Sprint(r.Models.IDs) != "["+smallModel+"]" || r.Models.Retrieved != smallModel {
		t.Errorf("models: %+v", r.Models)
	}
	if p := r.Plain; p.Text != valveText || p.Reason != "stop" || p.Model != smallModel || (seen{p.Prompt, p.Completion}) != valvesUsed || p.Unknown != `{"k":[1,2]}` {
		t.Errorf("plain: %+v", p)
	}
	// A role, the words, an end; usage on one more chunk, for who asked.
	if s := r.Streamed; s.Text != valveText || s.Reason != "stop" || s.Model != smallModel || s.Usages != 0 || s.Chunks != len(valveWords)+2 {
		t.Errorf("streamed: %+v", s)
	}
	if s := r.Counted; s.Text != valveText || s.Usages != 1 || s.Chunks != len(valveWords)+3 || (seen{s.Prompt, s.Completion}) != valvesUsed {
		t.Errorf("streamed with usage: %+v", s)
	}
	want := toolReport{1, "call_7f", "get_weather", `{"city": "Paris", "unit": "C"}`, "tool_calls", afterTool}
	if r.Tool != want {
		t.Errorf("tool: %+v", r.Tool)
	}
	if r.StreamedTool != want {
		t.Errorf("streamed tool: %+v", r.StreamedTool)
	}
	if r.Schema != schemaText {
		t.Errorf("schema: %s", r.Schema)
	}
	// An engine without the Responses API: at once, in words, and not tried again.
	if p := r.Probe; p.Status != http.StatusNotFound || p.Type == "" || p.Code == "" || p.Message == "" || p.Tries != 1 || p.Took > 4500 || p.Called != "get_weather" {
		t.Errorf("probe: %+v", p)
	}
	if r.Cancelled.Tokens != 5 {
		t.Errorf("cancelled: %+v", r.Cancelled)
	}
	// A stream that broke off is never taken for a whole one.
	if r.Broken.Tokens != 3 || r.Broken.Error == "" {
		t.Errorf("broken: %+v", r.Broken)
	}
	// The stream, a refusal, and as many more as the engine's last words take.
	if c := r.Concurrency; c.Text != valveText || !slices.Contains(c.Statuses, http.StatusTooManyRequests) {
		t.Errorf("concurrency: %+v", c)
	}
	// Told the truth about how long it takes, one refusal is enough.
	if c := r.Rate; c.Text != valveText || !slices.Equal(c.Statuses, []int{429, 200}) {
		t.Errorf("rate: %+v", c)
	}
	if q := r.Quota; q.Status != http.StatusTooManyRequests || q.Code != "insufficient_quota" || q.Type != "insufficient_quota" || !slices.Equal(q.Statuses, []int{429}) {
		t.Errorf("quota: %+v", q)
	}
	if !slices.Equal(r.Embeddings.Vector, embedded) || r.Embeddings.Prompt != embedsUsed.prompt {
		t.Errorf("embeddings: %+v", r.Embeddings)
	}
}

// checkEngine looks at what came out on the other side.
func checkEngine(t *testing.T, engine *stub, user string, r clientReport) {
	t.Helper()
	left := func() []askedOfStub { return engine.requests(`"user":"` + user + `"`) }
	waitFor(t, patience, "the engine is told that its client has left", func() bool {
		return len(left()) == 1 && !left()[0].cancelled.IsZero()
	})
	late := left()[0].cancelled.Sub(time.UnixMilli(r.Cancelled.At))
	if late > 5*time.Second {
		t.Errorf("the engine was told %s after its client had left", late)
	}
	t.Logf("the engine was told %s after its client had left", late)
	for _, a := range engine.requests("") {
		if a.header.Get("Authorization") != "" {
			t.Errorf("the engine was given the key of %s", a.path)
		}
		if strings.Contains(a.path, "responses") {
			t.Error("the engine was asked for what it does not have")
		}
	}
	for _, a := range engine.requests(askTool) {
		if !strings.Contains(a.body, `"name":"get_weather"`) || !strings.Contains(a.body, `"tool_choice"`) && !strings.Contains(a.body, `"tool_call_id"`) {
			t.Errorf("the tools did not reach the engine: %s", a.body)
		}
	}
}

// checkBooked compares the ledger with what the client was told.
func (h *house) checkBooked(t *testing.T, r clientReport) {
	t.Helper()
	var rows map[string]ledgerRow
	h.wait("the client's requests are booked", func() bool {
		rows = map[string]ledgerRow{}
		for _, row := range h.ledger() {
			rows[row.ID] = row
		}
		_, plain := rows[r.Plain.ID]
		_, streamed := rows[r.Streamed.ID]
		_, cancelled := rows[r.Cancelled.ID]
		_, broken := rows[r.Broken.ID]
		return plain && streamed && cancelled && broken
	})
	for _, id := range []string{r.Plain.ID, r.Streamed.ID, r.Counted.ID} {
		if row := rows[id]; (seen{row.PromptTokens, row.CompletionTokens}) != valvesUsed || row.Flags != "" || row.Status != http.StatusOK {
			t.Errorf("booked as %+v", row)
		}
	}
	if row := rows[r.Broken.ID]; row.Flags != "truncated" || row.PromptTokens != 11 || row.CompletionTokens != 3 {
		t.Errorf("a stream that broke off after 3 tokens is booked as %+v", row)
	}
	// The engine counts as it goes, so what a client left is booked to the token: those
	// it saw, and what was on the wire when it left.
	row := rows[r.Cancelled.ID]
	if row.Flags != "aborted" || row.PromptTokens != 11 || row.CompletionTokens < r.Cancelled.Tokens || row.CompletionTokens > r.Cancelled.Tokens+1000 {
		t.Errorf("a stream that was left after %d tokens is booked as %+v", r.Cancelled.Tokens, row)
	}
}
