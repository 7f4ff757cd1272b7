package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

func TestResponsesStreamsCarryTheAskedNameAndAreMetered(t *testing.T) {
	const stream = "event: response.created\n" +
		`data: {"type":"response.created","sequence_number":0,"response":{"id":"r1","object":"response","model":"served/x","output":[],"usage":null}}` + "\n\n" +
		"event: response.output_text.delta\n" +
		`data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"m1","delta":"\"model\":\"served/x\"","logprobs":[]}` + "\n\n" +
		"event: response.output_text.delta\n" +
		`data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"m1","delta":"b","logprobs":[]}` + "\n\n" +
		"event: response.completed\n" +
		`data: {"type":"response.completed","sequence_number":3,"response":{"id":"r1","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2,"total_tokens":11},"model" : "served/x","metadata":{"model":"served/x"}}}` + "\n\n"
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, strings.SplitAfter(stream, "\n\n")...) })
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Replicas[0].ServedName = "served/x" }))
	const body = `{"model":"demo-small","stream":true,"input":"hi","instructions":"be brief"}`
	r := b.post("/v1/responses", body)
	want := strings.Replace(stream, `"model":"served/x","output"`, `"model":"demo-small","output"`, 1)
	want = strings.Replace(want, `"model" : "served/x"`, `"model" : "demo-small"`, 1)
	if r.err != nil || r.body != want {
		t.Errorf("%v\n got %q\nwant %q", r.err, r.body, want)
	}
	if got := e.seen()[0]; got.path != "/v1/responses" || got.body != strings.Replace(body, "demo-small", "served/x", 1) {
		t.Errorf("the engine got %s %s", got.path, got.body)
	}
	u := b.row(1)
	wantTokens(t, u, 9, 2, "", 200)
	if u.CachedTokens != 4 || u.Endpoint != "responses" || u.TTFTMS == nil || u.E2EMS == nil || u.ModelServed != "served/x" {
		t.Errorf("row %+v", u)
	}
	b.until("measurements are handed over", func() bool { return b.count()[metrics.E2E] == 1 })
	if n := b.count(); n[metrics.TTFT] != 1 || n[metrics.ITL] != 1 {
		t.Errorf("observations: %v", n)
	}
}

func TestResponsesEndOtherwiseThanCompleted(t *testing.T) {
	begin := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"model\":\"demo-small\"}}\n\n"
	token := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
	for name, c := range map[string]struct {
		end   string
		cut   bool
		flags string
		out   int64
	}{
		"incomplete": {"event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n", false, "", 1},
		"failed":     {"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"out of memory\"}}}\n\n", true, "estimated,truncated", 1},
		"nothing":    {"", true, "estimated,truncated", 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) { sse(w, begin, token, c.end) })
			b := newBench(t, []string{e.URL})
			r := b.post("/v1/responses", `{"model":"demo-small","stream":true,"input":"hi"}`)
			if (r.err != nil) != c.cut || strings.Contains(r.body, `data: {"error"`) != c.cut {
				t.Errorf("%v: %s", r.err, r.body)
			}
			u := b.row(1)
			if u.Flags != c.flags || u.CompletionTokens != c.out || u.Status != 200 {
				t.Errorf("row %+v", u)
			}
		})
	}
}

