// Package node is the machine's side of an agent: it joins once, says how the
// machine and its engines are, measures them, and makes run what the server
// wants to run. It connects outwards only.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tokenfactory/agents"
	"tokenfactory/agents/runtimes/process"
	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// How often things happen while all is well.
const (
	reportEvery = 2 * time.Second
	scrapeEvery = 5 * time.Second
	// lastWordWithin keeps a stop short when the server is away.
	lastWordWithin = time.Second
)

// Agent looks after one machine.
type Agent struct {
	Server    string // base address of the factory
	Token     string // join token; not needed once the machine has joined
	Dir       string // data folder
	Version   string
	Advertise string // host that the gateway reaches engines at; empty: found out
	// Tunnel is set when the gateway cannot reach this machine: requests come through
	// the agent's own connection, and engines listen for this machine alone.
	Tunnel bool
	// Hardware is a file that describes the machine; empty: look at it.
	Hardware string
	// LeaveRunning makes the end of Run leave engines alone, to be adopted later.
	LeaveRunning bool
	Log          *slog.Logger

	client   client
	self     self
	machine  machine
	identity string
	outbox   outbox
	recorder metrics.Recorder
	runtime  *process.Runtime
	scraper  scraper
	carrier  *carrier // nil without Tunnel
	seenFrom string   // where the server sees this machine
}

// Run works until ctx ends. It fails only when its data folder cannot be used.
func (a *Agent) Run(ctx context.Context) error {
	lock, err := lockFolder(a.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if a.self, err = openSelf(a.Dir); err != nil {
		return err
	}
	if a.outbox, err = openOutbox(a.Dir, a.Log); err != nil {
		return err
	}
	a.client.open(a.Server)
	if err := a.know(ctx); err != nil {
		return err
	}
	host, err := a.host(ctx)
	if err != nil {
		return nil // told to stop before the server could be reached
	}
	a.runtime = &process.Runtime{Dir: a.Dir, Host: host, Log: a.Log, LeaveRunning: a.LeaveRunning}

	g, ctx := errgroup.WithContext(ctx)
	if a.Tunnel {
		a.carrier = newCarrier(a.Server, a.engineOf, a.Log)
		g.Go(func() error { return a.carrier.Run(ctx) })
	}
	g.Go(func() error { return a.runtime.Run(ctx) })
	g.Go(func() error { return a.machine.Run(ctx) })
	a.scraper.runtime, a.scraper.recorder, a.scraper.log = a.runtime, &a.recorder, a.Log
	g.Go(func() error { return a.scraper.Run(ctx) })
	g.Go(func() error { return a.talk(ctx, host) })
	if err := g.Wait(); err != nil {
		return err
	}
	a.lastWord(host)
	return nil
}

// lastWord tells the server that the engines have stopped, so that nobody is sent
// to them until the silence is noticed.
func (a *Agent) lastWord(host string) {
	if a.self.Credential == "" || a.LeaveRunning {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWordWithin)
	defer cancel()
	if err := a.report(ctx, host, newBackoff()); err != nil {
		a.Log.Warn("the server was not told that the engines have stopped", "err", reason(err))
	}
}

// know finds out what this machine is, and which of all machines.
func (a *Agent) know(ctx context.Context) error {
	a.machine.root, a.machine.recorder = "/", &a.recorder
	a.machine.joined(a.self.NodeID)
	if a.Hardware != "" {
		d, err := readDescribed(a.Hardware)
		if err != nil {
			return err
		}
		a.machine.described, a.machine.file = &d, a.Hardware
		a.machine.look(ctx)
		a.identity, err = d.identity(a.Dir)
		return err
	}
	a.machine.look(ctx)
	m, err := readMarks(a.machine.root, a.Dir, a.machine.hardware().GPUs)
	if err != nil {
		return err
	}
	if same, what := m.same(a.self.Marks); !same {
		return fmt.Errorf("the data folder %s was made on another machine (another %s): give this one a folder of its own and a new join token", a.Dir, what)
	}
	a.self.Marks, a.identity = m, m.identity()
	return nil
}

// host is the address under which the gateway reaches this machine: as given, or
// the one that this machine uses to reach the server.
func (a *Agent) host(ctx context.Context) (string, error) {
	switch {
	case a.Tunnel:
		return "127.0.0.1", nil
	case a.Advertise != "":
		return a.Advertise, nil
	}
	for retry := newBackoff(); ; {
		host, err := localAddress(ctx, a.Server)
		if err == nil {
			a.self.Address = host
			return host, a.self.save()
		}
		if a.self.Address != "" {
			return a.self.Address, nil // engines go on while the server is away
		}
		a.Log.Warn("the server cannot be reached; trying again", "server", a.Server, "err", err)
		if !retry.wait(ctx) {
			return "", ctx.Err()
		}
	}
}

// engineOf is where the engine of a replica answers on this machine, while one does.
func (a *Agent) engineOf(replicaID string) (base string, ok bool) {
	for _, t := range a.runtime.Targets() {
		if t.ReplicaID == replicaID {
			return t.URL, true
		}
	}
	return "", false
}

// advertised is what the server is told of host: through a tunnel there is none to tell.
func (a *Agent) advertised(host string) string {
	if a.Tunnel {
		return ""
	}
	return host
}

// unreachable warns when the address that was found out is probably none under which
// the gateway reaches this machine.
func (a *Agent) unreachable(host string) string {
	if a.Tunnel || a.Advertise != "" {
		return ""
	}
	own, errOwn := netip.ParseAddr(host)
	seen, errSeen := netip.ParseAddr(a.seenFrom)
	if errOwn != nil || errSeen != nil || own.Unmap().WithZone("") == seen || seen.IsLoopback() {
		return ""
	}
	return "The factory sees this machine at " + a.seenFrom + ", and its engines listen at " + host + ". " +
		"If requests do not reach them, start the agent with --tunnel, or with --advertise and an address that the gateway reaches."
}

// talk joins when needed and then reports, for ever.
func (a *Agent) talk(ctx context.Context, host string) error {
	retry := newBackoff()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		err := a.turn(ctx, host, retry)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			retry.reset()
		default:
			a.Log.Warn("not in touch with the server; engines go on and measurements are kept", "server", a.Server, "err", reason(err))
			if slow(err) {
				retry.slow() // nothing changes until a person does something
			}
			if !retry.wait(ctx) {
				return nil
			}
			a.client.paced.Store(true)
			continue
		}
		a.client.paced.Store(false)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-a.runtime.Changed():
		}
	}
}

