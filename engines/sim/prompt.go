package sim

import (
	"encoding/json"
	"strings"
)

// What a chat template adds: to every message, and for the answer to begin.
const (
	messageTokens = 4
	answerTokens  = 3
	imageTokens   = 256
)

// prompt is one input to the model.
type prompt struct {
	tokens int
	text   string // what prefixes are compared by
}

func (p prompt) hash() uint64 { return hash(fnvOffset, p.text) }

// tokensIn is an estimate that is the same on every run: bytes by four, rounded up.
func tokensIn(s string) int { return (len(s) + bytesPerToken - 1) / bytesPerToken }

type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

func chatPrompt(messages []message, tools json.RawMessage) (prompt, *problem) {
	p := prompt{tokens: answerTokens}
	var all strings.Builder
	if len(tools) > 0 && string(tools) != "null" {
		p.tokens += tokensIn(string(tools))
		all.Write(tools)
	}
	for _, m := range messages {
		content, images, ok := contentOf(m.Content)
		if !ok || m.Role == "" {
			return prompt{}, badRequest("messages", "Each message needs a role, and a content that is a string or a list of parts.")
		}
		content += string(m.ToolCalls)
		p.tokens += messageTokens + tokensIn(content) + images*imageTokens
		all.WriteString("\x00" + m.Role + "\x00" + content)
	}
	p.text = all.String()
	return p, nil
}

// contentOf reads a message's content: text, parts, or nothing.
func contentOf(raw json.RawMessage) (content string, images int, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", 0, true
	}
	if json.Unmarshal(raw, &content) == nil {
		return content, 0, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", 0, false
	}
	for _, part := range parts {
		content += part.Text
		if part.Type != "text" {
			images++
		}
	}
	return content, images, true
}

// inputs reads a prompt or an embedding's input: a text, several, the tokens of one, or
// the tokens of several.
func inputs(raw json.RawMessage, param string) ([]prompt, *problem) {
	// A list that turns out to be of another kind is left behind half read, so each
	// attempt has a variable of its own.
	var one string
	var texts, many []string
	var ids []int
	var lists, some [][]int
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &one) == nil:
		many = []string{one}
	case json.Unmarshal(raw, &texts) == nil:
		many = texts
	case json.Unmarshal(raw, &ids) == nil:
		lists = [][]int{ids}
	case json.Unmarshal(raw, &some) == nil:
		lists = some
	}
	var out []prompt
	for _, s := range many {
		out = append(out, prompt{max(tokensIn(s), 1), s})
	}
	for _, l := range lists {
		b, _ := json.Marshal(l)
		out = append(out, prompt{max(len(l), 1), string(b)})
	}
	if len(out) == 0 {
		return nil, badRequest(param, "Give "+param+" as a string, a list of strings, or lists of token numbers, and not empty.")
	}
	return out, nil
}
