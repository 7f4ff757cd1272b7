// Package gateway is the OpenAI-compatible front door: it authenticates keys,
// finds a replica, streams answers through untouched, times every token and
// writes what was consumed to a local spool before the last byte leaves. It has
// its own audience and its own authentication; it knows no SQL and no pages.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Keys finds API keys by the hash of their secret.
type Keys interface {
	// KeyByHash returns a key whatever its state; NotFound when there is none.
	KeyByHash(ctx context.Context, hash string) (factory.Key, error)
	// TouchKeys remembers when keys, by id, were used last.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}

// Routes lists every deployment that may be asked for, with its ready replicas.
type Routes interface {
	AllRoutes(ctx context.Context, now time.Time) ([]factory.Route, error)
	AllAliases(ctx context.Context) ([]factory.Alias, error)
}

// Deployments takes in what the gateway has to say about them.
type Deployments interface {
	// WakeDeployment ends a deployment's sleep. Asking twice does no harm.
	WakeDeployment(ctx context.Context, id string) error
	// SetRunningUsage remembers whether the engine of a revision puts running counts on
	// its events. Of a revision that is no more there is nothing to remember.
	SetRunningUsage(ctx context.Context, id string, revision int, learned factory.Learned) error
}

// Ledger keeps usage for good. It is idempotent by request id: a batch that was
// taken in although the answer got lost is sent again.
type Ledger interface {
	AppendUsage(ctx context.Context, rows []factory.Usage) error
}

// Buckets takes in measurements of the finest resolution.
type Buckets interface {
	MergeBuckets(ctx context.Context, buckets []metrics.Bucket) error
}

// Gateway serves /v1. Fill the exported fields, Open it, serve it, and Run it
// beside; Close it after the server has stopped taking connections.
type Gateway struct {
	Keys    Keys
	Routes  Routes
	Ledger  Ledger
	Buckets Buckets

	// SpoolDir holds usage until the ledger has it. One process at a time.
	SpoolDir string
	// SpoolMax bounds the spool on disk, in bytes. When it is full, requests are
	// refused rather than served unmetered. Default 1 GiB.
	SpoolMax int64
	// MaxBody bounds a request's body, in bytes. Default 32 MiB.
	MaxBody int64
	// WriteTimeout is how long a client may stop reading before its stream is cut.
	// Default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long an engine may be silent, before its header or between
	// events. It has to be above the longest prefill. Default 15 min.
	IdleTimeout time.Duration
	// Deployments is told what was learned, and asked to wake. Without it nothing sleeps.
	Deployments Deployments
	// HoldMost is how many requests may wait for a replica of one deployment, HoldFor for
	// how long. Defaults 50 and 300 s.
	HoldMost int
	HoldFor  time.Duration
	// CommentEvery is how often a waiting stream gets a sign of life. Default 10 s.
	CommentEvery time.Duration
	// Tunnels leads to engines that have no address of their own. Without it those are
	// never reached.
	Tunnels Tunnels
	// Limits keeps requests within limits. Default: counted in the memory of this process.
	Limits Limits
	// Spending is asked what was spent of a budget, and in the minute before the start.
	// Without it, requests that a budget holds for are refused.
	Spending Spending
	// BillingZone is where the days of budgets begin. Default UTC.
	BillingZone *time.Location
	// RefusalCounts is told how often limits kept requests out; nil when nobody asks.
	RefusalCounts RefusalCounts
	Log           *slog.Logger
	// Now is the wall clock of rows, buckets and expiry. Durations do not depend on it.
	Now func() time.Time

	keys      keyCache
	routes    routeCache
	lessons   lessons
	upstream  upstream
	spool     *spool
	recorder  metrics.Recorder
	pending   pendingBuckets
	gauges    gauges
	refused   refusals
	telemetry telemetry
	// limitClock must not jump, or a window could admit twice its limit.
	limitClock func() time.Time

	running  context.Context // ends when what is still open must be cut
	cut      context.CancelFunc
	closing  atomic.Bool
	inFlight atomic.Int64
	held     atomic.Int64 // of those, waiting for a replica
}

// Defaults of the fields that say so.
const (
	defaultSpoolMax     = 1 << 30
	defaultMaxBody      = 32 << 20
	defaultWriteTimeout = 30 * time.Second
	defaultIdleTimeout  = 15 * time.Minute
)

// Open prepares the gateway and takes over usage that an earlier process left in
// the spool.
func (g *Gateway) Open() error {
	if g.Keys == nil || g.Routes == nil || g.Ledger == nil || g.Buckets == nil || g.SpoolDir == "" {
		return errors.New("gateway: Keys, Routes, Ledger, Buckets and SpoolDir are needed")
	}
	setDefault(&g.SpoolMax, defaultSpoolMax)
	setDefault(&g.MaxBody, defaultMaxBody)
	setDefault(&g.WriteTimeout, defaultWriteTimeout)
	setDefault(&g.IdleTimeout, defaultIdleTimeout)
	setDefault(&g.HoldMost, defaultHoldMost)
	setDefault(&g.HoldFor, defaultHoldFor)
	setDefault(&g.CommentEvery, defaultCommentEvery)
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	if g.Now == nil {
		g.Now = time.Now
	}
	if g.BillingZone == nil {
		g.BillingZone = time.UTC
	}
	if g.limitClock == nil {
		g.limitClock = time.Now
	}
	g.routes.poke = make(chan struct{}, 1)
	g.lessons.open()
	g.telemetry.open(g)
	g.upstream.tunnels = g.Tunnels
	g.upstream.open()
	s, err := openSpool(g.SpoolDir, g.SpoolMax, g.Log)
	if err != nil {
		return err
	}
	g.spool = s
	if g.Limits == nil {
		m := newMemoryLimits(g.BillingZone, g.Now, s.last)
		if g.Spending != nil {
			m.recall(g.limitClock(), g.Now())
		}
		g.Limits = m
	}
	g.running, g.cut = context.WithCancel(context.Background())
	return nil
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Run carries usage to the ledger, measurements to their buckets, and news of
// routes to the gateway, until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	if g.spool == nil {
		return errors.New("gateway: Run before Open")
	}
	var loops sync.WaitGroup
	loops.Go(func() { g.routes.run(ctx, g) })
	loops.Go(func() { g.spool.run(ctx, g.Ledger) })
	loops.Go(func() { g.flushBuckets(ctx) })
	loops.Go(func() { g.sampleGauges(ctx) })
	loops.Go(func() { g.touchKeys(ctx) })
	loops.Go(func() { g.flushRefusals(ctx) })
	if m, ok := g.Limits.(*memoryLimits); ok {
		loops.Go(func() { g.readBudgets(ctx, m) })
	}
	loops.Go(func() { g.tellLessons(ctx) })
	loops.Wait()
	return nil
}

