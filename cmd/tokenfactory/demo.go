package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"tokenfactory/factory"
)

type demoCommand struct {
	storage
	Listen string `help:"Address to listen on; port 0 takes a free one." default:"127.0.0.1:8080"`
	JSON   bool   `help:"Print one JSON line when ready, for scripts."`
}

// ready is what a demo says once everything runs; scripts rely on its fields.
type ready struct {
	Console     string            `json:"console"`
	V1          string            `json:"v1"`
	Operator    login             `json:"operator"`
	Tenant      login             `json:"tenant"`
	Key         string            `json:"key"`
	Models      []string          `json:"models"`
	Deployments []readyDeployment `json:"deployments"`
}

type login struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

type readyDeployment struct {
	ID    string `json:"id"`
	Model string `json:"model"`
}

// readyWithin bounds how long the demo waits for its engines.
const readyWithin = 90 * time.Second

// Run starts the real product on this machine: the server of `serve`, two real
// agents that describe machines we do not have, engines that those agents start,
// and clients that send requests. Nothing is short-cut except the GPUs.
func (c *demoCommand) Run(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	base := "http://" + reachable(ln.Addr())
	quiet := log
	if !log.Enabled(ctx, slog.LevelDebug) {
		quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	a, err := open(ctx, c.storage, base, time.UTC, quiet)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer a.Close()

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(gctx, ln) })
	g.Go(func() error {
		err := c.play(gctx, a, base, quiet)
		if gctx.Err() != nil {
			return nil // told to stop while still setting up
		}
		return err
	})
	return g.Wait()
}

// play sets the demo up, says so, and keeps agents and traffic going until ctx ends.
func (c *demoCommand) play(ctx context.Context, a *app, base string, log *slog.Logger) error {
	say := func(format string, args ...any) {
		if !c.JSON {
			fmt.Printf(format+"\n", args...)
		}
	}
	secrets, err := readSecrets(filepath.Join(c.Data, "demo.json"))
	if err != nil {
		return err
	}
	say("Setting up clusters, models, tenants and deployments …")
	if err := secrets.setUp(ctx, a, base); err != nil {
		return fmt.Errorf("set up the demo: %w", err)
	}
	deployments, err := a.store.AllDeployments(ctx)
	if err != nil {
		return err
	}
	say("Writing seven days of history …")
	if err := writeHistory(ctx, a.store, deployments, secrets, factory.Now()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	say("Starting two agents and their engines …")
	crew := &crew{dir: c.Data, server: base, joins: secrets.Joins, log: log}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return crew.Run(gctx) })
	g.Go(func() error {
		if err := waitReady(gctx, a.store, deployments); err != nil {
			return err
		}
		t := traffic{base: base + "/v1", secrets: secrets, log: log}
		if err := t.first(gctx); err != nil {
			return err
		}
		c.announce(base, secrets, deployments)
		return t.Run(gctx)
	})
	return g.Wait()
}

func (c *demoCommand) announce(base string, s *demoSecrets, deployments []factory.Deployment) {
	r := ready{Console: base, V1: base + "/v1", Operator: s.Operator, Tenant: s.Tenant, Key: s.Keys[demoKeyAcme]}
	for _, name := range demoOrder {
		for _, d := range deployments {
			if d.Name != name {
				continue
			}
			r.Deployments = append(r.Deployments, readyDeployment{ID: d.ID, Model: d.PublicName})
			if name != demoBatch { // shared with the other tenant only
				r.Models = append(r.Models, d.PublicName)
			}
		}
	}
	if c.JSON {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err) // strings only
		}
		fmt.Println(string(line))
		return
	}
	fmt.Printf(`
Token Factory is running.

  Console            %s
  Operator           %s   %s
  Tenant member      %s   %s
  Metrics            %s/deployments/%s/metrics

  curl %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
    -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

The GPUs are described, not real; the seven days of history are synthetic; everything else is the product.
Stop with Ctrl-C.
`, base, r.Operator.Email, r.Operator.Password, r.Tenant.Email, r.Tenant.Password,
		base, r.Deployments[0].ID, r.V1, r.Key, r.Models[0])
}
