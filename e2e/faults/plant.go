// Package faults is a whole factory in one process, small and quick, whose engine breaks
// on demand: the test of alerts and the table of the diagnosis are both made with it. All
// of it is the product's own but the machine, whose part is played by machine.go. Requests
// take real time, and between them time is moved on by hand.
package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"tokenfactory/agents"
	"tokenfactory/engines/sim"
	"tokenfactory/factory"
	"tokenfactory/gateway"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/slo/notify"
	"tokenfactory/store"
)

// What is promised to clients: well above what a healthy engine of Options does, so that a
// busy computer breaks no promise, and well below what any fault does.
const (
	ttftTarget = 800 * time.Millisecond
	itlTarget  = 220 * time.Millisecond
	objective  = 99 // percent
)

// clock is the wall clock, moved on by hand.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time { return factory.Now().Add(time.Duration(c.ahead.Load())) }

// Plant is the factory. What is under core is thrown away and made anew by Restart; the
// engine, its machine and the folder stay.
type Plant struct {
	Engine *sim.Engine

	dir     string
	clock   clock
	engine  *httptest.Server
	machine machine
	key     string // secret of an API key
	sent    int    // requests of clients
	stood   time.Duration
	core
}

// core is what one run of the control plane is made of.
type core struct {
	Store   *store.Store
	gateway *gateway.Gateway
	watcher *slo.Watcher
	sender  *notify.Sender
	server  *httptest.Server
	loops   *sync.WaitGroup
	stop    context.CancelFunc
}

// New makes a plant in an empty folder around an engine.
func New(ctx context.Context, dir string, engine sim.Options) (*Plant, error) {
	engine.Model = model
	p := &Plant{dir: dir, Engine: sim.New(engine)}
	p.engine = httptest.NewServer(p.Engine)
	err := p.start(ctx)
	if err == nil {
		err = p.furnish(ctx)
	}
	if err == nil {
		err = p.Restart(ctx) // the gateway begins with everything in its place
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// opening is held by the one plant that makes its store, which is the only thing that keeps a
// processor busy: several at once would slow the engines of the others down.
var opening sync.Mutex

// start is what the program does when it starts.
func (p *Plant) start(ctx context.Context) error {
	opening.Lock()
	defer opening.Unlock()
	seal, err := factory.OpenSeal(filepath.Join(p.dir, "seal.key"))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, "sqlite:"+filepath.Join(p.dir, "tokenfactory.db"))
	if err != nil {
		return err
	}
	st.UseSeal(seal)
	quiet := slog.New(slog.DiscardHandler)
	p.core = core{
		Store: st,
		gateway: &gateway.Gateway{Keys: st, Routes: st, Deployments: st, Ledger: st, Buckets: st, Spending: st, RefusalCounts: st,
			SpoolDir: filepath.Join(p.dir, "spool"), Log: quiet, Now: p.clock.Now},
		watcher: &slo.Watcher{Store: st, Now: p.clock.Now, Log: quiet},
		sender:  &notify.Sender{Store: st, Now: p.clock.Now, Log: quiet},
		loops:   &sync.WaitGroup{},
	}
	if err := p.gateway.Open(); err != nil {
		return errors.Join(err, st.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", p.gateway)
	mux.Handle("/agent/", &agents.Intake{Fleet: st, Log: quiet, Now: p.machine.clock.Now})
	p.server = httptest.NewServer(mux)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	p.loops.Go(func() { _ = p.gateway.Run(running) })
	p.loops.Go(func() { _ = p.sender.Run(running) })
	return nil
}

// halt is what the program does when it is told to stop, in the same order.
func (p *Plant) halt() error {
	if p.server == nil {
		return nil
	}
	p.server.Close()
	limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := p.gateway.Close(limit)
	p.stop()
	p.loops.Wait()
	err = errors.Join(err, p.Store.Close())
	p.core = core{}
	return err
}

// Restart ends the control plane and starts another on the same folder.
func (p *Plant) Restart(ctx context.Context) error {
	if err := p.halt(); err != nil {
		return err
	}
	return p.start(ctx)
}

// Close ends everything.
func (p *Plant) Close() error {
	err := p.halt()
	p.engine.CloseClientConnections() // those of a crashed engine
	p.engine.Close()
	return err
}

// Pass moves time on. The machine is heard of before anybody else notices, so that it
// never seems to have gone quiet.
func (p *Plant) Pass(ctx context.Context, d time.Duration) error {
	p.machine.clock.ahead.Add(int64(d))
	p.machine.read(ctx, p.engine.URL, p.Engine.Faults())
	if err := p.machine.report(ctx, p.server.URL, p.engine.URL); err != nil {
		return err
	}
	p.clock.ahead.Add(int64(d))
	return nil
}

// Look has the watcher look once, and waits until everything that is due was told.
func (p *Plant) Look(ctx context.Context) error {
	if err := p.watcher.Look(ctx); err != nil {
		return err
	}
	p.sender.Poke()
	return until(ctx, "what is due is told", func() (bool, error) {
		due, err := p.Store.DueDeliveries(ctx, p.clock.Now(), 1)
		return len(due) == 0, err
	})
}

// Diagnose says what is to blame now.
func (p *Plant) Diagnose(ctx context.Context) (slo.Diagnosis, error) {
	return p.watcher.Diagnose(ctx, deploymentID)
}

// settle waits until the store has what the gateway measured of every request.
func (p *Plant) settle(ctx context.Context) error {
	return until(ctx, fmt.Sprintf("%d requests are measured", p.sent), func() (bool, error) {
		buckets, err := p.Store.Buckets(ctx, deploymentID, time.Hour, []metrics.Name{metrics.Requests}, time.Time{}, p.clock.Now())
		n := 0.0
		for _, b := range buckets {
			n += b.Sum
		}
		return int(n) >= p.sent, err
	})
}

// until waits for a condition.
func until(ctx context.Context, what string, met func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		switch ok, err := met(); {
		case err != nil && ctx.Err() == nil:
			return err
		case ok:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, cmp.Or(context.Cause(ctx), ctx.Err()))
		case <-tick.C:
		}
	}
}
