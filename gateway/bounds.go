package gateway

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// How prompts are judged before an engine has counted them.
const (
	// bytesPerToken is what common vocabularies come to in running text.
	bytesPerToken = 4
	// imageTokens is what an image is taken for; imageMost is what the hungriest models
	// make of a large one.
	imageTokens = 1000
	imageMost   = 16 << 10
	// templateMost is what a model's own template adds to a prompt beside its parts.
	templateMost = 2 << 10
	// outputMost stands for no bound where a context length is not known either.
	outputMost = 16 << 20
)

// bound is what a request says about how much it will consume, as far as that can
// be read without a tokenizer. It is read when a limit asks for it, once.
type bound struct {
	read bool
	// estimate is the likely number of prompt tokens, at least 1.
	estimate int64
	// most is more than the prompt can come to; endless when only the context length
	// says that.
	most    int64
	endless bool
	// answers is how many are asked for: choices times prompts. items is how many texts
	// have a context of their own: prompts, inputs to embed, documents to rank.
	answers, items int64
	// engine is the one whose fields were looked for.
	engine string
	// twice is a field that bounds the request and is there twice.
	twice string
	// stated is the most tokens of each answer, when the request says so.
	stated bool
	output int64
	// field is where to write a bound; at is where there are values that are none.
	field string
	at    []span
	// none says that there is no output: embeddings and reranking.
	none bool
}

// outputFields are where a request bounds its output, by endpoint. Engines read
// different ones, so the largest counts.
var outputFields = map[string][]string{
	"chat.completions": {"max_tokens", "max_completion_tokens"},
	"completions":      {"max_tokens"},
	"responses":        {"max_output_tokens"},
}

// llamaField is llama.cpp's own bound, which goes before the others there. Other
// engines do not know it.
const llamaField = "n_predict"

// answersMost bounds choices times prompts, so that no product of it overflows.
const answersMost = 16 << 20

// readBound reads what a request of an endpoint says to an engine, in place.
func readBound(body []byte, endpoint, engine string) bound {
	b := bound{read: true, answers: 1, items: 1, engine: engine}
	fields, generates := outputFields[endpoint]
	if generates && engine == "llamacpp" && endpoint != "responses" {
		fields = append(fields[:len(fields):len(fields)], llamaField)
	}
	if b.none = !generates; generates {
		b.field = fields[0]
	}
	doc := gjson.Result{Type: gjson.JSON, Raw: unsafe.String(unsafe.SliceData(body), len(body))}
	choices, prompts, documents, query := int64(1), int64(1), int64(0), int64(0)
	var seen [3]bool // of fields
	var choicesSeen [2]bool
	promptSeen, unusable := false, false
	var w weight
	doc.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "input":
			w.read(value.Raw)
			if endpoint == "embeddings" {
				prompts = max(prompts, promptsIn(value))
			}
		case "messages", "instructions", "tools", "functions", "response_format", "text", "suffix":
			w.read(value.Raw)
		case "prompt":
			w.read(value.Raw)
			prompts = max(prompts, promptsIn(value))
			b.repeated(&promptSeen, key.Str)
		case "documents":
			w.read(value.Raw)
			documents = int64(strings.Count(value.Raw, ",")) + 1
			if value.IsArray() {
				documents = value.Get("#").Int()
			}
		case "query":
			w.read(value.Raw)
			query = int64(len(value.Raw))
		case "n", "best_of":
			choices = max(choices, amountOf(value, answersMost))
			b.repeated(&choicesSeen[len(key.Str)/len("best_of")], key.Str)
		case "previous_response_id", "conversation", "chat_template":
			// What else the engine puts into the prompt is known to it alone.
			b.endless = b.endless || value.Type != gjson.Null
		}
		for i, f := range fields {
			if key.Str != f {
				continue
			}
			b.repeated(&seen[i], f)
			if b.twice != "" {
				continue
			}
			b.at = append(b.at, span{value.Index, value.Index + len(value.Raw)})
			if value.Type == gjson.Null {
				continue
			}
			n := amountOf(value, outputMost)
			if value.Type == gjson.Number && value.Num == 0 {
				n = 1 // nothing is asked for, as of a prompt that is to be scored; some engines make one token
			}
			unusable = unusable || n < 1
			b.stated, b.output = true, max(b.output, n)
		}
		return true
	})
	if unusable {
		b.stated, b.output = false, 0
	}
	b.endless = b.endless || w.endless
	// The query goes with each of the documents.
	again := query * max(0, documents-1)
	b.estimate = max(1, (w.text+again)/bytesPerToken+w.numbers+w.media*imageTokens)
	b.most = int64(len(body)) - w.mediaBytes + again + w.media*imageMost + templateMost
	b.items = max(prompts, documents)
	b.answers = min(choices*prompts, answersMost)
	return b
}

