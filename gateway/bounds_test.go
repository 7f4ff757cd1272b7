package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestWhatARequestMayComeTo(t *testing.T) {
	image := "data:image/png;base64," + strings.Repeat("iVBORw0K", 50_000)
	eight := strings.Repeat("x", 32) // tokens, at four bytes each
	for _, c := range []struct {
		endpoint, body string
		context        int64
		estimate       int64
		output         int64
		exact          bool
	}{
		{"chat.completions", `{"messages":[{"role":"user","content":"` + eight + `"}],"max_tokens":7}`, 0, 9, 7, true},
		{"chat.completions", `{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":9,"max_tokens":7}`, 0, 1, 9, true},
		{"chat.completions", `{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":9,"max_tokens":null}`, 0, 1, 9, true},
		{"chat.completions", `{"messages":[],"max_tokens":7,"n":3}`, 0, 1, 21, true},
		{"chat.completions", `{"messages":[],"max_tokens":7,"n":3,"best_of":5}`, 0, 1, 35, true},
		{"chat.completions", `{"messages":[],"max_tokens":7,"n":null}`, 0, 1, 7, true},
		{"chat.completions", `{"messages":[],"max_tokens":7,"n":-4}`, 0, 1, 7, true},
		{"chat.completions", `{"messages":[],"max_tokens":7,"n_predict":30}`, 0, 1, 30, true},
		{"chat.completions", `{"messages":[],"max_tokens":7,"n_predict":-1}`, 100, 1, 99, false},
		{"chat.completions", `{"messages":[],"max_tokens":"12"}`, 0, 1, 12, true},
		{"chat.completions", `{"messages":[],"max_tokens":6.5}`, 0, 1, 7, true},
		{"chat.completions", `{"messages":[],"max_tokens":true}`, 100, 1, 99, false},
		{"chat.completions", `{"messages":[],"max_tokens":1e30}`, 4096, 1, 4095, true},
		{"chat.completions", `{"messages":[],"max_tokens":1e30,"n":1e30}`, 0, 1, outputMost * answersMost, true},
		{"chat.completions", `{"messages":[],"max_output_tokens":5}`, 100, 1, 99, false},
		{"chat.completions", `{"messages":[{"content":"` + eight + `"}],"max_tokens":5000}`, 100, 8, 92, true},
		{"chat.completions", `{"messages":[{"content":"` + eight + `"}]}`, 4, 8, 1, false},
		{"chat.completions", `{"messages":[{"content":"a"}],"tools":[{"type":"function","function":{"name":"` + eight + `","parameters":{}}}],"max_tokens":1}`, 0, 10, 1, true},
		{"chat.completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"` + eight + `"},{"type":"image_url","image_url":{"url":"` + image + `"}}]}],"max_tokens":1}`, 0, 1012, 1, true},
		{"chat.completions", `{"messages":[{"role":"user","content":"` + eight + `","x":[1,2,{"y":"` + eight + `"}]}],"max_tokens":1}`, 0, 19, 1, true},
		// Elsewhere in the request there is nothing that a model reads.
		{"chat.completions", `{"messages":[],"user":"` + eight + `","metadata":{"a":"` + eight + `"},"max_tokens":1}`, 0, 1, 1, true},
		{"completions", `{"prompt":"` + eight + `","max_tokens":5,"max_completion_tokens":90}`, 0, 8, 5, true},
		{"completions", `{"prompt":["` + eight + `","` + eight + `"],"max_tokens":5,"n":2}`, 0, 16, 20, true},
		{"completions", `{"prompt":[1,2,3,4,5,6],"max_tokens":5}`, 0, 6, 5, true},
		{"completions", `{"prompt":[[1,2,3],[4,5]],"max_tokens":5}`, 0, 5, 10, true},
		{"completions", `{"prompt":[],"max_tokens":5}`, 0, 1, 5, true},
		{"completions", `{"prompt":"a","suffix":"` + eight + `","max_tokens":5}`, 0, 8, 5, true},
		{"responses", `{"input":"` + eight + `","instructions":"` + eight + `","max_output_tokens":5,"max_tokens":9}`, 0, 16, 5, true},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + image + `"}]}],"max_output_tokens":5}`, 0, 1003, 5, true},
		{"embeddings", `{"input":["` + eight + `","` + eight + `"],"max_tokens":9}`, 0, 16, 0, true},
		{"embeddings", `{"input":[[1,2,3],[4,5,6]]}`, 0, 6, 0, true},
		{"rerank", `{"query":"` + eight + `","documents":["` + eight + `","` + eight + `","` + eight + `"]}`, 0, 49, 0, true},
	} {
		if !json.Valid([]byte(c.body)) {
			t.Fatalf("%.80s is no JSON", c.body)
		}
		b := readBound([]byte(c.body), c.endpoint, "llamacpp")
		output, exact := b.outputTokens(c.context, b.estimate)
		if b.estimate != c.estimate || output != c.output || exact != c.exact {
			t.Errorf("%s %.120s: prompt %d, output %d, exact %v; want %d, %d, %v", c.endpoint, c.body, b.estimate, output, exact, c.estimate, c.output, c.exact)
		}
		if most := b.promptMost(0); most < b.estimate {
			t.Errorf("%.80s: at most %d, likely %d", c.body, most, b.estimate)
		}
		if c.context > 0 && b.promptMost(c.context) > c.context {
			t.Errorf("%.80s: more than the context", c.body)
		}
	}
}

