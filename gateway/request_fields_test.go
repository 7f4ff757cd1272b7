package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestFieldsOnWhichUsageHangsAreLiteral: engines differ in what they take for true,
// and in which of two they read.
func TestFieldsOnWhichUsageHangsAreLiteral(t *testing.T) {
	for fields, param := range map[string]string{
		`"stream":true`: "", `"stream":false`: "", `"stream":null`: "",
		`"stream":1`: "stream", `"stream":"true"`: "stream", `"stream":{}`: "stream", `"stream":true,"stream":true`: "stream",
		`"stream_options":null`: "", `"stream_options":{"include_usage":null,"continuous_usage_stats":false}`: "",
		`"stream_options":{"include_usage":1}`:                                                "stream_options.include_usage",
		`"stream_options":{"include_usage":true,"include_usage":false}`:                       "stream_options.include_usage",
		`"stream_options":{"continuous_usage_stats":"on"}`:                                    "stream_options.continuous_usage_stats",
		`"stream_options":{"continuous_usage_stats":true,"continuous_usage_stat\u0073":true}`: "stream_options.continuous_usage_stats",
		`"timings_per_token":true`:                                                            "", `"timings_per_token":1`: "timings_per_token",
	} {
		_, p := parseRequest([]byte(`{"model":"m",` + fields + `}`))
		if got := p; (got != nil) != (param != "") || got != nil && (got.status != 400 || got.param != param) {
			t.Errorf("%s: %+v", fields, got)
		}
	}
}

func TestNothingIsAnsweredInTheBackground(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL})
	for value, status := range map[string]int{"true": 400, "1": 400, "false": 200, "null": 200} {
		r := b.post("/v1/responses", `{"model":"demo-small","input":"hi","background":`+value+`}`)
		if r.status != status || status == 400 && gjson.Get(r.body, "error.param").String() != "background" {
			t.Errorf("%s: %d %s", value, r.status, r.body)
		}
	}
}

func TestAnEjectionWhileAProbeEndsIsProbedAgain(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	r := b.g.routes.now.Load().byName[asked]
	rep := r.replicas[0]
	// A probe that finds it put back, and a client that ejects it before the probe has ended.
	rep.probing.Store(true)
	go b.g.probe(rep, r.pool, 50*time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	r.pool.mu.Lock() // the probe stands here when the replica was found well
	rep.ejected.Store(1<<63 - 1)
	time.Sleep(200 * time.Millisecond)
	if rep.ejected.Load() == 0 {
		rep.ejected.Store(1<<63 - 1)
	}
	r.pool.mu.Unlock()
	b.until("it is found well", func() bool { return rep.ejected.Load() == 0 && !rep.probing.Load() })
}

func TestTheProbeOfAReplicaThatWasReplacedEnds(t *testing.T) {
	e := plainEngine(t)
	b := newBench(t, []string{e.URL})
	b.chat(plainly)
	old := b.g.routes.now.Load().byName[asked].replicas[0]
	b.change(func(w *world) {
		w.routes[0].Replicas = routeTo(asked, e.URL).Replicas
		w.routes[0].Replicas[0].Revision = 2
	})
	if now := b.g.routes.now.Load().byName[asked].replicas[0]; !old.gone.Load() || now.gone.Load() {
		t.Errorf("the old one is gone: %t, the new one: %t", old.gone.Load(), now.gone.Load())
	}
}

func TestARefusalAlwaysHasAStatusAndACode(t *testing.T) {
	p := &pool{replicas: []*replica{{load: &load{}}}}
	if q := p.overloaded("m", time.Now()); q.status != 503 || q.retryAfter <= 0 || q.code != codeOverloaded {
		t.Errorf("%+v", q)
	}
	for status, code := range map[int]string{429: codeOverloaded, 503: codeOverloaded, 500: codeUpstream, 502: codeUpstream} {
		if q := engineProblem(status, nil, 0); q.code != code {
			t.Errorf("%d has the code %q", status, q.code)
		}
	}
}

func TestRetryAfterMayBeADate(t *testing.T) {
	now := time.Now()
	for at, least := range map[time.Time]time.Duration{now.Add(9 * time.Second): 7 * time.Second, now.Add(-time.Hour): 0, now.Add(1000 * time.Hour): time.Hour} {
		d := retryAfter(http.Header{"Retry-After": {at.UTC().Format(http.TimeFormat)}})
		if d < least || d > least+2*time.Second {
			t.Errorf("%v is %v", at, d)
		}
	}
}
