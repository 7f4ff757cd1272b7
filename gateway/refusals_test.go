package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

func TestRefusalsOfEnginesReachTheClientInOneShape(t *testing.T) {
	var kinds []struct {
		Case   string          `json:"case"`
		Status int             `json:"http_status"`
		Body   json.RawMessage `json:"body"`
	}
	for line := range strings.Lines(engineErrors) {
		var k struct {
			Case   string          `json:"case"`
			Status int             `json:"http_status"`
			Body   json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, k)
	}
	i := 0
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(kinds[i].Status)
		_, _ = w.Write(kinds[i].Body)
	})
	b := newBench(t, []string{e.URL})
	for ; i < len(kinds); i++ {
		k := kinds[i]
		r := b.chat(plainly)
		want := k.Status
		if want == 401 {
			want = 502 // the client's own key is fine
		}
		got := gjson.Get(r.body, "error")
		if r.status != want || !got.IsObject() || got.Get("message").String() == "" || got.Get("type").String() == "" {
			t.Errorf("%s: %d %s", k.Case, r.status, r.body)
		}
		for _, message := range []string{"error.message", "message", "error"} {
			if m := gjson.GetBytes(k.Body, message); m.Type == gjson.String && k.Status != 401 {
				if got.Get("message").String() != m.Str {
					t.Errorf("%s: message %q, want %q", k.Case, got.Get("message"), m.Str)
				}
				break
			}
		}
		if (want == 429 || want == 503) != (r.header.Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", k.Case, r.header.Get("Retry-After"))
		}
	}
}

// Bodies of refusals, as real engines write them.
const engineErrors = `{"case":"vllm-401","http_status":401,"body":{"error":"Unauthorized"}}
{"case":"vllm-404-model","http_status":404,"body":{"error":{"message":"The model nope does not exist.","type":"NotFoundError","param":"model","code":404}}}
{"case":"vllm-0.8-400-flat","http_status":400,"body":{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}
{"case":"llamacpp-503-loading","http_status":503,"body":{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}}
{"case":"llamacpp-400-context","http_status":400,"body":{"error":{"code":400,"message":"request (6009 tokens) exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":6009,"n_ctx":4096}}}
{"case":"tgi-422","http_status":422,"body":{"error":"Input validation error","error_type":"validation"}}
{"case":"tgi-429","http_status":429,"body":{"error":"Model is overloaded","error_type":"overloaded"}}
`

func TestSecretsInAnAddressStayOutOfAnswersAndLogs(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.URL.Query().Get("key") != "SECRET123" {
			t.Error("the address lost its query")
		}
		reset(w)
	})
	dead, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	dead.Host = "127.0.0.1:1"
	b := newBench(t, []string{e.URL + "/v1?key=SECRET123", dead.String() + "/v1?key=SECRET123", "ftp://x?key=SECRET123"})
	r := b.chat(plainly)
	if r.status != 502 && r.status != 503 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	b.row(1)
	if strings.Contains(r.body+b.logs.String(), "SECRET123") {
		t.Errorf("a secret got out:\n%s\n%s", r.body, b.logs)
	}
}

func TestAPanicIsOneClientsTroubleOnly(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, whole) })
	b := newBench(t, []string{e.URL}, func(b *bench) { b.g.Limits = panics{} }, withRoute(func(r *factory.Route) { r.Deployment.RequestsPerMinute = 1 }))
	r := b.chat(plainly)
	if r.status != 500 || gjson.Get(r.body, "error.code").String() != "internal_error" {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.until("the load is released", func() bool { return b.g.inFlight.Load() == 0 })
}

type panics struct{ Limits }

func (panics) Reserve(context.Context, string, time.Time, []Claim) (Standing, error) {
	panic("out of order")
}

// brittle panics at the first event.
type brittle struct{ header http.Header }

func (w *brittle) Header() http.Header { return w.header }

func (w *brittle) WriteHeader(int) {}

func (w *brittle) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "data") {
		panic("broken writer")
	}
	return len(b), nil
}

func TestOverheadIsSaidOnPlainAnswers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(w, whole)
	})
	b := newBench(t, []string{e.URL})
	req := b.request("POST", "/v1/chat/completions", plainly)
	req.Header.Set("X-Request-Id", "my-own")
	r := b.do(req)
	ms, err := strconv.ParseFloat(r.header.Get("X-Tokenfactory-Overhead-Ms"), 64)
	if err != nil || ms < 0 {
		t.Errorf("overhead %q", r.header.Get("X-Tokenfactory-Overhead-Ms"))
	}
	if u := b.row(1); u.ID != r.header.Get("X-Request-Id") || u.ID == "my-own" || ms > *u.E2EMS {
		t.Errorf("row %+v, overhead %v", u, ms)
	}
}
