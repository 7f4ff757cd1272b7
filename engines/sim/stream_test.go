package sim

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStreamHasTheShapeOfVLLM(t *testing.T) {
	_, url := start(t, Options{})
	status, body := post(t, url+"/v1/chat/completions", `{"model":"m","stream":true,"max_tokens":4,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`)
	got := chunks(t, body)
	if status != 200 || len(got) != 6 {
		t.Fatalf("%d, %d events:\n%s", status, len(got), body)
	}
	if d := got[0].Choices[0].Delta; d.Role != "assistant" || d.Content == nil || *d.Content != "" {
		t.Errorf("first event %+v", got[0])
	}
	for i, c := range got[1:5] {
		if c.Object != "chat.completion.chunk" || c.Model != "m" || c.Choices[0].Delta.Role != "" || *c.Choices[0].Delta.Content == "" || c.Usage != nil {
			t.Errorf("event %d: %+v", i+1, c)
		}
		if (c.Choices[0].Reason != nil) != (i == 3) {
			t.Errorf("event %d: reason %v", i+1, c.Choices[0].Reason)
		}
	}
	if *got[4].Choices[0].Reason != "length" {
		t.Errorf("reason %s", *got[4].Choices[0].Reason)
	}
	last := got[5]
	// hello is 2 tokens, a message 4, the answer's beginning 3.
	if last.Choices == nil || len(last.Choices) != 0 || last.Usage.Prompt != 9 || last.Usage.Completion != 4 || last.Usage.Total != 13 {
		t.Errorf("last event %+v", last)
	}
	if !strings.Contains(body, `"choices":[],"usage":{"prompt_tokens":9,"total_tokens":13,"completion_tokens":4}}`) {
		t.Errorf("usage is not in vLLM's order:\n%s", body)
	}
}

func TestUsageOnlyWhenItWasAskedFor(t *testing.T) {
	_, url := start(t, Options{})
	for options, want := range map[string]bool{
		``: false, `,"stream_options":{"include_usage":false}`: false, `,"stream_options":{"include_usage":false,"continuous_usage_stats":true}`: false,
		`,"stream_options":{}`: true, `,"stream_options":{"include_usage":true}`: true,
	} {
		_, body := post(t, url+"/v1/chat/completions", `{"stream":true,"max_tokens":2,"messages":[{"role":"user","content":"x"}]`+options+`}`)
		n := 0
		for _, c := range chunks(t, body) {
			if c.Usage != nil {
				n++
			}
		}
		if (n == 1) != want || n > 1 {
			t.Errorf("%q: %d events with usage, want %v", options, n, want)
		}
	}
}

func TestRunningUsageIsCumulativeAndOfOneChoice(t *testing.T) {
	_, url := start(t, Options{TokensPerEvent: 3})
	_, body := post(t, url+"/v1/chat/completions", `{"stream":true,"n":2,"max_tokens":5,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages":[{"role":"user","content":"x"}]}`)
	got := chunks(t, body)
	seen := map[int][]int{}
	for _, c := range got[:len(got)-1] {
		if c.Usage == nil || c.Usage.Total != c.Usage.Prompt+c.Usage.Completion {
			t.Fatalf("event without running usage: %+v", c)
		}
		seen[c.Choices[0].Index] = append(seen[c.Choices[0].Index], c.Usage.Completion)
	}
	for i := range 2 {
		// Role, the first token alone, three more, and the one that is left.
		if b, _ := json.Marshal(seen[i]); string(b) != "[0,1,4,5]" {
			t.Errorf("choice %d: %s", i, b)
		}
	}
	if last := got[len(got)-1]; last.Usage.Completion != 10 || last.Usage.Prompt != 8 {
		t.Errorf("last %+v", last.Usage)
	}
}