// Close refuses new requests, waits for open ones until shortly before ctx ends,
// cuts the rest, and hands over everything that is still held. What the ledger
// does not take stays in the spool for the next start.
func (g *Gateway) Close(ctx context.Context) error {
	g.closing.Store(true)
	patience := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline) / 2
	}
	g.waitIdle(ctx, patience)
	g.cut()
	g.waitIdle(ctx, patience/2)
	g.saveTouched(ctx)
	g.gauges.finish()
	err := errors.Join(g.saveRefusals(ctx), g.spool.drain(ctx, g.Ledger), g.saveBuckets(ctx), g.spool.close())
	g.upstream.close()
	return err
}

func (g *Gateway) waitIdle(ctx context.Context, patience time.Duration) {
	give := time.NewTimer(patience)
	defer give.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for g.inFlight.Load() > 0 {
		select {
		case <-poll.C:
		case <-give.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// endpoint is one of the paths that engines serve.
type endpoint struct {
	path string
	name string // as kept in the ledger
	// streams tells whether the engine accepts stream options there.
	streams bool
}

var endpoints = [...]endpoint{
	{engines.PathChat, "chat.completions", true},
	{engines.PathCompletions, "completions", true},
	{engines.PathEmbeddings, "embeddings", false},
	{engines.PathResponses, "responses", false},
	{engines.PathRerank, "rerank", false},
}

// ServeHTTP answers /v1.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		g: g, w: w, r: r, control: http.NewResponseController(w),
		begun: time.Now(), beganAt: g.Now(),
	}
	x.id = factory.NewOrderedID(x.beganAt)
	g.inFlight.Add(1)
	defer g.inFlight.Add(-1)
	defer x.unreserve() // whatever happens
	defer x.recover()
	w.Header()["X-Request-Id"] = []string{x.id}
	x.serve()
	if x.cut {
		// The one way to end a chunked answer so that a client sees that it was not whole.
		panic(http.ErrAbortHandler)
	}
}
