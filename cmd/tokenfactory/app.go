package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tokenfactory/agents"
	"tokenfactory/factory"
	"tokenfactory/gateway"
	"tokenfactory/handlers"
	"tokenfactory/slo"
	"tokenfactory/slo/notify"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/web"
	"tokenfactory/web/paths"
)

// stopWithin is how long open answers may take to finish once we are told to
// stop. With what follows it keeps a stop under five seconds.
const stopWithin = 3 * time.Second

// storage says where everything is remembered.
type storage struct {
	Data        string `help:"Folder for the database, the usage spool and secrets." required:"" type:"path" env:"TOKENFACTORY_DATA"`
	DatabaseURL string `help:"Use PostgreSQL at this address (postgres://…) instead of SQLite in the data folder." env:"TOKENFACTORY_DATABASE_URL"`
}

// open makes the data folder and opens the store, bringing its schema up to date.
func (s storage) open(ctx context.Context) (*store.Store, error) {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	seal, err := factory.OpenSeal(filepath.Join(s.Data, "seal.key"))
	if err != nil {
		return nil, err
	}
	address := s.DatabaseURL
	if address == "" {
		address = "sqlite:" + filepath.Join(s.Data, "tokenfactory.db")
	}
	st, err := store.Open(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	st.UseSeal(seal)
	return st, nil
}

// app is the running product: one listener for people, clients and agents, and
// the loops behind it.
type app struct {
	store      *store.Store
	gateway    *gateway.Gateway
	tunnels    *agents.Tunnels
	controller *agents.Controller
	watcher    *slo.Watcher
	sender     *notify.Sender
	handler    http.Handler
	publicURL  string
	log        *slog.Logger
}

func open(ctx context.Context, where storage, publicURL string, zone *time.Location, log *slog.Logger) (*app, error) {
	st, err := where.open(ctx)
	if err != nil {
		return nil, err
	}
	a := &app{store: st, publicURL: publicURL, log: log}
	a.tunnels = &agents.Tunnels{Fleet: st, Log: log.With("part", "tunnels")}
	a.gateway = &gateway.Gateway{
		Keys: st, Routes: st, Deployments: waking{st, a.poke}, Tunnels: a.tunnels,
		Ledger: st, Buckets: st, Spending: st, RefusalCounts: st,
		SpoolDir:    filepath.Join(where.Data, "spool"),
		BillingZone: zone,
		Log:         log.With("part", "gateway"),
		Now:         factory.Now,
	}
	// Usage that a killed process left behind goes to the ledger first.
	if err := a.gateway.Open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the usage spool: %w", err), st.Close())
	}
	a.controller = &agents.Controller{Store: st, Log: log.With("part", "controller"), Now: factory.Now}
	a.watcher = &slo.Watcher{
		Store: st, Budgets: budgets{st, a.gateway}.read, Now: factory.Now, Log: log.With("part", "watcher"), Links: links(publicURL),
	}
	a.sender = &notify.Sender{Store: st, Courier: notify.Shoutrrr, Now: factory.Now, Log: log.With("part", "alerts")}
	a.handler, err = web.New(web.Site{
		Store:     st,
		Gateway:   a.gateway,
		Metrics:   a.gateway.MetricsHandler(),
		Agents:    &agents.Intake{Fleet: st, Tunnels: a.tunnels, Log: log.With("part", "intake"), Now: factory.Now},
		Poke:      a.poke,
		Deliver:   a.sender.Poke,
		Limits:    a.gateway,
		Spool:     func() layout.Spool { return layout.Spool(a.gateway.SpoolState()) },
		PublicURL: publicURL,
		Now:       factory.Now,
		Log:       log.With("part", "web"),
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return a, nil
}

// links are the pages that alerts lead to, when it is known where people reach them.
func links(publicURL string) slo.Links {
	if publicURL == "" {
		return slo.Links{}
	}
	base := strings.TrimRight(publicURL, "/")
	return slo.Links{
		Deployment: func(id string, from, to time.Time) string {
			return base + paths.With(paths.DeploymentMetrics(id), url.Values{"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}})
		},
		Node:   func(clusterID, id string) string { return base + paths.Node(clusterID, id) },
		Tenant: func(id string) string { return base + paths.Tenant(id) },
		Alert:  func(id string) string { return base + paths.Alert(id) },
	}
}

// waking has a deployment's replicas planned as soon as a request woke it.
type waking struct {
	*store.Store
	poke func()
}

func (w waking) WakeDeployment(ctx context.Context, id string) error {
	if err := w.Store.WakeDeployment(ctx, id); err != nil {
		return err
	}
	w.poke()
	return nil
}

// poke has those look at once who act on what people change.
func (a *app) poke() {
	a.controller.Poke()
	a.gateway.Poke()
}

// Close lets go of the store; Run must have returned.
func (a *app) Close() {
	if err := a.store.Close(); err != nil {
		a.log.Error("close the store", "err", err)
	}
}

// Run serves until ctx ends. The order of stopping matters: first no new
// requests and time for open streams to end, then the gateway writes what it
// still holds, and only then do the loops that carry it to the store stop.
func (a *app) Run(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		// No write timeout: streams are as long as their answers. The gateway
		// sets deadlines of its own for clients that stop reading.
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	g, gctx := errgroup.WithContext(loops)
	g.Go(func() error { return a.gateway.Run(gctx) })
	g.Go(func() error { return a.tunnels.Run(gctx) })
	g.Go(func() error { return a.controller.Run(gctx) })
	g.Go(func() error { return a.watcher.Run(gctx) })
	g.Go(func() error { return a.sender.Run(gctx) })
	g.Go(func() error { return a.sweep(gctx) })
	g.Go(func() error { return keepHeapFloor(gctx) })
	g.Go(func() error {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopLoops()
		select {
		case <-ctx.Done():
		case <-gctx.Done(): // a loop failed; what is open still ends in order
		}
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if err := server.Shutdown(limit); err != nil {
			a.log.Warn("cutting streams that are still open", "err", err)
			if err := server.Close(); err != nil {
				a.log.Warn("close the server", "err", err)
			}
		}
		flush, cancelFlush := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancelFlush()
		if err := a.gateway.Close(flush); err != nil {
			a.log.Warn("usage stays in the spool until the next start", "err", err)
		}
		return nil
	})
	return g.Wait()
}

// sweep forgets what has outlived its time: fine buckets, old sessions, old refusals.
func (a *app) sweep(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Minute)
	defer tick.Stop()
	for {
		now := factory.Now()
		if err := errors.Join(a.store.SweepBuckets(ctx, now), a.store.SweepSessions(ctx, now), a.store.SweepRefusals(ctx, now),
			a.store.SweepEvents(ctx, now), a.store.SweepAlerts(ctx, now)); err != nil && ctx.Err() == nil {
			a.log.Warn("sweep", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printSetupLink tells the first operator how to get in. The link works once and
// only while there is no operator.
func (a *app) printSetupLink(ctx context.Context, addr net.Addr) error {
	token, needed, err := handlers.EnsureSetup(ctx, a.store)
	if err != nil {
		return fmt.Errorf("prepare the first sign-in: %w", err)
	}
	if !needed {
		return nil
	}
	base := a.publicURL
	if base == "" {
		base = "http://" + reachable(addr)
	}
	fmt.Fprintf(os.Stderr, "\nNobody can sign in yet. Open this link once to create the first operator:\n\n  %s\n\n", base+paths.SetupWith(token))
	return nil
}

// reachable turns a listening address into one that a browser on this machine can open.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}
