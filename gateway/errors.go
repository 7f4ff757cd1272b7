package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"tokenfactory/factory"
)

// Types and codes of the error envelope, as OpenAI's clients know them.
const (
	typeInvalid    = "invalid_request_error"
	typePermission = "permission_error"
	typeRate       = "rate_limit_error"
	typeServer     = "server_error"
	typeUpstream   = "upstream_error"
	typeQuota      = "insufficient_quota"

	codeKey         = "invalid_api_key"
	codeScope       = "insufficient_scope"
	codeModel       = "model_not_found"
	codeTooLarge    = "request_too_large"
	codeRate        = "rate_limit_exceeded"
	codeQuota       = "insufficient_quota"
	codeNoReplica   = "no_replica_ready"
	codeUnavailable = "service_unavailable"
	codeUpstream    = "upstream_failed"
	codeOverloaded  = "engine_overloaded"
	codeURL         = "unknown_url"
)

// retrySoon is what a client is told to wait when the cause passes by itself at a
// time that nobody knows. Routes are read anew at least every second.
const retrySoon = 2 * time.Second

// problem is a refusal, as it goes to the client.
type problem struct {
	status     int
	kind       string // "type" of the envelope
	code       string
	param      string
	message    string
	retryAfter time.Duration
	noRetry    bool          // clients need not repeat the request on their own
	final      bool          // no other deployment changes it
	scope      factory.Scope // whose limit it is, of refusals by a limit
	kept       *keptOut      // by which limit, to be counted
	allow      string        // for 405
	// body replaces the envelope: an engine's own answer, passed as it is.
	body []byte
}

func invalid(param, message string) *problem {
	return &problem{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_request", param: param, message: message}
}

func unavailable(message string) *problem {
	return &problem{status: http.StatusServiceUnavailable, kind: typeServer, code: codeUnavailable, message: message, retryAfter: retrySoon}
}

func noReplica(model string) *problem {
	return &problem{status: http.StatusServiceUnavailable, kind: typeServer, code: codeNoReplica, retryAfter: retrySoon,
		message: "No replica of the model " + quote(model) + " is ready. Try again in a moment."}
}

func upstreamFailed() *problem {
	return &problem{status: http.StatusBadGateway, kind: typeUpstream, code: codeUpstream,
		message: "The engine broke off before it answered. Try again."}
}

// quote makes a client's own words safe and short enough to name in a message.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "…"
	}
	return "`" + strings.ToValidUTF8(s, "\uFFFD") + "`"
}

type envelope struct {
	Error envelopeError `json:"error"`
}

type envelopeError struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Param   *string         `json:"param"`
	Code    json.RawMessage `json:"code"`
}

func (p *problem) envelope() []byte {
	if p.body != nil {
		return p.body
	}
	e := envelopeError{Message: p.message, Type: p.kind, Code: jsonText(p.code)}
	if p.param != "" {
		e.Param = &p.param
	}
	return mustJSON(envelope{e})
}

// event is the refusal as an event of a stream whose header is out already.
func (p *problem) event() []byte {
	if f, ok := readFailure(gjson.ParseBytes(p.body)); ok {
		return f.event()
	}
	return append(append([]byte("data: "), p.envelope()...), "\n\n"...)
}

func jsonText(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	return mustJSON(s)
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b
}

// flag is how an engine's refusal is kept. When the request is at fault, as the
// status says, the engine did its part: it failed nobody.
func (p *problem) flag() string {
	if p.status < http.StatusInternalServerError {
		return ""
	}
	return factory.FlagFailed
}

// headers sets what a refusal says outside its body.
func (p *problem) headers(h http.Header) {
	h["Content-Type"] = []string{"application/json"}
	if p.retryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(wholeSeconds(p.retryAfter))}
		ms := (p.retryAfter + time.Millisecond - 1) / time.Millisecond
		h["Retry-After-Ms"] = []string{strconv.FormatInt(int64(ms), 10)}
	}
	if p.scope != "" {
		h[headerScope] = []string{string(p.scope)}
	}
	if p.noRetry {
		h["X-Should-Retry"] = []string{"false"}
	}
	if p.allow != "" {
		h["Allow"] = []string{p.allow}
	}
}

// wholeSeconds rounds up: a client that waits as told must be let in.
func wholeSeconds(d time.Duration) int {
	return max(1, int((d+time.Second-1)/time.Second))
}

