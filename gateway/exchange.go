package gateway

import (
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// statusClientGone is what the ledger keeps when the client did not wait for the
// answer. Nobody is sent it.
const statusClientGone = 499

// exchange is one client request from its header to its last byte.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	id      string // of the request, and of its ledger row

	begun   time.Time // monotonic; every duration counts from here
	beganAt time.Time // wall clock
	ready   time.Time // admitted and read; what follows is work at engines

	endpoint int // index of endpoints
	key      factory.Key
	request  *request
	name     string // as asked: of a deployment or of an alias
	nameJSON string
	routes   []*route  // what the name leads to, in the order in which they are tried
	single   [1]*route // memory of routes when there is one, as mostly
	route    *route    // the one that is tried
	talk     conversation
	admitted bool   // there is something to account for
	outgoing []byte // the body for the current replica; let go with the first event

	replica  *replica // the last one tried
	attempts int
	barred   string        // the replica that may not know running usage; it is not asked for any more
	holding  bool          // waits for a replica, or left while it did
	waited   time.Duration // from ready to the attempt that counts
	queued   time.Duration // of that, waiting for a replica to be free
	engines  time.Duration // spent at engines, without what a stream takes

	meter   meter
	ttft    time.Duration   // zero until a token was written
	gaps    [2]metrics.Line // of all, and of the key
	started bool            // a byte went to the client
	sent    bool            // an event of an engine did: no other replica may be tried
	left    bool            // the client cannot be written to
	settled bool
	booking booking // with the limits, until it is settled
	cut     bool    // end the connection, not the answer

	bodyRead bool
	deadline time.Time // of writes, as last set
}

// serve finds out what is asked and answers it.
func (x *exchange) serve() {
	path := x.r.URL.Path
	x.endpoint = slices.IndexFunc(endpoints[:], func(e endpoint) bool { return e.path == path })
	list := path == "/v1/models" || strings.HasPrefix(path, "/v1/models/")
	switch {
	case x.endpoint < 0 && !list:
		x.refuse(&problem{status: http.StatusNotFound, kind: typeInvalid, code: codeURL,
			message: "There is nothing at " + x.r.Method + " " + quote(path) + ". This API has chat/completions, completions, embeddings, responses, rerank and models under /v1."})
		return
	case list && x.r.Method != http.MethodGet && x.r.Method != http.MethodHead:
		x.refuseMethod("GET")
		return
	case !list && x.r.Method != http.MethodPost:
		x.refuseMethod("POST")
		return
	}
	if x.g.closing.Load() {
		x.refuse(unavailable("The gateway is being restarted. Try again in a moment."))
		return
	}
	var p *problem
	if x.key, p = x.g.authenticate(x.r.Context(), x.r.Header); p != nil {
		x.refuse(p)
		return
	}
	if list {
		x.models(strings.Trim(strings.TrimPrefix(path, "/v1/models"), "/"))
		return
	}
	if p = x.admit(); p != nil {
		x.refuse(p)
		return
	}
	if x.admitted {
		x.forward()
	}
}

func (x *exchange) refuseMethod(allow string) {
	x.refuse(&problem{status: http.StatusMethodNotAllowed, kind: typeInvalid, code: "method_not_allowed", allow: allow,
		message: "This address takes " + allow + " only."})
}

// admit reads the request and lets it pass or says why not. When it is not admitted
// and there is no problem, the client left before it had sent everything.
func (x *exchange) admit() *problem {
	body, p := x.readBody()
	if p != nil || body == nil {
		return p
	}
	if x.request, p = parseRequest(body); p != nil {
		return p
	}
	if x.request.background && endpoints[x.endpoint].path == engines.PathResponses {
		return invalid("background", "Answers in the background are not offered here. Leave out `background`, or set it to false.")
	}
	table, p := x.g.routes.table(x.g)
	if p != nil {
		return p
	}
	if p = x.resolve(table); p != nil {
		return p
	}
	if p := x.g.spool.admits(); p != nil {
		return p
	}
	if p := x.book(); p != nil {
		return p
	}
	x.admitted = true
	x.ready = time.Now()
	return nil
}

// resolve finds what the asked name leads to for this tenant, leaving out what does
// not offer the asked path.
func (x *exchange) resolve(table *routeTable) *problem {
	model := x.request.model
	if r := table.find(model, x.key.TenantID, x.r.Host); r != nil {
		x.name, x.nameJSON, x.single[0] = r.name, r.nameJSON, r
		x.routes = x.single[:]
	} else if a := table.aliases[model]; a != nil {
		x.name, x.nameJSON = a.Name, a.nameJSON
		x.routes = table.routes(a, x.key.TenantID, x.r.Host, x.conversation().hash)
	}
	if len(x.routes) == 0 {
		return unknownModel(model)
	}
	x.routes = slices.DeleteFunc(x.routes, func(r *route) bool { return !r.offers[x.endpoint] })
	if len(x.routes) == 0 {
		return notOffered(x.name, endpoints[x.endpoint].path)
	}
	x.routes = downLast(x.routes)
	return nil
}

// book reserves what the request may use with the limits of the first deployment
// that has room. Limits of the key and the tenant hold everywhere.
func (x *exchange) book() *problem {
	var first *problem
	for len(x.routes) > 0 {
		x.route, x.routes = x.routes[0], x.routes[1:]
		p := x.reserve()
		if p == nil {
			return nil
		}
		if first == nil {
			first = p
		}
		if p.scope != factory.ScopeDeployment {
			return p
		}
	}
	if x.booking.times > 1 {
		noStanding(x.w.Header()) // it is that of the last deployment
	}
	return first
}