// turn is one exchange with the server.
func (a *Agent) turn(ctx context.Context, host string, retry *backoff) error {
	if a.self.Credential == "" {
		return a.join(ctx, host)
	}
	err := a.report(ctx, host, retry)
	if factory.KindOf(err) == factory.Unauthenticated && a.Token != "" && a.self.Used != factory.HashSecret(a.Token) {
		// The machine was removed, or this is another factory: a token that has not
		// been used yet may let it in again.
		a.self.Credential = ""
		return errors.Join(a.self.save(), a.join(ctx, host))
	}
	return err
}

func (a *Agent) join(ctx context.Context, host string) error {
	if a.Token == "" {
		return factory.Errorf(factory.Unauthenticated, "This machine has not joined yet and there is no join token. Make one on the cluster's page and give it with --token.")
	}
	var resp agents.JoinResponse
	err := a.client.post(ctx, agents.PathJoin, "", agents.JoinRequest{
		Protocol: agents.Protocol, Token: a.Token, Identity: a.identity,
		Version: a.Version, Runtime: engines.RuntimeProcess, Address: a.advertised(host), Hardware: a.machine.hardware(),
	}, &resp)
	if err != nil {
		return err
	}
	a.self.NodeID, a.self.Credential, a.self.Used = resp.NodeID, resp.Credential, factory.HashSecret(a.Token)
	a.machine.joined(resp.NodeID)
	if err := a.self.save(); err != nil {
		return fmt.Errorf("keep the credential: %w", err)
	}
	a.Log.Info("joined", "cluster", resp.Cluster, "node", resp.NodeName)
	return nil
}

func (a *Agent) report(ctx context.Context, host string, retry *backoff) error {
	// Numbers continue where the server is, also when this folder is new: the first
	// report after a start carries nothing and learns the number.
	if a.outbox.numbered {
		if err := a.outbox.put(a.recorder.Flush()); err != nil {
			a.Log.Error("measurements cannot be written down", "err", err)
		}
	}
	statuses := a.runtime.Observe()
	for i, s := range statuses {
		if c := a.scraper.complaint(s.ID); c != "" && s.State == factory.Ready {
			statuses[i].Reason += " " + c // it serves, with errors
		}
	}
	if a.Tunnel {
		for i, s := range statuses {
			if s.URL != "" {
				statuses[i].URL = agents.TunnelURL(a.self.NodeID, s.ID, s.URL)
			}
		}
	}
	hardware := a.machine.hardware()
	if w := a.outbox.warning(); w != "" {
		hardware.Warnings = append(slices.Clip(hardware.Warnings), w)
	}
	if w := a.unreachable(host); w != "" {
		hardware.Warnings = append(slices.Clip(hardware.Warnings), w)
	}
	batches, err := a.outbox.oldest()
	if err != nil {
		return err
	}
	var resp agents.ReportResponse
	err = a.client.post(ctx, agents.PathReport, a.self.Credential, agents.Report{
		Protocol: agents.Protocol, SentAt: time.Now().UTC(), Version: a.Version, Address: a.advertised(host),
		Hardware: hardware, Replicas: statuses, Batches: batches,
	}, &resp)
	if err != nil {
		return err
	}
	if d := time.Duration(resp.SpreadMS) * time.Millisecond; d > 0 {
		a.client.spread.Store(int64(d))
		retry.spread(d)
	}
	if a.seenFrom != resp.SeenFrom {
		a.seenFrom = resp.SeenFrom
		if w := a.unreachable(host); w != "" {
			a.Log.Warn(w)
		}
	}
	if a.carrier != nil {
		a.carrier.admit(a.self.Credential, time.Duration(resp.SpreadMS)*time.Millisecond)
	}
	if err := a.outbox.acknowledged(resp.AckSeq); err != nil {
		a.Log.Warn("acknowledged measurements cannot be removed", "err", err)
	}
	wanted := map[string]bool{}
	for i, spec := range resp.Replicas {
		wanted[spec.ID] = true
		resp.Replicas[i].Unified = unified(hardware, spec.GPUUUIDs)
	}
	a.runtime.Apply(resp.Replicas)
	var gone []string
	for _, s := range statuses {
		if s.State == factory.Stopped && !wanted[s.ID] {
			gone = append(gone, s.ID)
		}
	}
	a.runtime.Forget(gone)
	return nil
}
