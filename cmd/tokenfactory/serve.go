package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
)

type serveCommand struct {
	storage
	Listen    string `help:"Address to listen on." default:":8080" env:"TOKENFACTORY_LISTEN"`
	PublicURL string `help:"Address under which browsers, clients and agents reach this server, such as https://factory.example.org. Default: whatever they used." env:"TOKENFACTORY_PUBLIC_URL"`
}

func (c *serveCommand) Run(ctx context.Context, log *slog.Logger) error {
	a, err := open(ctx, c.storage, c.PublicURL, log)
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
	log.Info("serving", "address", ln.Addr().String(), "version", version)
	return a.Run(ctx, ln)
}
