package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// The two options that make engines put running counts on every event.
const (
	optionContinuous = "continuous_usage_stats" // within stream_options
	optionTimings    = "timings_per_token"      // llama.cpp, at the top
)

// bodyPatience is how long a client may take for its first bytes, and for each
// further megabyte.
const bodyPatience = 60 * time.Second

// span is a place in a text; the zero value is none.
type span struct{ from, to int }

func (s span) some() bool { return s.to > s.from }

// request is a client's body and where the few things in it are that concern us.
// The body itself is never decoded and encoded again.
type request struct {
	body   []byte
	model  string
	stream bool

	modelAt   span
	streamAt  span
	optionsAt span // the value of stream_options
	timingsAt span
	// What tells conversations apart; see conversation.
	messagesAt, promptAt, inputAt, instructionsAt, cacheKeyAt span

	options gjson.Type // of stream_options, when there is one

	// bound is what the request says about how much it may produce; cap is how many tokens
	// of output its budgets can pay for, when it says nothing itself.
	bound bound
	cap   int64

	// What the client itself asked to see.
	wantsUsage, wantsRunning, wantsTimings bool
	// background asks for an answer that is fetched later: nobody would count it.
	background bool
}

// readBody reads a body up to the limit. A nil problem with a nil body means that
// the client left.
func (x *exchange) readBody() ([]byte, *problem) {
	limit := x.g.MaxBody
	tooLarge := &problem{status: http.StatusRequestEntityTooLarge, kind: typeInvalid, code: codeTooLarge,
		message: "The body of this request is larger than the limit of " + byteSize(limit) + "."}
	announced := x.r.ContentLength
	if announced > limit {
		return nil, tooLarge
	}
	// Memory follows what really arrives, not what a client announces.
	size := int64(4 << 10)
	if announced >= 0 {
		size = min(announced+1, 64<<10)
	}
	buf := make([]byte, 0, size)
	extend := 0
	for {
		if len(buf) >= extend {
			extend += 1 << 20
			if err := x.control.SetReadDeadline(time.Now().Add(bodyPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return nil, nil
			}
		}
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), max(announced, limit)+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, tooLarge
		case err == io.EOF:
			x.bodyRead = true
			if err := x.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return nil, nil
			}
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &problem{status: http.StatusRequestTimeout, kind: typeInvalid, code: "request_timeout",
				message: "The body of this request did not arrive in time. Send it again."}
		case err != nil:
			return nil, nil
		}
	}
}

// parseRequest finds what concerns us, in one pass over the top level.
func parseRequest(body []byte) (*request, *problem) {
	if !validJSON(body) {
		return nil, invalid("", "The body of this request is not valid JSON. Send one JSON object.")
	}
	// The text shares the body's memory; nothing of it is kept that is not cloned.
	doc := gjson.Result{Type: gjson.JSON, Raw: unsafe.String(unsafe.SliceData(body), len(body))}
	if !strings.HasPrefix(strings.TrimLeft(doc.Raw, " \t\r\n"), "{") {
		return nil, invalid("", "The body of this request is not a JSON object.")
	}
	q := &request{body: body}
	var p *problem
	doc.ForEach(func(key, value gjson.Result) bool {
		at := span{value.Index, value.Index + len(value.Raw)}
		seen := false
		switch key.Str {
		case "model":
			seen, q.modelAt = q.modelAt.some(), at
			if value.Type != gjson.String {
				p = invalid("model", "The field `model` has to be a text: the name of a model.")
				return false
			}
			q.model = strings.Clone(value.Str)
		case "stream":
			seen, q.streamAt = q.streamAt.some(), at
			q.stream, p = flag("stream", value)
		case "stream_options":
			seen, q.optionsAt, q.options = q.optionsAt.some(), at, value.Type
			p = q.readOptions(value)
		case "messages":
			q.messagesAt = at
			return true
		case "prompt":
			q.promptAt = at
			return true
		case "input":
			q.inputAt = at
			return true
		case "instructions":
			q.instructionsAt = at
			return true
		case "prompt_cache_key":
			if value.Type == gjson.String && value.Str != "" {
				q.cacheKeyAt = at
			}
			return true
		case optionTimings:
			seen, q.timingsAt = q.timingsAt.some(), at
			q.wantsTimings, p = flag(optionTimings, value)
		case "background":
			// Of two, and of what is no boolean, readers take one or the other for true.
			q.background = q.background || value.Type != gjson.False && value.Type != gjson.Null
			return true
		}
		if p == nil && seen {
			p = twice(key.Str)
		}
		return p == nil
	})
	if p == nil && q.model == "" {
		p = invalid("model", "The field `model` is missing. Name the model to use; GET /v1/models lists them.")
	}
	return q, p
}