// failure is an engine's own account of what went wrong, in any of the shapes that
// engines use.
type failure struct {
	message string
	kind    string
	param   string
	code    json.RawMessage // a number, a string or null, as the engine wrote it
}

// readFailure understands {"error":{…}}, {"error":"text"}, and the flat
// {"object":"error","message":…} and {"message","type","code"}. Anything else is none.
func readFailure(doc gjson.Result) (failure, bool) {
	if !doc.IsObject() {
		return failure{}, false
	}
	e := doc.Get("error")
	switch {
	case e.IsObject():
		return failureOf(e), true
	case e.Type == gjson.String:
		return failure{message: e.Str, kind: doc.Get("error_type").String()}, true
	case e.Type != gjson.Null:
		return failure{message: e.Raw}, true
	}
	if flat := doc.Get("message"); flat.Type == gjson.String && !doc.Get("choices").Exists() &&
		(doc.Get("object").Str == "error" || doc.Get("type").Exists() || doc.Get("code").Exists()) {
		return failureOf(doc), true
	}
	return failure{}, false
}

func failureOf(e gjson.Result) failure {
	f := failure{message: e.Get("message").String(), kind: e.Get("type").String(), param: e.Get("param").String()}
	if f.message == "" {
		f.message = e.Raw
	}
	// What an engine wrote while it died need not be valid.
	if code := e.Get("code"); (code.Type == gjson.Number || code.Type == gjson.String) && gjson.Valid(code.Raw) {
		f.code = json.RawMessage(code.Raw)
	}
	return f
}

// event is the failure as one event of a stream. Its type tells our clients where
// it came from; the words and the code are the engine's.
func (f failure) event() []byte {
	const most = 2000
	message := f.message
	if message == "" {
		message = "The engine broke off in the middle of its answer. What was sent is not complete."
	}
	for len(message) > most || !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message[:min(len(message), most)], "")
	}
	e := envelopeError{Message: message, Type: typeUpstream, Code: f.code}
	if e.Code == nil {
		e.Code = jsonText(codeUpstream)
	}
	b := append([]byte("data: "), mustJSON(envelope{e})...)
	return append(b, "\n\n"...)
}

// problem is the failure as a refusal, when nothing was sent yet.
func (f failure) problem() *problem {
	status := http.StatusBadGateway
	if n, err := strconv.Atoi(string(f.code)); err == nil && n >= 400 && n <= 599 {
		status = n
	}
	e := envelopeError{Message: f.message, Type: f.kind, Code: f.code}
	if e.Message == "" {
		e.Message = upstreamFailed().message
	}
	if e.Type == "" {
		e.Type = typeUpstream
	}
	return engineProblem(status, mustJSON(envelope{e}), 0)
}

// engineProblem turns an engine's refusal into ours. An envelope that clients
// understand passes byte for byte; other shapes are put into one.
func engineProblem(status int, body []byte, retryAfter time.Duration) *problem {
	p := &problem{status: status, retryAfter: retryAfter}
	if retryAfter == 0 && (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		p.retryAfter = retrySoon
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusPaymentRequired || status == http.StatusForbidden:
		// The client's key is fine: clients switch a provider off when they see these.
		return &problem{status: http.StatusBadGateway, kind: typeUpstream, code: codeUpstream,
			message: "The engine refused the gateway. An operator has to check how the engine was started."}
	case status < 400 || status > 599:
		return &problem{status: http.StatusBadGateway, kind: typeUpstream, code: codeUpstream,
			message: "The engine answered with status " + strconv.Itoa(status) + ", which is no answer to this request."}
	}
	if validJSON(body) {
		doc := gjson.ParseBytes(body)
		if e := doc.Get("error"); e.IsObject() && e.Get("message").Type == gjson.String {
			p.body = body
			return p
		}
		if f, ok := readFailure(doc); ok {
			p.kind, p.param, p.message = f.kind, f.param, f.message
			p.code = gjson.ParseBytes(f.code).String()
		}
	}
	if p.code == "" {
		p.code = codeUpstream
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			p.code = codeOverloaded
		}
	}
	if p.kind == "" {
		p.kind = typeUpstream
	}
	if p.message == "" {
		p.message = "The engine answered with status " + strconv.Itoa(status) + " and gave no reason."
	}
	return p
}

// storeProblem is the answer when something that is kept elsewhere cannot be read.
func storeProblem(err error) *problem {
	if factory.KindOf(err) == factory.Unavailable {
		return unavailable(factory.MessageOf(err))
	}
	return unavailable("The gateway cannot reach its store. Try again in a moment.")
}