// repeated notes a field that is there twice: readers disagree on which of two counts.
func (b *bound) repeated(seen *bool, field string) {
	if *seen && b.twice == "" {
		b.twice = field
	}
	*seen = true
}

// amountOf is a positive whole number, as engines take it: texts of digits too. What
// is none is 0, and what is larger than most is most.
func amountOf(v gjson.Result, most int64) int64 {
	if v.Type != gjson.Number && v.Type != gjson.String {
		return 0
	}
	f := v.Float()
	switch {
	case !(f > 0):
		return 0
	case f > float64(most):
		return most
	case f != float64(int64(f)):
		return int64(f) + 1
	}
	return int64(f)
}

// promptsIn counts the prompts of a completion: a list of texts or of lists of
// tokens is several, one list of tokens is one.
func promptsIn(v gjson.Result) int64 {
	if !v.IsArray() {
		return 1
	}
	n := int64(0)
	v.ForEach(func(_, e gjson.Result) bool {
		if e.Type == gjson.Number {
			n = 1
			return false
		}
		n++
		return true
	})
	return max(1, n)
}

// promptMost bounds the prompt from above; context is 0 when it is not known.
func (b *bound) promptMost(context int64) int64 {
	switch {
	case context > 0 && (b.endless || b.most > context*b.items):
		return context * b.items
	}
	return b.most
}

// outputMost bounds all answers together, given how long a prompt leaves room for
// how much. Exact says that the request or its kind is the bound.
func (b *bound) outputTokens(context, prompt int64) (tokens int64, exact bool) {
	if b.none {
		return 0, true
	}
	each := int64(outputMost)
	if context > 0 {
		each = min(each, max(1, context-prompt/b.items))
	}
	if b.stated {
		each = min(each, b.output)
	}
	return each * b.answers, b.stated
}

// weight adds up what is in a part of a request. It reads valid JSON without
// copying anything of it.
type weight struct {
	text       int64 // bytes of texts that are not media
	numbers    int64 // tokens that were sent as such
	media      int64
	mediaBytes int64
	endless    bool // there is sound or film, which may be as long as the context
}

// read adds the parts of one value.
func (w *weight) read(raw string) {
	key := ""
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end := endOfText(raw, i+1)
			inside := raw[i+1 : end]
			i = end + 1
			for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
				i++
			}
			if i < len(raw) && raw[i] == ':' {
				i++
				key = inside
				if strings.IndexByte(key, '\\') >= 0 {
					w.endless = true // a name in disguise
				}
				switch key {
				case "video_url", "audio_url", "input_audio", "input_video", "input_file":
					w.endless = true
				}
				continue
			}
			w.string(key, inside)
			key = ""
		case c == '-' || c >= '0' && c <= '9':
			for i < len(raw) && strings.IndexByte("+-.eE0123456789", raw[i]) >= 0 {
				i++
			}
			w.numbers++
		case c == '{' || c == ',':
			key = ""
			i++
		default:
			i++
		}
	}
}

// string adds a text that stands under a key; inside a list the key is empty.
func (w *weight) string(key, s string) {
	switch key {
	case "url", "image_url", "image", "data", "file_data", "file_url":
		if strings.HasPrefix(s, "data:video/") || strings.HasPrefix(s, "data:audio/") || key == "data" || strings.HasPrefix(key, "file") {
			w.endless = true
		}
		w.media++
		w.mediaBytes += int64(len(s))
		return
	}
	n := int64(len(s))
	for i := strings.IndexByte(s, '\\'); i >= 0 && i+1 < len(s); {
		skip := 2
		if s[i+1] == 'u' {
			skip = 6
			n -= 3 // most of what is written so has three bytes
		} else {
			n--
		}
		i = min(i+skip, len(s))
		next := strings.IndexByte(s[i:], '\\')
		if next < 0 {
			break
		}
		i += next
	}
	w.text += n
}

// endOfText is where the quote is that ends a text which begins at from.
func endOfText(raw string, from int) int {
	b := unsafe.Slice(unsafe.StringData(raw), len(raw))
	for i := from; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(raw) // not valid; nobody gets here
		}
		i += n
		slashes := 0
		for j := i - 1; j >= from && b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		i++
	}
}
