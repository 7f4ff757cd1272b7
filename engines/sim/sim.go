// Package sim is an engine with set timings: it speaks the OpenAI-compatible API and
// the metric names of vLLM, and makes its text up. It exists for the demo, for
// tests and for trying limits on machines without a GPU.
package sim

import (
	"cmp"
	"net/http"
	"sync"
	"time"
)

// Options are the timings and sizes of a simulated engine. Zero values mean what a small
// model on one card would have, except for times, where zero is no time.
type Options struct {
	Model string // the name it answers to

	TTFT time.Duration // from being scheduled to the first token
	// PrefillPerToken is added to TTFT for each prompt token that the prefix cache lacks.
	PrefillPerToken time.Duration
	ITL             time.Duration // per token, however many an event carries
	TokensPerEvent  int           // after the first event, as speculative decoding makes them; default 1
	Load            time.Duration // everything is 503 for this long after New

	// Jitter spreads each first token and each gap evenly by this share of its length,
	// at most 0.5. Gaps do not drift: their sum stays what it was.
	Jitter float64
	// TailShare of the requests take TailFactor times as long to their first token.
	TailShare  float64
	TailFactor float64

	MaxSeqs         int // requests running at once; others wait in line; default 256
	KVBlocks        int // default 4096
	BlockSize       int // tokens in a block; default 16
	ContextLength   int // prompt and answer together; default 32768
	OutputTokens    int // length of an answer without a limit, give or take half; default 64
	NoPrefixCaching bool
	Dimensions      int    // of embeddings; default 384
	Seed            uint64 // of texts and jitter

	Faults []Fault // under way from the start
	// OnCrash is called when a crash without an end was asked for over HTTP.
	OnCrash func()
}

// Engine is a running simulated engine; it is an http.Handler.
type Engine struct {
	Options
	mux http.ServeMux

	mu       sync.Mutex
	started  time.Time
	life     life
	faults   map[FaultKind]*underway
	drawn    uint64 // counts requests, for those that fail
	line     line
	prefixes prefixCache
	figures  figures
	requests uint64 // counts requests, for their jitter
}

// New starts an engine's life: loading begins now.
func New(o Options) *Engine {
	o.Model = cmp.Or(o.Model, "sim")
	o.TokensPerEvent = max(o.TokensPerEvent, 1)
	o.Jitter = min(max(o.Jitter, 0), 0.5)
	o.MaxSeqs = positive(o.MaxSeqs, 256)
	o.KVBlocks = positive(o.KVBlocks, 4096)
	o.BlockSize = positive(o.BlockSize, 16)
	o.ContextLength = positive(o.ContextLength, 32768)
	o.OutputTokens = positive(o.OutputTokens, 64)
	o.Dimensions = positive(o.Dimensions, 384)
	e := &Engine{Options: o, started: time.Now(), life: newLife(), faults: map[FaultKind]*underway{}}
	e.line = line{seats: o.MaxSeqs, blocks: o.KVBlocks}
	e.prefixes = newPrefixCache(o.KVBlocks)
	e.figures = newFigures()
	e.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	e.mux.HandleFunc("GET /version", e.version)
	e.mux.HandleFunc("GET /metrics", e.metrics)
	e.mux.HandleFunc("GET /v1/models", e.models)
	e.mux.HandleFunc("POST /v1/chat/completions", e.chat)
	e.mux.HandleFunc("POST /v1/completions", e.completions)
	e.mux.HandleFunc("POST /v1/embeddings", e.embeddings)
	for _, f := range o.Faults {
		if err := e.Start(f); err != nil {
			panic(err) // the program that starts it has them checked by ParseFault
		}
	}
	return e
}

func positive(v, otherwise int) int {
	if v > 0 {
		return v
	}
	return otherwise
}

func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == controlPath {
		e.control(w, r)
		return
	}
	r, done := e.bound(r)
	defer done()
	e.mu.Lock()
	loading := time.Since(e.started) < e.Load
	e.mu.Unlock()
	switch {
	case crashed(r.Context()):
	case loading:
		refuse(w, &problem{http.StatusServiceUnavailable, "ServiceUnavailableError", "", "The model is still loading."})
	default:
		e.mux.ServeHTTP(w, r)
	}
	if crashed(r.Context()) {
		panic(http.ErrAbortHandler) // the server resets the connection
	}
}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": "0.13.0+sim"})
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": e.Model, "object": "model", "created": time.Now().Unix(), "owned_by": "vllm", "root": e.Model,
		"parent": nil, "max_model_len": e.ContextLength, "permission": []any{},
	}}})
}
