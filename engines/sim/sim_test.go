package sim

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tokenfactory/engines"
)

func start(t *testing.T, o Options) (*Engine, string) {
	t.Helper()
	if o.Model == "" {
		o.Model = "m"
	}
	e := New(o)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, server.URL
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func reading(t *testing.T, url string) engines.Reading {
	t.Helper()
	_, body := get(t, url+"/metrics")
	return parsed(t, body)
}

func parsed(t *testing.T, body string) engines.Reading {
	t.Helper()
	e, _ := engines.Find("sim")
	r, err := e.Read(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	return r
}

type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
		Text    string                    `json:"text"`
		Message *struct{ Content string } `json:"message"`
		Reason  *string                   `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// chunks takes a stream apart and checks what holds for every stream.
func chunks(t *testing.T, body string) []chunk {
	t.Helper()
	rest, ended := strings.CutSuffix(body, "data: [DONE]\n\n")
	if !ended {
		t.Fatalf("no [DONE] at the end of\n%s", body)
	}
	var out []chunk
	for _, event := range strings.Split(strings.TrimSuffix(rest, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not an event: %q", event)
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if len(out) > 0 && c.ID != out[0].ID {
			t.Errorf("the id changes from %s to %s", out[0].ID, c.ID)
		}
		out = append(out, c)
	}
	return out
}

func TestRefusalsAreInTheOpenAIEnvelope(t *testing.T) {
	_, url := start(t, Options{ContextLength: 100})
	messages := `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		path, body string
		status     int
		param      string
	}{
		{"/v1/chat/completions", `{"model":"nope",` + messages + `}`, 404, "model"},
		{"/v1/completions", `{"model":"nope","prompt":"x"}`, 404, "model"},
		{"/v1/embeddings", `{"model":"nope","input":"x"}`, 404, "model"},
		{"/v1/chat/completions", `{"model":"m",`, 400, ""},
		{"/v1/chat/completions", ``, 400, ""},
		{"/v1/chat/completions", `{"max_tokens":"many",` + messages + `}`, 400, "max_tokens"},
		{"/v1/chat/completions", `{"max_tokens":0,` + messages + `}`, 400, "max_tokens"},
		{"/v1/chat/completions", `{"max_completion_tokens":-1,` + messages + `}`, 400, "max_completion_tokens"},
		{"/v1/chat/completions", `{"n":0,` + messages + `}`, 400, "n"},
		{"/v1/chat/completions", `{"messages":[]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":5}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"stream_options":{"include_usage":true},` + messages + `}`, 400, "stream_options"},
		{"/v1/chat/completions", `{"max_tokens":100,` + messages + `}`, 400, "input_tokens"},
		{"/v1/completions", `{"prompt":[]}`, 400, "prompt"},
		{"/v1/completions", `{}`, 400, "prompt"},
		{"/v1/embeddings", `{"input":{}}`, 400, "input"},
		{"/v1/embeddings", `{"input":"x","encoding_format":"hex"}`, 400, "encoding_format"},
	} {
		status, body := post(t, url+c.path, c.body)
		var out struct {
			Error struct {
				Message, Type string
				Param         *string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			t.Errorf("%s %s: %v in %s", c.path, c.body, err, body)
			continue
		}
		param := ""
		if out.Error.Param != nil {
			param = *out.Error.Param
		}
		if status != c.status || out.Error.Code != c.status || out.Error.Message == "" || out.Error.Type == "" || param != c.param {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, body)
		}
	}
	if r := reading(t, url); *r.PromptTokens != 0 || *r.Running != 0 {
		t.Errorf("a refusal was counted: %v prompt tokens", *r.PromptTokens)
	}
}

func TestEmbeddingsAreUnitVectorsInBothEncodings(t *testing.T) {
	_, url := start(t, Options{Dimensions: 8})
	var floats struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	_, body := post(t, url+"/v1/embeddings", `{"model":"m","input":["hello","world and more"]}`)
	if err := json.Unmarshal([]byte(body), &floats); err != nil {
		t.Fatal(err)
	}
	if len(floats.Data) != 2 || floats.Data[1].Index != 1 || floats.Usage.Prompt != 6 || floats.Usage.Total != 6 {
		t.Fatalf("%s", body)
	}
	sum := 0.0
	for _, x := range floats.Data[0].Embedding {
		sum += float64(x) * float64(x)
	}
	if len(floats.Data[0].Embedding) != 8 || math.Abs(sum-1) > 1e-5 {
		t.Errorf("%d numbers of length %v", len(floats.Data[0].Embedding), sum)
	}
	var encoded struct{ Data []struct{ Embedding string } }
	_, body = post(t, url+"/v1/embeddings", `{"input":"hello","encoding_format":"base64","dimensions":8}`)
	if err := json.Unmarshal([]byte(body), &encoded); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded.Data[0].Embedding)
	if err != nil || len(raw) != 32 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	bits := uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24
	if got := math.Float32frombits(bits); got != floats.Data[0].Embedding[0] {
		t.Errorf("base64 begins with %v, floats with %v", got, floats.Data[0].Embedding[0])
	}
}

