package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// outcome is what a client saw of one request.
type outcome struct {
	ID      string // the gateway's name for it; empty when the answer has none
	Sent    time.Time
	Late    time.Duration // sent after it was due
	Status  int           // zero when there was no answer
	Err     error         // why it is not whole
	TTFT    time.Duration // zero without a token
	E2E     time.Duration
	Gaps    []time.Duration // between events with tokens
	Prompt  int64           // tokens, from the usage
	Output  int64
	counted bool // there was a usage
}

func (o *outcome) whole() bool { return o.Err == nil }

// replayClient sends requests as programs of users do and measures what they notice.
type replayClient struct {
	HTTP  *http.Client
	Base  string // ends in /v1
	Key   string
	Model string
	Seed  uint64
}

// newReplayHTTP keeps a connection for each request under way: a client that dials anew
// would measure that.
func newReplayHTTP() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, 1<<16, 0
	t.ForceAttemptHTTP2 = false
	t.DisableCompression = true
	return &http.Client{Transport: t}
}

func (c *replayClient) body(a arrival, number int) ([]byte, error) {
	return json.Marshal(map[string]any{
		"model": c.Model, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"max_tokens": a.Output,
		"messages":   []map[string]string{{"role": "user", "content": replayPrompt(a, c.Seed, uint64(number))}},
	})
}

// send sends one request and reads its answer to the end.
func (c *replayClient) send(ctx context.Context, body []byte) (o outcome) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		o.Err = err
		return o
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	o.Sent = time.Now()
	resp, err := c.HTTP.Do(req)
	if err != nil {
		o.Err = err
		return o
	}
	defer resp.Body.Close()
	o.Status, o.ID = resp.StatusCode, resp.Header.Get("X-Request-Id")
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		o.Err = refusal(resp.Status, text)
		return o
	}
	o.Err = o.read(resp.Body)
	return o
}

// read follows a stream. An event with text, reasoning or a call of a tool is a token;
// the role alone is not.
func (o *outcome) read(body io.Reader) error {
	lines := bufio.NewReaderSize(body, 16<<10)
	var last time.Time
	done := false
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			now := time.Now()
			data = bytes.TrimSpace(data)
			if string(data) == "[DONE]" {
				o.E2E, done = now.Sub(o.Sent), true
				continue
			}
			if failure := gjson.GetBytes(data, "error"); failure.Exists() && failure.Type != gjson.Null {
				return fmt.Errorf("the stream ended with an error: %s", failure.Get("message").String())
			}
			if hasToken(data) {
				if last.IsZero() {
					o.TTFT = now.Sub(o.Sent)
				} else {
					o.Gaps = append(o.Gaps, now.Sub(last))
				}
				last = now
			}
			o.count(data)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if !done {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func hasToken(data []byte) bool {
	found := false
	gjson.GetBytes(data, "choices").ForEach(func(_, choice gjson.Result) bool {
		delta := choice.Get("delta")
		found = found || delta.Get("content").Str != "" || delta.Get("reasoning_content").Str != "" ||
			delta.Get("reasoning").Str != "" || len(delta.Get("tool_calls").Array()) > 0
		return !found
	})
	return found
}

func (o *outcome) count(data []byte) {
	usage := gjson.GetBytes(data, "usage")
	if !usage.IsObject() {
		return
	}
	o.counted = true
	o.Prompt, o.Output = usage.Get("prompt_tokens").Int(), usage.Get("completion_tokens").Int()
}

// perToken are the gaps between tokens. Where an event carries several, its gap is
// divided by how many they are on the average of this answer.
func (o *outcome) perToken() []float64 {
	share := 1.0
	if n := float64(len(o.Gaps)); o.counted && n > 0 && float64(o.Output-1) > n {
		share = n / float64(o.Output-1)
	}
	out := make([]float64, len(o.Gaps))
	for i, g := range o.Gaps {
		out[i] = inMilliseconds(g) * share
	}
	return out
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
