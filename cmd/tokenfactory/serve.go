package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"
)

type serveCommand struct {
	storage
	Listen      string `help:"Address to listen on." default:":8080" env:"TOKENFACTORY_LISTEN"`
	PublicURL   string `help:"Address under which browsers, clients and agents reach this server, such as https://factory.example.org. Default: whatever they used." env:"TOKENFACTORY_PUBLIC_URL"`
	BillingZone string `help:"Time zone in which the days, weeks and months of budgets begin, such as Europe/Berlin." default:"UTC" env:"TOKENFACTORY_BILLING_ZONE"`
	Pprof       string `help:"Serve profiles of the process at this address of the machine itself." hidden:"" env:"TOKENFACTORY_PPROF"`
}

func (c *serveCommand) Run(ctx context.Context, log *slog.Logger) error {
	zone, err := time.LoadLocation(c.BillingZone)
	if err != nil {
		return fmt.Errorf("billing zone: %w", err)
	}
	a, err := open(ctx, c.storage, c.PublicURL, zone, log)
	if err != nil {
		return err
	}
	defer a.Close()
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	if err := a.printSetupLink(ctx, ln.Addr()); err != nil {
		return err
	}
	if c.Pprof != "" {
		if err := servePprof(c.Pprof); err != nil {
			return err
		}
	}
	log.Info("serving", "address", ln.Addr().String(), "version", version)
	return a.Run(ctx, ln)
}