// flag reads a field on which usage hangs. Engines take 1 or "true" for true and
// others do not, so that only the literals are let through.
func flag(field string, value gjson.Result) (bool, *problem) {
	switch value.Type {
	case gjson.True:
		return true, nil
	case gjson.False, gjson.Null:
		return false, nil
	}
	return false, invalid(field, "The field `"+field+"` has to be true or false.")
}

// twice refuses a field of which there are two. Readers disagree on which of them
// counts, and usage hangs on the answer.
func twice(field string) *problem {
	return invalid(field, "The field `"+field+"` is in this request twice. Send it once.")
}

// readOptions reads what the client's stream options ask for.
func (q *request) readOptions(options gjson.Result) (p *problem) {
	if !options.IsObject() {
		return nil // null, or for the engine to refuse
	}
	var usage, running bool // seen
	options.ForEach(func(key, value gjson.Result) bool {
		var seen, wants *bool
		switch key.Str {
		case "include_usage":
			seen, wants = &usage, &q.wantsUsage
		case optionContinuous:
			seen, wants = &running, &q.wantsRunning
		default:
			return true
		}
		field := "stream_options." + key.Str
		if *seen {
			p = twice(field)
			return false
		}
		*seen = true
		*wants, p = flag(field, value)
		return p == nil
	})
	return p
}

// edit replaces a span of a text.
type edit struct {
	span
	text string
}

// forEngine is the body as the engine gets it: under the name it answers to, and
// asked to say what it uses. Everything else is the client's, byte for byte.
func (q *request) forEngine(served string, streams bool, running string) []byte {
	var edits [3 + capEdits]edit
	n := 0
	if served != "" && served != q.model {
		edits[n] = edit{q.modelAt, string(mustJSON(served))}
		n++
	}
	insert := ""
	if q.stream && streams {
		options := ""
		switch {
		case !q.optionsAt.some() || q.options == gjson.Null:
			options = `{"include_usage":true}`
		case q.options == gjson.JSON:
			options = string(q.body[q.optionsAt.from:q.optionsAt.to])
			if !q.wantsUsage {
				options = setTrue(options, "include_usage")
			}
		}
		if running == optionContinuous && options != "" && !q.wantsRunning {
			options = setTrue(options, optionContinuous)
		}
		switch {
		case options == "": // of a type that the engine has to refuse
		case q.optionsAt.some():
			edits[n] = edit{q.optionsAt, options}
			n++
		default:
			insert = `"stream_options":` + options + ","
		}
		if running == optionTimings && !q.wantsTimings {
			if q.timingsAt.some() {
				edits[n] = edit{q.timingsAt, "true"}
				n++
			} else {
				insert += `"` + optionTimings + `":true,`
			}
		}
	}
	if q.cap > 0 {
		more, text := q.capEdits(edits[n:n])
		n += len(more)
		insert += text
	}
	if n == 0 && insert == "" {
		return q.body
	}
	return splice(nil, q.body, edits[:n], insert)
}

// setTrue sets a field of a small object. The object is known to be valid, so
// the only errors that sjson has cannot happen.
func setTrue(object, field string) string {
	if !strings.HasPrefix(object, "{") {
		return object // an array: for the engine to refuse
	}
	out, err := sjson.Set(object, field, true)
	if err != nil {
		return object
	}
	return out
}

// splice appends text to dst with edits made, and with insert right after the
// opening brace of the object that it is.
func splice(dst, text []byte, edits []edit, insert string) []byte {
	for i := 1; i < len(edits); i++ {
		for j := i; j > 0 && edits[j].from < edits[j-1].from; j-- {
			edits[j], edits[j-1] = edits[j-1], edits[j]
		}
	}
	if dst == nil {
		size := len(text) + len(insert)
		for _, e := range edits {
			size += len(e.text)
		}
		dst = make([]byte, 0, size)
	}
	at := 0
	if insert != "" {
		for text[at] != '{' {
			at++
		}
		at++
		dst = append(append(dst, text[:at]...), insert...)
	}
	for _, e := range edits {
		dst = append(append(dst, text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(dst, text[at:]...)
}