func TestAnswerWithoutALimitStopsByItself(t *testing.T) {
	_, url := start(t, Options{OutputTokens: 20})
	_, body := post(t, url+"/v1/chat/completions", `{"stream":true,"stream_options":{},"messages":[{"role":"user","content":"x"}]}`)
	got := chunks(t, body)
	end := got[len(got)-2]
	if *end.Choices[0].Reason != "stop" || *end.Choices[0].Delta.Content != "" {
		t.Errorf("end %+v", end)
	}
	n := got[len(got)-1].Usage.Completion
	if n < 10 || n > 30 {
		t.Errorf("%d tokens, want 10 to 30", n)
	}
	if tokens := len(got) - 3; tokens != n {
		t.Errorf("%d events with text for %d tokens", tokens, n)
	}
}

func TestPlainAnswerSaysTheSameAsAStream(t *testing.T) {
	_, url := start(t, Options{Seed: 3, NoPrefixCaching: true})
	for _, options := range []string{``, `,"max_tokens":7`, `,"n":2,"max_completion_tokens":9,"max_tokens":3`} {
		ask := `"messages":[{"role":"user","content":"tell me"}]` + options
		_, body := post(t, url+"/v1/chat/completions", `{`+ask+`}`)
		var plain chunk
		if err := json.Unmarshal([]byte(body), &plain); err != nil {
			t.Fatal(err)
		}
		_, body = post(t, url+"/v1/chat/completions", `{"stream":true,"stream_options":{},`+ask+`}`)
		got := chunks(t, body)
		texts, reasons := map[int]string{}, map[int]string{}
		for _, c := range got {
			for _, one := range c.Choices {
				texts[one.Index] += *one.Delta.Content
				if one.Reason != nil {
					reasons[one.Index] = *one.Reason
				}
			}
		}
		for _, one := range plain.Choices {
			if one.Message.Content != texts[one.Index] || *one.Reason != reasons[one.Index] || texts[one.Index] == "" {
				t.Errorf("%q choice %d: %q (%s) and %q (%s)", options, one.Index, one.Message.Content, *one.Reason, texts[one.Index], reasons[one.Index])
			}
		}
		if u := got[len(got)-1].Usage; *u != *plain.Usage {
			t.Errorf("%q: usage %+v and %+v", options, *plain.Usage, *u)
		}
	}
}

func TestTextDependsOnSeedPromptAndChoiceOnly(t *testing.T) {
	ask := func(seed uint64, options, content string) string {
		_, url := start(t, Options{Seed: seed})
		_, body := post(t, url+"/v1/chat/completions", `{"max_tokens":12,"messages":[{"role":"user","content":"`+content+`"}]`+options+`}`)
		var c chunk
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			t.Fatal(err)
		}
		return c.Choices[0].Message.Content
	}
	first := ask(1, "", "a")
	if again := ask(1, "", "a"); again != first {
		t.Errorf("%q, then %q", first, again)
	}
	if again := ask(1, `,"n":2`, "a"); again != first {
		t.Errorf("%q with one choice, %q with two", first, again)
	}
	for what, other := range map[string]string{"another seed": ask(2, "", "a"), "the request's seed": ask(1, `,"seed":1`, "a"), "another prompt": ask(1, "", "b")} {
		if other == first {
			t.Errorf("%s gives the same text", what)
		}
	}
}

func TestCompletionsOfSeveralPrompts(t *testing.T) {
	_, url := start(t, Options{})
	_, body := post(t, url+"/v1/completions", `{"prompt":["12345678","1234"],"n":2,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`)
	got := chunks(t, body)
	tokens := map[int]int{}
	for _, c := range got {
		for _, one := range c.Choices {
			tokens[one.Index]++
			if c.Object != "text_completion" || one.Text == "" {
				t.Errorf("%+v", c)
			}
		}
	}
	for i := range 4 {
		if tokens[i] != 3 {
			t.Errorf("choice %d has %d events", i, tokens[i])
		}
	}
	if u := got[len(got)-1].Usage; u.Prompt != 3 || u.Completion != 12 {
		t.Errorf("usage %+v", u)
	}
	_, body = post(t, url+"/v1/completions", `{"prompt":[1,2,3,4,5]}`)
	if !strings.Contains(body, `"prompt_tokens":5,`) || !strings.Contains(body, `"completion_tokens":16,`) {
		t.Errorf("token numbers: %s", body)
	}
}
