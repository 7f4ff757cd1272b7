package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed demodata/desk.yaml
var deskHardware []byte

//go:embed demodata/rack.yaml
var rackHardware []byte

// crew keeps the demo's agents running: one process for each described machine.
type crew struct {
	dir    string
	server string
	joins  map[string]string
	log    *slog.Logger
}

func (c *crew) Run(ctx context.Context) error {
	program, err := agentProgram()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for cluster, hardware := range map[string][]byte{"desk": deskHardware, "rack": rackHardware} {
		dir := filepath.Join(c.dir, "agent-"+cluster)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		file := filepath.Join(dir, "hardware.yaml")
		if err := os.WriteFile(file, hardware, 0o600); err != nil {
			return err
		}
		g.Go(func() error {
			return c.keep(ctx, cluster, program,
				"--server", c.server, "--data", dir, "--runtime", "process", "--hardware", file)
		})
	}
	return g.Wait()
}

// keep runs an agent until ctx ends and starts it again when it ends by itself.
func (c *crew) keep(ctx context.Context, cluster, program string, args ...string) error {
	// The parent-death signal is tied to the thread that started the child, so
	// this goroutine keeps its thread. With it no agent outlives a killed demo.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		out, err := os.OpenFile(filepath.Join(c.dir, "agent-"+cluster, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, program, args...)
		// Secrets go through the environment: arguments can be read by everybody on the machine.
		cmd.Env = append(os.Environ(), "TOKENFACTORY_JOIN_TOKEN="+c.joins[cluster])
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 4 * time.Second
		err = cmd.Run()
		out.Close()
		if ctx.Err() != nil {
			return nil
		}
		c.log.Warn("an agent ended and is started again", "cluster", cluster, "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// agentProgram finds the agent: built beside this program, or in PATH.
func agentProgram() (string, error) {
	const name = "tokenfactory-agent"
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor in PATH; make build puts both into bin/", name)
	}
	return path, nil
}
