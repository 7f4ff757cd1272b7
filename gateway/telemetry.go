package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tokenfactory/factory"
)

// telemetry is what the gateway tells monitoring about itself. Names and labels are
// those of OpenTelemetry's conventions for generative AI, in Prometheus spelling,
// where there are any. Labels come from what operators wrote, never from a client:
// whoever asks for names that do not exist adds no series.
type telemetry struct {
	registry *prometheus.Registry
	handler  http.Handler

	duration, ttft, perToken, tokens *prometheus.HistogramVec
	overhead, queue                  *prometheus.HistogramVec
	retries, ejections               *prometheus.CounterVec
	refusals, limited                *prometheus.CounterVec

	mu     sync.RWMutex
	series map[seriesOf]*series
}

// seriesOf is what the labels of a model's series are made of.
type seriesOf struct {
	model, engine string
	endpoint      int
}

// series are the instruments of one model and operation, looked up once.
type series struct {
	duration, ttft, perToken, input, output, overhead, queue prometheus.Observer
	retries                                                  prometheus.Counter
	used                                                     atomic.Int64 // unix seconds
}

// forgetAfter is how long the series of a name stay that leads nowhere any more: time
// enough for the last scrapes, and no memory for ever.
const forgetAfter = time.Hour

// operations names the endpoints as the conventions do; they have no word for rerank.
var operations = [len(endpoints)]string{"chat", "text_completion", "embeddings", "chat", "rerank"}

// Bounds of the classic buckets, which scrapers without native histograms get: those
// that the conventions advise.
var (
	durationBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	ttftBounds     = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	perTokenBounds = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	tokenBounds    = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}
	overheadBounds = []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25}
	queueBounds    = []float64{0.001, 0.01, 0.1, 1, 5, 30, 120, 300}
)

func (t *telemetry) open(g *Gateway) {
	labels := []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"}
	histogram := func(name, help string, bounds []float64, more ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: bounds,
			// Neighbouring bounds are at most a tenth apart: what a percentile is off by.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, append(append([]string(nil), labels...), more...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	t.duration = histogram("gen_ai_server_request_duration_seconds", "Time from a request's header to the end of its answer.", durationBounds, "error_type")
	t.ttft = histogram("gen_ai_server_time_to_first_token_seconds", "Time from a request's header to its first token, written to the client.", ttftBounds)
	t.perToken = histogram("gen_ai_server_time_per_output_token_seconds", "Mean time per output token after the first, of whole streamed answers.", perTokenBounds)
	t.tokens = histogram("gen_ai_client_token_usage", "Tokens of a request, as billed.", tokenBounds, "gen_ai_token_type")
	t.overhead = histogram("tokenfactory_gateway_overhead_seconds", "What the gateway added to a request that is not streamed.", overheadBounds)
	t.queue = histogram("tokenfactory_gateway_queue_seconds", "How long a request waited in the gateway before its engine was asked.", queueBounds)
	t.retries = counter("tokenfactory_gateway_retries_total", "Attempts after the first at a replica.", labels...)
	t.ejections = counter("tokenfactory_gateway_ejections_total", "Times that a replica was passed over because it failed.", "gen_ai_request_model")
	t.refusals = counter("tokenfactory_gateway_refusals_total", "Requests refused before an engine was asked, by code.", "code")
	t.limited = counter("tokenfactory_gateway_limit_refusals_total", "Requests that a limit kept out, by whose limit it was and which.", "scope", "kind")
	t.series = map[seriesOf]*series{}

	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	t.registry = prometheus.NewRegistry()
	t.registry.MustRegister(t.duration, t.ttft, t.perToken, t.tokens, t.overhead, t.queue, t.retries, t.ejections, t.refusals, t.limited,
		gauge("tokenfactory_gateway_requests_in_flight", "Requests that are being answered.", func() float64 { return float64(g.inFlight.Load()) }),
		gauge("tokenfactory_gateway_requests_held", "Requests that wait for a replica.", func() float64 { return float64(g.held.Load()) }),
		spoolCollector{g},
		// The package that replaced these two links database/sql, which is not for here.
		prometheus.NewGoCollector(),
		prometheus.NewProcessCollector(prometheus.ProcessCollectorOpts{}))
	serve := promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	t.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.forget(g.routes.now.Load(), time.Now())
		serve.ServeHTTP(w, r)
	})
}

