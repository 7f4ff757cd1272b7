// Command tokenfactory-agent looks after one GPU machine: it joins a factory, says
// how the machine is, starts the engines that are wanted and measures them.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"tokenfactory/agents/node"
)

var version = "dev" // set by the linker

type program struct {
	Server    string           `help:"Address of the factory, such as https://factory.example.org." required:"" env:"TOKENFACTORY_SERVER"`
	Token     string           `help:"Join token from the cluster's page; needed once." env:"TOKENFACTORY_JOIN_TOKEN"`
	Data      string           `help:"Folder for the agent's credential, logs and unsent measurements." required:"" type:"path" env:"TOKENFACTORY_AGENT_DATA"`
	Runtime   string           `help:"How engines are started." enum:"process" default:"process"`
	Hardware  string           `help:"Describe the machine by this YAML file instead of looking at it." type:"existingfile"`
	Advertise string           `help:"Host name or IP address under which the gateway reaches this machine. Default: the one it reaches the factory from." xor:"reach"`
	Tunnel    bool             `help:"Carry requests over the agent's own connection, for a machine that the gateway cannot reach. Engines then listen on this machine alone." xor:"reach" env:"TOKENFACTORY_AGENT_TUNNEL"`
	OnExit    string           `help:"What becomes of engines when the agent is told to stop: stop them, or leave them for the next agent to adopt." enum:"stop,leave" default:"stop"`
	LogLevel  slog.Level       `help:"Least level that is logged: debug, info, warn or error." default:"info" env:"TOKENFACTORY_LOG_LEVEL"`
	Version   kong.VersionFlag `help:"Print the version."`
}

func main() {
	var p program
	kong.Parse(&p,
		kong.Name("tokenfactory-agent"),
		kong.Description("Looks after one GPU machine for a Token Factory. It connects outwards only."),
		kong.Vars{"version": version},
		kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tokenfactory-agent:", err)
		os.Exit(1)
	}
}

func (p *program) run(ctx context.Context) error {
	if u, err := url.Parse(p.Server); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("--server %q is no address; write one such as https://factory.example.org", p.Server)
	}
	a := node.Agent{
		Server: p.Server, Token: p.Token, Dir: p.Data, Version: version, Advertise: p.Advertise, Tunnel: p.Tunnel, Hardware: p.Hardware,
		LeaveRunning: p.OnExit == "leave",
		Log:          slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: p.LogLevel})),
	}
	return a.Run(ctx)
}
