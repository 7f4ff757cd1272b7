package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
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
	return servingIn(t, t.TempDir(), database)
}

func servingIn(t *testing.T, data, database string) (h *house, key string, agent *process) {
	t.Helper()
	h = newHouseIn(t, data, database)
	made := h.apply(oneEngine)
	key = secret(t, made, "key", "app", "key")
	agent = h.startAgent(secret(t, made, "cluster", "bench", "join_token"))
	h.wait("the engine serves", func() bool {
		_, _, err := chat(context.Background(), h.base, key, hello)
		return err == nil
	})
	return h, key, agent
}

// limitedKeys are more keys of oneEngine's tenant: one with every limit that there
// is, all of them out of reach; one whose money is soon spent; and one that spends its
// money while it is under load.
const limitedKeys = `
kind: key
name: limited
spec:
  tenant: acme
  requests_per_minute: 1000000
  tokens_per_minute: 900000000
  input_tokens_per_minute: 900000000
  output_tokens_per_minute: 900000000
  concurrent_requests: 1000
  budget: "1000"
  budget_period: month
---
kind: key
name: poor
spec: {tenant: acme, budget: "0.00005"}
---
kind: key
name: thrifty
spec: {tenant: acme, budget: "0.001"}
`

func TestKilledServerLosesAndDoublesNothingOnSQLite(t *testing.T) { killed(t, "", 50) }

func TestKilledServerLosesAndDoublesNothingOnPostgreSQL(t *testing.T) {
	killed(t, newDatabase(t), 20)
}

// What a client received whole is in the ledger, once and with the tokens that
// the client was told, however often the server is killed; and a budget knows
// after every restart what was spent before it, and is never overspent.
func killed(t *testing.T, database string, kills int) {
	t.Parallel()
	h, _, _ := serving(t, database)
	made := h.apply(limitedKeys)
	poor := secret(t, made, "key", "poor", "key")
	spend(t, h, poor)
	l := h.load(5, secret(t, made, "key", "limited", "key"), 0)
	thrifty := h.load(2, secret(t, made, "key", "thrifty", "key"), 0)

	rnd := rand.New(rand.NewPCG(2, 0))
	for range kills {
		before := l.answers()
		h.wait("traffic flows", func() bool { return l.answers() > before+10 })
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
		h.serve.kill()
		l.pauseAfterKill()
		thrifty.pauseAfterKill()
		h.startServe()
		// The money that was spent stays spent: nothing gets through, not even the first
		// request. Until the spend is read again, it is told to come back.
		h.wait("the key without money is refused", func() bool {
			status, code, _ := h.refusal(poor, hello)
			if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
				t.Fatalf("a key without money is answered %d %s after a restart", status, code)
			}
			return code == "insufficient_quota"
		})
		h.wait("the budget's spend is the ledger's", func() bool { return h.spent("limited").Equal(h.costOfKey("limited")) })
		l.gate.Unlock()
		thrifty.gate.Unlock()
	}
	before := l.hungUpOn()
	h.wait("traffic flows", func() bool { return l.hungUpOn() > before+10 })
	l.end()
	thrifty.end()

	rows := l.settled()
	thrifty.settled()
	if len(l.whole) < kills*10 || len(l.left) < kills {
		t.Fatalf("the server was not under load: %s", l)
	}
	aborted := 0
	for _, r := range rows {
		if strings.Contains(r.Flags, "aborted") {
			aborted++
		}
	}
	t.Logf("%d kills, %s; %d ledger rows, %d of them of streams that were left", kills, l, len(rows), aborted)
	t.Logf("with a budget of 0.001, %s was spent: %s", h.costOfKey("thrifty"), thrifty)
	for what := range l.refused {
		if !strings.HasPrefix(what, "503") {
			t.Errorf("a request under load was refused with %s", what)
		}
	}
	if cost := h.costOfKey("thrifty"); cost.GreaterThan(decimal.RequireFromString("0.001")) {
		t.Errorf("%s was spent of a budget of 0.001", cost)
	}
	if thrifty.refused["429 insufficient_quota"] == 0 {
		t.Error("the budget was not spent: the test shows nothing about it")
	}
}

// spend uses a small budget up and stops when the next request is refused for it.
func spend(t *testing.T, h *house, key string) (answered int) {
	t.Helper()
	for answered = range 100 {
		_, _, err := chat(context.Background(), h.base, key, hello)
		if err != nil {
			if !strings.Contains(err.Error(), "insufficient_quota") {
				t.Fatal(err)
			}
			return answered
		}
	}
	t.Fatal("a small budget lets a hundred requests through")
	return 0
}

// refusal sends a request that ought to be refused.
func (h *house) refusal(key, body string) (status int, code string, header http.Header) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := open(ctx, h.base, key, body)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, codeOf(resp.Body), resp.Header
}

// costOfKey is what a key spent, by the ledger.
func (h *house) costOfKey(name string) decimal.Decimal {
	h.t.Helper()
	var usage struct {
		Rows []struct {
			Key  string
			Cost decimal.Decimal
		}
	}
	h.get("/api/v1/usage?group=key", &usage)
	for _, r := range usage.Rows {
		if r.Key == name {
			return r.Cost
		}
	}
	return decimal.Zero
}

// spent is what the gateway says a key has spent of its budget; less than nothing
// while it does not know.
func (h *house) spent(name string) decimal.Decimal {
	h.t.Helper()
	var answer struct {
		Keys []struct {
			Name string
			Use  []struct {
				Kind    string
				Used    decimal.Decimal
				Unknown bool
			}
		}
	}
	h.get("/api/v1/keys", &answer)
	for _, k := range answer.Keys {
		for _, u := range k.Use {
			if k.Name == name && u.Kind == "budget" && !u.Unknown {
				return u.Used
			}
		}
	}
	return decimal.NewFromInt(-1)
}
