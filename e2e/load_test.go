package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"
)

// The prices of the deployments that tests put under load, per million tokens.
var (
	inputPrice  = decimal.RequireFromString("0.15")
	outputPrice = decimal.RequireFromString("0.60")
)

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

// load is clients that ask without pause, plainly and streamed, and some that hang
// up in the middle; and what they know of what they were sent.
type load struct {
	h     *house
	key   string
	pause time.Duration // of each client between two requests

	mu       sync.Mutex
	whole    map[string]seen  // by request id: answers that arrived to their end
	left     map[string]int64 // tokens of streams when their client hung up
	doubtful map[string]bool  // of those, the ones that were left before the last kill
	refused  map[string]int   // by status and code
	broken   int              // no answer, or not a whole one
	slowest  time.Duration    // of the whole answers

	gate sync.RWMutex // held for writing, nobody asks
	stop chan struct{}
	wg   sync.WaitGroup
}

// load starts clients that ask with a key until end is called.
func (h *house) load(clients int, key string, pause time.Duration) *load {
	l := &load{h: h, key: key, pause: pause, stop: make(chan struct{}),
		whole: map[string]seen{}, left: map[string]int64{}, refused: map[string]int{}}
	for i := range clients {
		l.wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				select {
				case <-l.stop:
					return
				case <-time.After(l.pause):
				}
				l.gate.RLock()
				ok := l.ask(rnd)
				l.gate.RUnlock()
				if !ok {
					time.Sleep(20 * time.Millisecond) // the server is away; do not spin
				}
			}
		})
	}
	h.t.Cleanup(l.end)
	return l
}

// end lets open requests finish; it may be called again.
func (l *load) end() {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// answers is how many have arrived whole until now.
func (l *load) answers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.whole)
}

// hungUpOn is how many streams were left until now.
func (l *load) hungUpOn() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.left)
}

func (l *load) ask(rnd *rand.Rand) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	kind, options := rnd.IntN(4), ""
	if kind > 0 {
		options = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	tokens := []int{1, 5, 20, 60}[rnd.IntN(4)]
	hangUp := 0 // after so many tokens
	if kind == 3 {
		tokens, hangUp = 400, 1+rnd.IntN(6)
	}
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%d%s,"messages":[{"role":"user","content":"%s"}]}`,
		smallModel, tokens, options, strings.Repeat("word ", 1+rnd.IntN(40)))
	began := time.Now()
	resp, err := open(ctx, l.h.base, l.key, body)
	if err != nil {
		return l.failed()
	}
	defer resp.Body.Close()
	id := resp.Header.Get("x-request-id")
	if resp.StatusCode != http.StatusOK {
		return l.noted(resp.StatusCode, codeOf(resp.Body))
	}
	if hangUp > 0 {
		return l.hungUp(id, resp.Body, hangUp)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return l.failed()
	}
	u, ok := usageOf(string(answer))
	if !ok {
		return l.failed()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole[id] = u
	l.slowest = max(l.slowest, time.Since(began))
	return true
}

func (l *load) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken++
	return false
}

func (l *load) noted(status int, code string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[fmt.Sprint(status, " ", code)]++
	return false
}

// codeOf is the code in an answer's error envelope; empty when it is none.
func codeOf(answer io.Reader) string {
	var refusal struct{ Error struct{ Code string } }
	_ = json.NewDecoder(answer).Decode(&refusal) // no code is as telling as one
	return refusal.Error.Code
}

// hungUp reads some tokens of a stream and leaves.
func (l *load) hungUp(id string, stream io.ReadCloser, tokens int) bool {
	n, err := readTokens(stream, tokens)
	if err != nil {
		return l.failed()
	}
	stream.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[id] = int64(n)
	return true
}

// readTokens reads events until so many have carried text.
func readTokens(stream io.Reader, most int) (n int, err error) {
	lines := bufio.NewReader(stream)
	for n < most {
		line, err := lines.ReadString('\n')
		if err != nil {
			return n, err
		}
		if strings.Contains(line, `"content":"`) && !strings.Contains(line, `"content":""`) {
			n++
		}
	}
	return n, nil
}

