// Command tokenfactory is the whole product in one binary: the console and the
// gateway (serve), everything on one machine to look at (demo), a practice
// engine (sim-engine), the proof of its figures (replay), and the tools of an
// operator (apply, admin).
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of viewers and budgets, also where the machine has none

	"github.com/alecthomas/kong"
)

var version = "dev" // set by the linker

type program struct {
	LogLevel slog.Level       `help:"Least level that is logged: debug, info, warn or error." default:"info" env:"TOKENFACTORY_LOG_LEVEL"`
	Version  kong.VersionFlag `help:"Print the version."`

	Serve     serveCommand     `cmd:"" help:"Run the console, the gateway and the intake of agents."`
	Demo      demoCommand      `cmd:"" help:"Run everything on this machine: console, gateway, agents, engines and traffic."`
	SimEngine simEngineCommand `cmd:"" name:"sim-engine" help:"Run a practice engine with set timings that speaks the OpenAI API."`
	Replay    replayCommand    `cmd:"" help:"Send traffic as users do, measure it, and compare with what the console shows."`
	Apply     applyCommand     `cmd:"" help:"Create or change what a YAML file describes."`
	Admin     adminCommand     `cmd:"" help:"Tools that need the data folder."`
}

func main() {
	var p program
	k := kong.Parse(&p,
		kong.Name("tokenfactory"),
		kong.Description("Turns GPU machines into a governed, multi-tenant LLM service."),
		kong.Vars{"version": version},
		kong.UsageOnError(),
		kong.Exit(func(status int) {
			if status != 0 {
				status = exitUsage // of flags that make no sense, as shells have it
			}
			os.Exit(status)
		}))
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: p.LogLevel}))

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	k.Bind(log)
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "tokenfactory:", err)
		status := 1
		if exit := (exitError{}); errors.As(err, &exit) {
			status = exit.status
		}
		os.Exit(status)
	}
}
