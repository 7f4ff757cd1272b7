package e2e

import (
	"context"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub is an engine whose every byte the test knows. What the last message says
// decides what it answers; it remembers what it was asked.
type stub struct {
	*httptest.Server
	mu    sync.Mutex
	asked []askedOfStub
}

// askedOfStub is a request as the engine got it.
type askedOfStub struct {
	path, body string
	header     http.Header
	// cancelled is when the engine was told that nobody waits for the answer any more.
	cancelled time.Time
}

// What the stub says. Texts are in its tokens: one for each event of a stream.
var (
	valveWords  = []string{"Valves", " open", ",", " valves", " close", " — ", "阀门", "."}
	valveText   = strings.Join(valveWords, "")
	valvesUsed  = seen{9, int64(len(valveWords))}
	toolsUsed   = seen{57, 21}
	schemaUsed  = seen{31, 12}
	schemaText  = `{"city":"Paris","degrees":21}`
	afterTool   = "It is 21 degrees in Paris."
	embedded    = []float32{0.25, -0.5, 1, 0.125}
	embedsUsed  = seen{4, 0}
	simpleUsed  = seen{10, 5}
	streamPause = 10 * time.Millisecond // between the events of the endless stream
)

// Words of a last message that the stub listens to.
const (
	askValves = "Say something about valves."
	askTool   = "What is the weather in Paris?"
	askSchema = "Answer in the schema."
	askOn     = "Go on until I stop you."
	askDie    = "Break off."
)

func newStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","created":1,"owned_by":"stub"}]}`, smallModel)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=%q} 0\n", smallModel)
	})
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	mux.HandleFunc("POST /v1/responses", s.responses)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// requests are those with a body that says so.
func (s *stub) requests(about string) (found []askedOfStub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if strings.Contains(a.body, about) {
			found = append(found, a)
		}
	}
	return found
}

func (s *stub) remember(r *http.Request) (body string, at int) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return "", -1 // whoever asked has left
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, askedOfStub{path: r.URL.Path, body: string(b), header: r.Header.Clone()})
	return string(b), len(s.asked) - 1
}

type stubChat struct {
	Stream   bool
	Tools    []json.RawMessage
	Messages []struct {
		Role    string
		Content any
	}
	StreamOptions struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

func (s *stub) chat(w http.ResponseWriter, r *http.Request) {
	body, at := s.remember(r)
	var asked stubChat
	if err := json.Unmarshal([]byte(body), &asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, `{"error":{"message":"not a chat request","type":"invalid_request_error","param":null,"code":null}}`, http.StatusBadRequest)
		return
	}
	last := asked.Messages[len(asked.Messages)-1]
	switch {
	case last.Role == "tool":
		s.text(w, asked, []string{afterTool}, valvesUsed)
	case last.Content == askTool && len(asked.Tools) > 0:
		s.toolCall(w, asked)
	case last.Content == askSchema:
		s.text(w, asked, []string{schemaText}, schemaUsed)
	case last.Content == askOn:
		s.endless(w, r, asked, at)
	case last.Content == askDie:
		s.die(w, asked)
	case last.Content == askValves:
		s.text(w, asked, valveWords, valvesUsed)
	default:
		s.text(w, asked, []string{"ok"}, simpleUsed)
	}
}

func (u seen) json() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, u.prompt, u.prompt+u.completion, u.completion)
}

// text answers with some words, streamed one by one where that was asked for.
func (s *stub) text(w http.ResponseWriter, asked stubChat, words []string, u seen) {
	if !asked.Stream {
		content, _ := json.Marshal(strings.Join(words, "")) // a string is always JSON
		writeStub(w, fmt.Sprintf(`{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":"stop"}`, content), u)
		return
	}
	e := newStubEvents(w, asked, u)
	e.delta(`{"role":"assistant","content":""}`, "", 0)
	for i, word := range words {
		content, _ := json.Marshal(word)
		e.delta(`{"content":`+string(content)+`}`, "", int64(i+1))
	}
	e.delta(`{}`, "stop", u.completion)
	e.end()
}

// toolCall asks for a tool, with its arguments cut as engines cut them.
func (s *stub) toolCall(w http.ResponseWriter, asked stubChat) {
	if !asked.Stream {
		writeStub(w, `{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_7f","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Paris\", \"unit\": \"C\"}"}}]},"logprobs":null,"finish_reason":"tool_calls"}`, toolsUsed)
		return
	}
	e := newStubEvents(w, asked, toolsUsed)
	e.delta(`{"role":"assistant","content":null}`, "", 0)
	e.delta(`{"tool_calls":[{"index":0,"id":"call_7f","type":"function","function":{"name":"get_weather","arguments":""}}]}`, "", 8)
	for i, piece := range []string{`{\"ci`, `ty\": \"Par`, `is\", \"un`, `it\": \"C\"}`} {
		e.delta(`{"tool_calls":[{"index":0,"function":{"arguments":"`+piece+`"}}]}`, "", int64(10+2*i))
	}
	e.delta(`{}`, "tool_calls", toolsUsed.completion)
	e.end()
}