// open sends a chat request and returns as soon as the header of the answer is there.
func open(ctx context.Context, base, key, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// settled waits until the ledger has every answer that arrived whole and checks it
// against what the clients know: each request once, whole answers to the token,
// streams that were left with no less than their client got, and sums that are the
// sums of the rows. Streams that were left after the server was killed for the last
// time are all there; one that was left just before need not be.
func (l *load) settled() []ledgerRow {
	t := l.h.t
	t.Helper()
	var rows []ledgerRow
	byID := map[string]ledgerRow{}
	var absent []string
	var sums usageTotal
	defer func() {
		if t.Failed() {
			t.Logf("%s\nabsent from the ledger: %q\nthe rows add up to %+v, usage says %+v", l, absent, sumOf(rows), sums)
		}
	}()
	l.h.wait("the ledger has every answer, and its sums", func() bool {
		absent = nil
		rows = l.h.ledger()
		clear(byID)
		for _, r := range rows {
			if _, twice := byID[r.ID]; twice {
				t.Fatalf("request %s is in the ledger twice", r.ID)
			}
			byID[r.ID] = r
		}
		for id := range l.whole {
			if _, ok := byID[id]; !ok {
				absent = append(absent, id)
			}
		}
		for id := range l.left {
			if _, ok := byID[id]; !ok && !l.doubtful[id] {
				absent = append(absent, id)
			}
		}
		sums = l.h.usage()
		return len(absent) == 0 && sums.equal(sumOf(rows))
	})
	for id, u := range l.whole {
		if r := byID[id]; r.PromptTokens != u.prompt || r.CompletionTokens != u.completion {
			t.Errorf("request %s: the ledger has %d/%d tokens, the client was told %d/%d", id, r.PromptTokens, r.CompletionTokens, u.prompt, u.completion)
		}
	}
	for id, n := range l.left {
		if r, ok := byID[id]; ok && (r.CompletionTokens < n || r.PromptTokens == 0 || !strings.Contains(r.Flags, "aborted")) {
			t.Errorf("request %s was left after %d tokens: the ledger has %+v", id, n, r)
		}
	}
	return rows
}

// pauseAfterKill keeps the clients waiting until the gate is unlocked. The rows of
// streams which were left until now may have been lost with the server.
func (l *load) pauseAfterKill() {
	l.gate.Lock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubtful = map[string]bool{}
	for id := range l.left {
		l.doubtful[id] = true
	}
}

// usageTotal is what GET /api/v1/usage says of everything.
type usageTotal struct {
	Requests         int64
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Cost             decimal.Decimal
}

func (u usageTotal) equal(o usageTotal) bool {
	return u.Requests == o.Requests && u.PromptTokens == o.PromptTokens && u.CompletionTokens == o.CompletionTokens && u.Cost.Equal(o.Cost)
}

func (h *house) usage() usageTotal {
	h.t.Helper()
	var usage struct{ Total usageTotal }
	h.get("/api/v1/usage?group=day", &usage)
	return usage.Total
}

// sumOf is what usage says when it is the sum of these rows.
func sumOf(rows []ledgerRow) usageTotal {
	u := usageTotal{Requests: int64(len(rows))}
	for _, r := range rows {
		u.PromptTokens += r.PromptTokens
		u.CompletionTokens += r.CompletionTokens
	}
	u.Cost = inputPrice.Mul(decimal.NewFromInt(u.PromptTokens)).Add(outputPrice.Mul(decimal.NewFromInt(u.CompletionTokens))).Shift(-6)
	return u
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d whole answers (slowest %s), %d streams left, %d broken, refused %v",
		len(l.whole), l.slowest.Round(time.Millisecond), len(l.left), l.broken, l.refused)
}