func TestLoadingEngineIsUnavailableEverywhere(t *testing.T) {
	_, url := start(t, Options{Load: time.Hour})
	for _, path := range []string{"/health", "/v1/models", "/metrics"} {
		if status, body := get(t, url+path); status != 503 || !strings.Contains(body, "loading") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`); status != 503 {
		t.Errorf("chat: %d", status)
	}
}

func TestModelsHealthAndVersion(t *testing.T) {
	_, url := start(t, Options{Model: "Qwen/Qwen2-0.5B-Instruct"})
	if status, body := get(t, url+"/health"); status != 200 || body != "" {
		t.Errorf("health %d %q", status, body)
	}
	if _, body := get(t, url+"/v1/models"); !strings.Contains(body, `"id":"Qwen/Qwen2-0.5B-Instruct"`) || !strings.Contains(body, `"max_model_len":32768`) {
		t.Errorf("models %s", body)
	}
	if _, body := get(t, url+"/version"); !strings.Contains(body, `"version"`) {
		t.Errorf("version %s", body)
	}
}

func TestMetricsAreReadLikeThoseOfVLLM(t *testing.T) {
	_, url := start(t, Options{Model: `odd "name"\ here`})
	_, page := get(t, url+"/metrics")
	if any, err := engines.ReadAny(strings.NewReader(page)); err != nil || any.Engine != "vllm" {
		t.Errorf("recognised as %q, %v", any.Engine, err)
	}
	idle := parsed(t, page)
	if idle.Model != `odd "name"\ here` || *idle.Running != 0 || *idle.KV != 0 || *idle.PromptTokens != 0 || idle.ProcessStart == nil {
		t.Errorf("idle: %+v", idle)
	}
	for _, body := range []string{`{"max_tokens":5,"messages":[{"role":"user","content":"x"}]}`, `{"messages":[{"role":"user","content":"x"}]}`} {
		post(t, url+"/v1/chat/completions", body)
	}
	r := reading(t, url)
	if *r.PromptTokens != 16 || r.Finished["length"] != 1 || r.Finished["stop"] != 1 || r.Finished["abort"] != 0 || *r.Running != 0 || *r.KV != 0 {
		t.Errorf("%+v", r)
	}
	ttft, itl, e2e := r.Histograms["engine_ttft"], r.Histograms["engine_itl"], r.Histograms["engine_e2e"]
	if ttft.Count != 2 || e2e.Count != 2 || itl.Count != *r.GenerationTokens-2 || r.Histograms["engine_queue"].Count != 2 {
		t.Errorf("%v TTFT, %v ITL of %v tokens, %v E2E", ttft.Count, itl.Count, *r.GenerationTokens, e2e.Count)
	}
}

func TestHistogramCountsABoundInItsOwnBucket(t *testing.T) {
	h := newHistogram([]float64{0.1, 0.25})
	h.observe(100 * time.Millisecond)
	h.observe(101 * time.Millisecond)
	h.observe(time.Second)
	if h.counts[0] != 1 || h.counts[1] != 1 || h.counts[2] != 1 {
		t.Errorf("%v", h.counts)
	}
}

func TestClosedConnectionReachesTheEngine(t *testing.T) {
	_, url := start(t, Options{ITL: 5 * time.Millisecond})
	for _, stream := range []string{"true", "false"} {
		ctx, leave := context.WithCancel(t.Context())
		body := strings.NewReader(`{"max_tokens":30000,"stream":` + stream + `,"messages":[{"role":"user","content":"x"}]}`)
		r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		until(t, "it runs", func() bool { return *reading(t, url).Running == 1 })
		leave()
		<-gone
		until(t, "its seat is free", func() bool { return *reading(t, url).Running == 0 })
	}
	if r := reading(t, url); r.Finished["abort"] != 2 {
		t.Errorf("finished %v", r.Finished)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 10 s still not: %s", what)
		}
	}
}