// refuse answers with a problem. The body of the request may still be arriving:
// a client that is cut off while it sends often does not read the answer.
func (x *exchange) refuse(p *problem) {
	if x.started {
		x.breakOff(p)
		return
	}
	x.started = true
	body := p.envelope()
	h := x.w.Header()
	p.headers(h)
	if x.admitted {
		x.queueHeader(h)
	} else {
		x.g.telemetry.refused(p)
		if p.kept != nil {
			x.countRefusal(p.kept)
		}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	long := !x.bodyRead && (x.r.ContentLength > 128<<10 || x.r.ContentLength < 0)
	if long {
		h["Connection"] = []string{"close"}
		x.unblock()
	}
	x.setWriteDeadline(time.Now())
	x.w.WriteHeader(p.status)
	if _, err := x.w.Write(body); err != nil {
		return
	}
	if long {
		x.drain()
	}
}

// settle writes the one ledger row of an admitted request, before its last byte
// goes out, and counts it. It does not depend on the client still being there.
func (x *exchange) settle(status int, flag string) {
	if x.settled || !x.admitted {
		return
	}
	x.settled = true
	now := time.Now()
	d := &x.route.Deployment
	u := factory.Usage{
		ID: x.id, TenantID: x.key.TenantID, KeyID: x.key.ID, DeploymentID: d.ID,
		Endpoint: endpoints[x.endpoint].name, ModelAsked: x.name, ModelServed: x.route.name,
		Status: status, Flags: flag, Stream: x.request.stream, Attempts: x.attempts,
		StartedAt: x.beganAt.UTC().Truncate(time.Microsecond), QueueMS: milliseconds(x.waited),
	}
	if d.Price != nil {
		u.PriceID = d.Price.ID
	}
	if x.replica != nil {
		u.ReplicaID, u.ModelServed = x.replica.id, x.replica.served
	}
	if x.ttft > 0 {
		u.TTFTMS = milliseconds(x.ttft)
	}
	whole := flag == "" && status == http.StatusOK
	switch {
	case whole, flag == factory.FlagAborted, flag == factory.FlagTruncated:
		c, estimated := x.meter.totals()
		if b := &x.request.bound; estimated && flag == factory.FlagAborted && b.read {
			// It would have been in the usage that the client did not wait for: leaving early
			// must not make prompts free.
			c.prompt = b.estimate
		}
		u.PromptTokens, u.CachedTokens, u.CompletionTokens = c.prompt, c.cached, c.completion
		if estimated {
			u.Flags = joinFlags(flag, factory.FlagEstimated)
		}
	}
	if whole {
		u.E2EMS = milliseconds(now.Sub(x.begun))
	}
	x.settleLimits(&u, x.g.spool.append(u))
	x.g.telemetry.settled(x, &u, now)
	x.observeSettled(now, &u, flag)
}

// settleGone is settle for a client that left.
func (x *exchange) settleGone() {
	switch {
	case x.meter.events > 0:
		x.settle(statusClientGone, factory.FlagAborted)
	case x.attempts > 0 && !x.holding:
		x.settle(statusClientGone, factory.FlagAbortedPrefill)
	default:
		x.settle(statusClientGone, factory.FlagAbortedQueue)
	}
}

func (x *exchange) gone() bool { return x.left || x.r.Context().Err() != nil }

// conversation is what the request continues; found out once, when it matters.
func (x *exchange) conversation() conversation {
	if x.talk == (conversation{}) {
		x.talk = x.request.conversation()
	}
	return x.talk
}

// affinity is the conversation's hash when a prefix cache is worth going for.
func (x *exchange) affinity() uint64 {
	if c := x.conversation(); c.size >= affinityLeast {
		return c.hash
	}
	return 0
}

// queueHeader says how long the request waited for a replica.
func (x *exchange) queueHeader(h http.Header) {
	h["X-Tokenfactory-Queue-Ms"] = []string{strconv.FormatFloat(inMilliseconds(x.waited), 'f', 3, 64)}
}

// overheadHeader says how long the gateway itself took: neither engines nor waiting
// for them.
func (x *exchange) overheadHeader(h http.Header, took time.Duration) {
	h["X-Tokenfactory-Overhead-Ms"] = []string{strconv.FormatFloat(inMilliseconds(took), 'f', 3, 64)}
}

// breakOff is a refusal when the header of a stream is out already: one event that
// says so, and then a cut. Clients take a clean end for success.
func (x *exchange) breakOff(p *problem) {
	x.cut = true
	if err := x.write(p.event()); err != nil {
		return
	}
	_ = x.control.Flush() // the connection is cut in any case
}

// recover keeps a panic in one request from reaching any other, and from leaving
// that request unaccounted for.
func (x *exchange) recover() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	x.g.Log.Error("panic in a request", "request", x.id, "panic", v, "stack", string(debug.Stack()))
	if x.started {
		flag := factory.FlagFailed
		if x.meter.events > 0 {
			flag = factory.FlagTruncated
		}
		x.settle(http.StatusOK, flag)
		panic(http.ErrAbortHandler)
	}
	x.settle(http.StatusInternalServerError, factory.FlagFailed)
	x.refuse(&problem{status: http.StatusInternalServerError, kind: typeServer, code: "internal_error",
		message: "Something went wrong on our side. Try again; if it stays, tell an operator the request id " + x.id + "."})
}

func milliseconds(d time.Duration) *float64 {
	ms := inMilliseconds(d)
	return &ms
}

// inMilliseconds cuts to microseconds, which is what the clocks here are good for.
func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func joinFlags(flags ...string) string {
	flags = slices.DeleteFunc(flags, func(f string) bool { return f == "" })
	slices.Sort(flags)
	return strings.Join(flags, ",")
}

func byteSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