// What nobody can see in a request is bounded by the context alone.
func TestPromptsThatAreNotInTheRequestFillTheContext(t *testing.T) {
	for _, body := range []string{
		`{"input":"hi","previous_response_id":"r1"}`,
		`{"input":"hi","conversation":{"id":"c1"}}`,
		`{"messages":[{"content":[{"type":"video_url","video_url":{"url":"https://x.example/long.mp4"}}]}]}`,
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:video/mp4;base64,AAAA"}}]}]}`,
		`{"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`,
		`{"messages":[],"chat_template":"{% for i in range(100000) %}x{% endfor %}"}`,
	} {
		b := readBound([]byte(body), "responses", "vllm")
		if got := b.promptMost(131072); got != 131072 {
			t.Errorf("%s: at most %d", body, got)
		}
	}
	for _, body := range []string{`{"input":"hi","previous_response_id":null}`, `{"messages":[{"content":"previous_response_id"}]}`} {
		if b := readBound([]byte(body), "responses", "vllm"); b.promptMost(131072) > 3000 {
			t.Errorf("%s: at most %d", body, b.promptMost(131072))
		}
	}
}

// A data URL in running text is text, and is paid for as such.
func TestTextThatLooksLikeMediaIsText(t *testing.T) {
	text := "data:image/png;base64," + strings.Repeat("word ", 10_000)
	b := readBound([]byte(`{"messages":[{"role":"user","content":"`+text+`"}],"max_tokens":5}`), "chat.completions", "vllm")
	if b.promptMost(0) < int64(len(text)) || b.estimate < int64(len(text))/5 {
		t.Errorf("likely %d, at most %d", b.estimate, b.promptMost(0))
	}
}

func FuzzWeight(f *testing.F) {
	f.Add(`{"a":"b","c":["d","\"e\\","é\n"],"url":"x","f":-1.5e3}`)
	f.Add(`"\\"`)
	f.Fuzz(func(t *testing.T, raw string) {
		var v any
		if json.Unmarshal([]byte(raw), &v) != nil {
			return
		}
		var w weight
		w.read(raw)
		numbers, media, text := walk(v, "")
		// Escapes and bytes that are no UTF-8 are counted from how they are written.
		if w.numbers != numbers && !strings.Contains(raw, `"`) || w.text < 0 || w.text+w.mediaBytes > int64(len(raw)) {
			t.Errorf("%q: %+v, want %d numbers, %d media, %d bytes", raw, w, numbers, media, text)
		}
		if !strings.Contains(raw, `\`) && strings.ToValidUTF8(raw, "") == raw && strings.Count(raw, ":") < 2 && (w.text != text || w.media != media) {
			t.Errorf("%q: %+v, want %d media, %d bytes", raw, w, media, text)
		}
	})
}

// walk does what weight.read does, with everything decoded.
func walk(v any, key string) (numbers, media, text int64) {
	add := func(n, m, x int64) { numbers, media, text = numbers+n, media+m, text+x }
	switch v := v.(type) {
	case float64:
		return 1, 0, 0
	case string:
		switch key {
		case "url", "image_url", "image", "data", "file_data", "file_url":
			return 0, 1, 0
		}
		return 0, 0, int64(len(v))
	case []any:
		for i, e := range v {
			if i > 0 {
				key = ""
			}
			add(walk(e, key))
		}
	case map[string]any:
		for k, e := range v {
			add(walk(e, k))
		}
	}
	return numbers, media, text
}

func TestOnlyWhatIsSureCanNeverFit(t *testing.T) {
	n := need{known: true, bound: &bound{answers: 1}, prompt: 500, output: 50, total: 550, exact: true}
	for _, c := range []struct {
		kind          factory.LimitKind
		limit         int64
		exact         bool
		amount, least int64
	}{
		{factory.LimitTokens, 1000, true, 550, 550},
		{factory.LimitTokens, 100, true, 100, 100}, // the guess of the prompt may be wrong
		{factory.LimitTokens, 50, true, 550, 550},  // 50 and one for the prompt are too many for sure
		{factory.LimitTokens, 1000, false, 550, 501},
		{factory.LimitTokens, 100, false, 100, 100},
		{factory.LimitInputTokens, 1000, true, 500, 500},
		{factory.LimitInputTokens, 10, true, 10, 10},
		{factory.LimitOutputTokens, 50, true, 50, 50},
		{factory.LimitOutputTokens, 49, true, 50, 50},
		{factory.LimitOutputTokens, 49, false, 49, 1},
	} {
		n.exact = c.exact
		claim := Claim{Kind: c.kind, Limit: c.limit}
		if n.tokens(&claim); claim.Amount != c.amount || claim.Least != c.least {
			t.Errorf("%+v: %d, at least %d", c, claim.Amount, claim.Least)
		}
	}
}