// MetricsHandler serves the gateway's own metrics to Prometheus: native histograms
// to scrapers that ask for them, and classic buckets to all. It shows model names,
// so it is for operators only. The gateway has to be open.
func (g *Gateway) MetricsHandler() http.Handler { return g.telemetry.handler }

// of finds the series of a request.
func (t *telemetry) of(x *exchange) *series {
	key := seriesOf{x.name, x.route.Deployment.Engine, x.endpoint}
	t.mu.RLock()
	s := t.series[key]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s = t.series[key]; s != nil {
		return s
	}
	labels := key.labels()
	with := func(v *prometheus.HistogramVec, more ...string) prometheus.Observer {
		return v.WithLabelValues(append(labels[:3:3], more...)...)
	}
	s = &series{
		duration: with(t.duration, ""), ttft: with(t.ttft), perToken: with(t.perToken),
		input: with(t.tokens, "input"), output: with(t.tokens, "output"),
		overhead: with(t.overhead), queue: with(t.queue), retries: t.retries.WithLabelValues(labels[:]...),
	}
	t.series[key] = s
	return s
}

func (k seriesOf) labels() [3]string { return [3]string{operations[k.endpoint], k.engine, k.model} }

// settled counts a request that was admitted, with its ledger row.
func (t *telemetry) settled(x *exchange, u *factory.Usage, now time.Time) {
	s := t.of(x)
	s.used.Store(now.Unix())
	took := now.Sub(x.begun)
	if why := errorType(u); why == "" {
		s.duration.Observe(took.Seconds())
	} else {
		labels := seriesOf{x.name, x.route.Deployment.Engine, x.endpoint}.labels()
		t.duration.WithLabelValues(labels[0], labels[1], labels[2], why).Observe(took.Seconds())
	}
	s.queue.Observe(x.waited.Seconds())
	if x.ttft > 0 {
		s.ttft.Observe(x.ttft.Seconds())
		if n := u.CompletionTokens; n > 1 && u.E2EMS != nil {
			s.perToken.Observe((took - x.ttft).Seconds() / float64(n-1))
		}
	}
	if x.engines > 0 && !x.sent { // of a stream it is not known
		s.overhead.Observe((took - x.engines - x.queued).Seconds())
	}
	if u.PromptTokens > 0 || u.CompletionTokens > 0 {
		s.input.Observe(float64(u.PromptTokens))
		s.output.Observe(float64(u.CompletionTokens))
	}
	if u.Attempts > 1 {
		s.retries.Add(float64(u.Attempts - 1))
	}
}

// errorType says how a request failed, in few words: the flag of its row, or its status.
func errorType(u *factory.Usage) string {
	for flag := range strings.SplitSeq(u.Flags, ",") {
		switch flag {
		case factory.FlagAborted, factory.FlagAbortedPrefill, factory.FlagAbortedQueue, factory.FlagTruncated:
			return flag
		case factory.FlagFailed:
			if u.Status < http.StatusBadRequest {
				return flag
			}
		}
	}
	if u.Status >= http.StatusBadRequest {
		return strconv.Itoa(u.Status)
	}
	return ""
}

// refused counts a request that was not admitted. The codes are our own.
func (t *telemetry) refused(p *problem) { t.refusals.WithLabelValues(p.code).Inc() }

// limit counts a request that one limit kept out.
func (t *telemetry) limit(scope factory.Scope, kind factory.LimitKind) {
	t.limited.WithLabelValues(string(scope), string(kind)).Inc()
}

// ejected counts a replica that is passed over.
func (t *telemetry) ejected(r *route) { t.ejections.WithLabelValues(r.name).Inc() }

// forget lets go of series of names that lead nowhere any more.
func (t *telemetry) forget(table *routeTable, now time.Time) {
	if table == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.series {
		if table.byName[key.model] != nil || table.aliases[key.model] != nil || now.Unix()-s.used.Load() < int64(forgetAfter/time.Second) {
			continue
		}
		delete(t.series, key)
		gone := prometheus.Labels{"gen_ai_request_model": key.model}
		for _, v := range []*prometheus.HistogramVec{t.duration, t.ttft, t.perToken, t.tokens, t.overhead, t.queue} {
			v.DeletePartialMatch(gone)
		}
		t.retries.DeletePartialMatch(gone)
		t.ejections.DeletePartialMatch(gone)
	}
}