// TestMB08ReranksAreMeteredInEveryShape: engines copy several services.
func TestMB08ReranksAreMeteredInEveryShape(t *testing.T) {
	answers := []string{
		`{"id":"a","model":"served/x","usage":{"total_tokens":11},"results":[{"index":0,"relevance_score":0.9}]}`,                                  // vLLM, Jina
		`{"usage":{"prompt_tokens":11,"total_tokens":11},"model":"served/x","object":"list","results":[]}`,                                         // llama.cpp
		`{"id":"a","results":[{"index":0}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":11}}}`, // Cohere
		`{"id":"a","results":[{"index":0}],"meta":{"billed_units":{"input_tokens":11}}}`,
		`[{"score":0.9,"index":0,"meta_info":{"prompt_tokens":5}},{"score":0.1,"index":1,"meta_info":{"prompt_tokens":6}}]`, // SGLang
	}
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) { _, _ = io.WriteString(w, answers[n-1]) })
	b := newBench(t, []string{e.URL})
	const body = `{"model":"demo-small","query":"q","documents":["a","b"],"top_n":1}`
	for i := range answers {
		if r := b.post("/v1/rerank", body); r.status != 200 || r.body != strings.Replace(answers[i], "served/x", asked, 1) {
			t.Errorf("%d %s", r.status, r.body)
		}
		u := b.row(i + 1)
		if wantTokens(t, u, 11, 0, "", 200); u.Endpoint != "rerank" || u.E2EMS == nil || u.TTFTMS != nil {
			t.Errorf("row %+v", u)
		}
		if c := e.seen()[i]; c.path != "/v1/rerank" || c.body != body {
			t.Errorf("the engine got %s %s", c.path, c.body)
		}
	}
}

func TestAWholeAnswerOfResponsesCarriesTheAskedName(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		_, _ = io.WriteString(w, `{"object":"response","error":null,"model":"served/x","output":[],"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":16},"output_tokens":5,"total_tokens":35}}`)
	})
	b := newBench(t, []string{e.URL})
	if r := b.post("/v1/responses", `{"model":"demo-small","input":"hi"}`); r.status != 200 || gjson.Get(r.body, "model").String() != asked {
		t.Errorf("%d %s", r.status, r.body)
	}
	u := b.row(1)
	if wantTokens(t, u, 30, 5, "", 200); u.CachedTokens != 16 || u.Endpoint != "responses" {
		t.Errorf("row %+v", u)
	}
}

func TestWhatAnEngineDoesNotOfferIsAQuickCleanRefusal(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.Engine, r.Deployment.RequestsPerMinute = "sim", 1 }))
	for range 3 {
		for _, path := range []string{"/v1/responses", "/v1/rerank"} {
			r := b.post(path, streamed)
			message := gjson.Get(r.body, "error.message").String()
			if r.status != 404 || r.header.Get("Content-Type") != "application/json" || gjson.Get(r.body, "error.code").String() != "unknown_url" ||
				!strings.Contains(message, asked) || !strings.Contains(message, path) {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
	}
	if r := b.chat(plainly); r.status != 200 { // nothing was counted against the limit
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if n := len(e.seen()); n != 1 {
		t.Errorf("%d upstream calls", n)
	}
	b.row(1)
}

func TestAnEnginesOwnWordThatThereIsNothingBecomesAnEnvelope(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		becomes int
		code    string
	}{
		"html":            {404, "<html><h1>Not Found</h1></html>", 404, "unknown_url"},
		"plain text":      {404, "404 page not found\n", 404, "unknown_url"},
		"FastAPI":         {404, `{"detail":"Not Found"}`, 404, "unknown_url"},
		"wrong method":    {405, `{"detail":"Method Not Allowed"}`, 404, "unknown_url"},
		"nothing":         {404, "", 404, "unknown_url"},
		"not implemented": {501, `{"error":{"code":501,"message":"This server does not support embeddings.","type":"not_supported_error"}}`, 404, "unknown_url"},
		"another model":   {404, `{"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}}`, 404, "404"},
		"flat":            {404, `{"object":"error","message":"The model does not exist.","type":"NotFoundError","param":null,"code":404}`, 404, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			b := newBench(t, []string{e.URL})
			for _, body := range []string{plainly, streamed} {
				r := b.post("/v1/responses", body)
				if r.status != c.becomes || r.header.Get("Content-Type") != "application/json" || gjson.Get(r.body, "error.code").String() != c.code ||
					gjson.Get(r.body, "error.message").String() == "" {
					t.Errorf("%d %v %s", r.status, r.header, r.body)
				}
			}
			wantTokens(t, b.row(2), 0, 0, "", c.becomes)
			b.until("measurements are handed over", func() bool { return b.count()[metrics.Requests] == 2 })
			if n := b.count()[metrics.Failures]; n != 0 {
				t.Errorf("%v failures", n)
			}
		})
	}
}
