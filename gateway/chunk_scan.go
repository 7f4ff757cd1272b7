package gateway

import "bytes"

// scan fills c from the data of an ordinary event: one choice with a delta or a text,
// perhaps with usage. Nearly all events are such, and to understand them is most of
// what the gateway itself does in a stream. Of anything else it keeps its hands off:
// it reports false, and parse has a closer look. What it finds is what parse would find.
func (c *chunk) scan(data []byte, v *view) bool {
	o := fields{b: data}
	var cut edit
	var hasChoices, hasUsage, hasModel, kept bool
	prev := 0
	for o.next() {
		value := o.value
		switch string(o.key) {
		case "error", "message", "type", "delta", "response", "timings":
			return false
		case "choices":
			if hasChoices || !c.scanChoices(o.text()) {
				return false
			}
			hasChoices = true
		case "usage":
			if hasUsage {
				return false
			}
			hasUsage = true
			if text := o.text(); string(text) != "null" {
				if !c.scanUsage(text) {
					return false
				}
				// Beside a choice, usage is a running count: it goes when the gateway asked.
				if v.usage != usageAll {
					if !kept {
						return false // there is no comma before it to go with it
					}
					cut = edit{span: span{prev, value.to}}
				}
			}
		case "model":
			text := o.text()
			if hasModel || text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
				return false
			}
			if hasModel = true; string(text[1:len(text)-1]) != v.name && v.nameJSON != "" {
				c.add(edit{value, v.nameJSON})
			}
		}
		kept = kept || cut.to != value.to
		prev = value.to
	}
	if !o.whole || !hasChoices {
		return false
	}
	if cut.some() {
		c.add(cut)
	}
	return true
}

// scanChoices reads a list of exactly one choice.
func (c *chunk) scanChoices(list []byte) bool {
	from := skipSpace(list, 1)
	if list[0] != '[' || from == len(list) || list[from] != '{' {
		return false
	}
	to := skipValue(list, from)
	if to < 0 || skipSpace(list, to) != len(list)-1 {
		return false
	}
	o := fields{b: list[from:to]}
	var hasIndex, hasText, hasDelta, token bool
	for o.next() {
		text := o.text()
		switch string(o.key) {
		case "index":
			n, ok := wholeNumber(text)
			if hasIndex || !ok {
				return false
			}
			hasIndex, c.first = true, int(n)
		case "text":
			if hasText {
				return false
			}
			hasText, token = true, token || holdsText(text)
		case "delta":
			if hasDelta {
				return false
			}
			hasDelta = true
			if text[0] != '{' {
				continue
			}
			d := fields{b: text}
			for d.next() {
				switch string(d.key) {
				case "content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call":
					token = token || holdsText(d.text())
				}
			}
			if !d.whole {
				return false
			}
		}
	}
	c.choices = 1
	if token {
		c.tokens = append(c.tokens, c.first)
	}
	return o.whole
}

// scanUsage reads usage in the spelling of chat and completions.
func (c *chunk) scanUsage(text []byte) bool {
	if text[0] != '{' {
		return false
	}
	o := fields{b: text}
	var u counts
	var hasPrompt, hasCompletion bool
	for o.next() {
		var has *bool
		var into *int64
		switch string(o.key) {
		case "input_tokens", "output_tokens", "input_tokens_details":
			return false
		case "prompt_tokens_details":
			if string(o.text()) != "null" {
				return false
			}
			continue
		case "prompt_tokens":
			has, into = &hasPrompt, &u.prompt
		case "completion_tokens":
			has, into = &hasCompletion, &u.completion
		default:
			continue
		}
		n, ok := wholeNumber(o.text())
		if *has || !ok {
			return false
		}
		*has, *into = true, n
	}
	c.usage, c.hasUsage = u, true
	return o.whole && hasPrompt
}

// holdsText is carries for a value that was not parsed.
func holdsText(value []byte) bool {
	switch value[0] {
	case '"':
		return len(value) > 2
	case '{', '[':
		return bytes.ContainsAny(value, `"0123456789`)
	}
	return false
}

func wholeNumber(text []byte) (int64, bool) {
	if len(text) > 15 {
		return 0, false
	}
	var n int64
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	return n, true
}

// fields goes through the fields of the object that a text is, as long as they are
// what engines write.
type fields struct {
	b     []byte
	i     int
	key   []byte
	value span
	whole bool // the object ended, and the text with it
}

func (o *fields) text() []byte { return o.b[o.value.from:o.value.to] }

// next goes to the next field.
func (o *fields) next() bool {
	b := o.b
	i := skipSpace(b, o.i)
	if i == len(b) {
		return false
	}
	switch {
	case o.i == 0:
		if b[i] != '{' || i > 0 {
			return false
		}
	case b[i] == '}':
		o.whole = i+1 == len(b)
		return false
	case b[i] != ',':
		return false
	}
	i = skipSpace(b, i+1)
	if i == len(b) || b[i] != '"' {
		o.whole = i+1 == len(b) && b[i] == '}' && o.i == 0
		return false
	}
	end := skipText(b, i+1)
	if end < 0 {
		return false
	}
	if o.key = b[i+1 : end-1]; len(o.key) == 0 || bytes.IndexByte(o.key, '\\') >= 0 {
		return false
	}
	if i = skipSpace(b, end); i == len(b) || b[i] != ':' {
		return false
	}
	from := skipSpace(b, i+1)
	to := skipValue(b, from)
	if to <= from {
		return false
	}
	o.value, o.i = span{from, to}, to
	return true
}

// skipValue goes behind a value; -1 when there is none. It does not look whether
// numbers and words are well written.
func skipValue(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return skipText(b, i+1)
	case c == '{' || c == '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				if i = skipText(b, i+1) - 1; i < 0 {
					return -1
				}
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return -1
	case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
			i++
		}
		return i
	}
	return -1
}