// endless streams a word at a time until nobody listens.
func (s *stub) endless(w http.ResponseWriter, r *http.Request, asked stubChat, at int) {
	e := newStubEvents(w, asked, seen{prompt: 11})
	e.delta(`{"role":"assistant","content":""}`, "", 0)
	for n := int64(1); ; n++ {
		select {
		case <-r.Context().Done():
			s.mu.Lock()
			s.asked[at].cancelled = time.Now()
			s.mu.Unlock()
			return
		case <-time.After(streamPause):
			e.delta(`{"content":" on"}`, "", n)
		}
	}
}

// die breaks off after three words, as an engine does that runs out of memory.
func (s *stub) die(w http.ResponseWriter, asked stubChat) {
	e := newStubEvents(w, asked, seen{prompt: 11})
	e.delta(`{"role":"assistant","content":""}`, "", 0)
	for n := range int64(3) {
		e.delta(`{"content":" on"}`, "", n+1)
	}
	panic(http.ErrAbortHandler)
}

func writeStub(w http.ResponseWriter, choice string, u seen) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"chatcmpl-stub","object":"chat.completion","created":1,"model":%q,"choices":[%s],"usage":%s,"x_engine":{"k":[1,2]}}`, smallModel, choice, u.json())
}

// stubEvents writes a stream as vLLM does: compact JSON, usage as it was asked for.
type stubEvents struct {
	w     http.ResponseWriter
	asked stubChat
	used  seen
}

func newStubEvents(w http.ResponseWriter, asked stubChat, u seen) *stubEvents {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	return &stubEvents{w, asked, u}
}

func (e *stubEvents) delta(delta, reason string, made int64) {
	finish := "null"
	if reason != "" {
		finish = `"` + reason + `"`
	}
	usage := ""
	if e.asked.StreamOptions.ContinuousUsageStats {
		usage = `,"usage":` + seen{e.used.prompt, made}.json()
	}
	e.send(fmt.Sprintf(`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]%s`, delta, finish, usage))
}

func (e *stubEvents) end() {
	if e.asked.StreamOptions.IncludeUsage {
		e.send(`"choices":[],"usage":` + e.used.json())
	}
	_, _ = io.WriteString(e.w, "data: [DONE]\n\n")
}

func (e *stubEvents) send(rest string) {
	// Errors show in the request's context.
	_, _ = fmt.Fprintf(e.w, `data: {"id":"chatcmpl-stub","object":"chat.completion.chunk","created":1,"model":%q,%s}`+"\n\n", smallModel, rest)
	_ = http.NewResponseController(e.w).Flush()
}

func (s *stub) embeddings(w http.ResponseWriter, r *http.Request) {
	body, _ := s.remember(r)
	var asked struct {
		EncodingFormat string `json:"encoding_format"`
	}
	_ = json.Unmarshal([]byte(body), &asked) // the gateway passes JSON only
	vector, _ := json.Marshal(embedded)
	if asked.EncodingFormat == "base64" {
		raw := make([]byte, 0, 4*len(embedded))
		for _, f := range embedded {
			raw = endian.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		vector, _ = json.Marshal(raw) // bytes are base64 in JSON
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"embd-stub","object":"list","created":1,"model":%q,"data":[{"index":0,"object":"embedding","embedding":%s}],"usage":{"prompt_tokens":%d,"total_tokens":%[3]d,"completion_tokens":0}}`,
		smallModel, vector, embedsUsed.prompt)
}

// responses answers as the Responses API does: the model's name is in the objects
// inside of events, and usage comes with the last one.
func (s *stub) responses(w http.ResponseWriter, r *http.Request) {
	body, _ := s.remember(r)
	var asked struct{ Stream bool }
	_ = json.Unmarshal([]byte(body), &asked) // the gateway passes JSON only
	text, _ := json.Marshal(valveText)
	object := func(status, output, usage string) string {
		return fmt.Sprintf(`{"id":"resp_stub","object":"response","created_at":1,"status":%q,"model":%q,"output":[%s],"usage":%s}`, status, smallModel, output, usage)
	}
	whole := object("completed",
		fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, text),
		fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
			valvesUsed.prompt, valvesUsed.completion, valvesUsed.prompt+valvesUsed.completion))
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	number := 0
	event := func(kind, rest string) {
		_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, number, rest)
		_ = http.NewResponseController(w).Flush()
		number++
	}
	event("response.created", `"response":`+object("in_progress", "", "null"))
	for _, word := range valveWords {
		delta, _ := json.Marshal(word)
		event("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"logprobs":[],"delta":`+string(delta))
	}
	event("response.completed", `"response":`+whole)
}

// watching starts a house whose agent watches an engine that was there before, taken
// for one of a kind in the catalogue.
func watching(t *testing.T, database, kind string, engine *stub) (h *house, key string) {
	t.Helper()
	h = newHouse(t, database)
	made := h.apply(strings.NewReplacer(
		"engine: sim", "engine: "+kind, "free: true", "input_price: \"0.15\"\n  output_price: \"0.60\"",
	).Replace(fmt.Sprintf(watched, engine.URL)))
	key = secret(t, made, "key", "app", "key")
	h.startAgent(secret(t, made, "cluster", "bench", "join_token"))
	h.wait("the watched engine serves", func() bool {
		_, _, err := chat(context.Background(), h.base, key, hello)
		return err == nil
	})
	return h, key
}
