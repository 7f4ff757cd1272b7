package gateway

import (
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// counts are the tokens of a request, as an engine states them.
type counts struct{ prompt, cached, completion int64 }

// usageMode says which usage fields an answer keeps.
type usageMode int

const (
	usageAll   usageMode = iota // as the engine sends it
	usageFinal                  // the client asked for the total, the gateway for running counts
	usageNone                   // only the gateway asked
)

// view is what the client sees of the engine's chunks.
type view struct {
	usage       usageMode
	hideTimings bool
	name        string // what the client asked for
	nameJSON    string
}

// chunk is what one event's data says, found in one pass.
type chunk struct {
	done    bool // [DONE], or the event that ends a Responses stream
	failed  bool
	failure failure
	drop    bool // there only because the gateway asked

	choices int   // elements of the list
	first   int   // index of the first choice
	tokens  []int // the choices that carry tokens, by index

	usage, timings       counts
	hasUsage, hasTimings bool

	edits [4]edit
	n     int // how many of them
}

// read fills c from an event's data.
func (c *chunk) read(data []byte, v *view) {
	*c = chunk{tokens: c.tokens[:0]}
	if string(data) == "[DONE]" {
		c.done = true
		return
	}
	// Whether the rest is valid is not checked here: it would cost a second pass over
	// every event, and what is not passes on as it is.
	if len(data) == 0 || data[0] != '{' {
		return
	}
	if c.scan(data, v) {
		return
	}
	*c = chunk{tokens: c.tokens[:0]}
	c.parse(data, v)
}

// parse is read for events of any kind.
func (c *chunk) parse(data []byte, v *view) {
	doc := gjson.Result{Type: gjson.JSON, Raw: unsafe.String(unsafe.SliceData(data), len(data))}
	var kind, delta, response gjson.Result
	var hasError, hasMessage, hasChoices bool
	// Fields are cut together with the comma before them; cuts at the very start
	// reach to the first field that stays.
	prev, kept := 0, false
	usageEdit := -1
	doc.ForEach(func(key, value gjson.Result) bool {
		end := value.Index + len(value.Raw)
		cut := false
		switch key.Str {
		case "choices":
			hasChoices = true
			c.readChoices(value)
		case "usage":
			if value.IsObject() {
				c.usage, c.hasUsage = readUsage(value), true
				cut = v.usage != usageAll
			}
		case "timings":
			if value.IsObject() {
				c.timings, c.hasTimings = readTimings(value), true
				cut = v.hideTimings
			}
		case "model":
			if value.Type == gjson.String && value.Str != v.name && v.nameJSON != "" {
				c.add(edit{span{value.Index, end}, v.nameJSON})
			}
		case "error":
			hasError = value.Type != gjson.Null
		case "message":
			hasMessage = true
		case "type":
			kind = value
		case "delta":
			delta = value
		case "response":
			response = value
			if value.IsObject() {
				c.rename(value, v)
			}
		}
		switch {
		case cut:
			from := prev
			if !kept && prev == 0 {
				from = key.Index
			}
			if c.add(edit{span: span{from, end}}) && key.Str == "usage" {
				usageEdit = c.n - 1
			}
		case !kept:
			kept = true
			for i := range c.n {
				if e := &c.edits[i]; e.text == "" && e.to == prev {
					e.to = key.Index
				}
			}
		}
		prev = end
		return true
	})
	if hasError || (hasMessage && !hasChoices) {
		if c.failure, c.failed = readFailure(doc); c.failed {
			return
		}
	}
	if kind.Type == gjson.String && strings.HasPrefix(kind.Str, "response.") {
		c.readResponse(kind.Str, delta, response)
	}
	switch {
	case !c.hasUsage || c.choices > 0:
	case v.usage == usageNone:
		c.drop = true
	case v.usage == usageFinal && usageEdit >= 0:
		// The total, which the client did ask for.
		copy(c.edits[usageEdit:], c.edits[usageEdit+1:c.n])
		c.n--
	}
}

// rename puts the asked name into the object that events of the Responses API carry.
func (c *chunk) rename(response gjson.Result, v *view) {
	response.ForEach(func(key, value gjson.Result) bool {
		if key.Str != "model" {
			return true
		}
		if value.Type == gjson.String && value.Str != v.name && v.nameJSON != "" {
			c.add(edit{span{value.Index, value.Index + len(value.Raw)}, v.nameJSON})
		}
		return false
	})
}

// add takes an edit if there is room. There is, unless an engine repeats fields;
// then the repetition stays as it is.
func (c *chunk) add(e edit) bool {
	if c.n == len(c.edits) {
		return false
	}
	c.edits[c.n] = e
	c.n++
	return true
}

// readChoices looks for tokens. A role, an empty text or an empty delta is none.
func (c *chunk) readChoices(list gjson.Result) {
	list.ForEach(func(_, choice gjson.Result) bool {
		index, token := 0, false
		choice.ForEach(func(key, value gjson.Result) bool {
			switch key.Str {
			case "index":
				index = int(value.Num)
			case "text":
				token = token || carries(value)
			case "delta":
				value.ForEach(func(field, v gjson.Result) bool {
					switch field.Str {
					case "content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call":
						// Some versions send reasoning under both names: one token, not two.
						token = token || carries(v)
					}
					return !token
				})
			}
			return true
		})
		if c.choices == 0 {
			c.first = index
		}
		c.choices++
		if token {
			c.tokens = append(c.tokens, index)
		}
		return true
	})
}

// carries reports whether a value holds anything that an engine had to generate.
func carries(v gjson.Result) bool {
	switch {
	case v.Type == gjson.String:
		return v.Raw != `""`
	case v.Type == gjson.JSON:
		return strings.ContainsAny(v.Raw, `"0123456789`) // not [] and not {}
	}
	return false
}

// readResponse understands the typed events of the Responses API.
func (c *chunk) readResponse(kind string, delta, response gjson.Result) {
	if strings.HasSuffix(kind, ".delta") && carries(delta) {
		c.tokens = append(c.tokens, 0)
	}
	switch kind {
	case "response.completed", "response.incomplete":
		c.done = true
		if u := response.Get("usage"); u.IsObject() {
			c.usage, c.hasUsage = readUsage(u), true
		}
	case "response.failed":
		c.failed = true
		c.failure = failureOf(response.Get("error"))
	}
}

// readUsage reads either spelling. What is absurd is bent to the nearest sense:
// cached tokens are part of the prompt, and nothing is negative.
func readUsage(u gjson.Result) counts {
	var c counts
	var total int64
	hasPrompt := false
	u.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "prompt_tokens", "input_tokens":
			hasPrompt = v.Type == gjson.Number
			c.prompt = v.Int()
		case "completion_tokens", "output_tokens":
			c.completion = v.Int()
		case "total_tokens":
			total = v.Int()
		case "prompt_tokens_details", "input_tokens_details":
			c.cached = v.Get("cached_tokens").Int()
		}
		return true
	})
	if !hasPrompt {
		c.prompt = total - c.completion
	}
	return c.sane()
}

// readTimings reads llama.cpp's own account, which stands in for usage.
func readTimings(t gjson.Result) counts {
	cached := t.Get("cache_n").Int()
	return counts{prompt: cached + t.Get("prompt_n").Int(), cached: cached, completion: t.Get("predicted_n").Int()}.sane()
}

// tokensMost is more than any request comes to. What an engine says above it is no
// count, and must not make sums overflow.
const tokensMost = 1 << 40

func (c counts) sane() counts {
	c.prompt, c.completion = min(max(0, c.prompt), tokensMost), min(max(0, c.completion), tokensMost)
	c.cached = min(max(0, c.cached), c.prompt)
	return c
}
