package node

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"tokenfactory/agents/runtimes/process"
	"tokenfactory/engines"
	"tokenfactory/factory"
)

const (
	probePatience = 20 * time.Second
	// A failed try is repeated this much later: what it lacks may have been installed.
	probeAgain = 2 * time.Minute
)

// checker finds out which engines can be started here. Trying takes seconds of a
// Python interpreter, so an answer holds until the program is another.
type checker struct {
	mu    sync.Mutex
	known map[string]checked
}

type checked struct {
	program string
	changed time.Time
	tried   time.Time
	factory.EngineCheck
}

func (c *checker) all(ctx context.Context) []factory.EngineCheck {
	out := make([]factory.EngineCheck, len(engines.Catalogue))
	var wait sync.WaitGroup
	for i, e := range engines.Catalogue {
		wait.Go(func() { out[i] = c.one(ctx, e) })
	}
	wait.Wait()
	return out
}

func (c *checker) one(ctx context.Context, e engines.Engine) factory.EngineCheck {
	no := func(reason string) factory.EngineCheck { return factory.EngineCheck{Engine: e.Name, Reason: reason} }
	if e.Executable() == "" {
		return no(e.Title + " comes as a container image and cannot be started as a process. Use a machine whose agent has the container or kubernetes runtime.")
	}
	program, err := process.Program(e.Executable(), "")
	if err != nil {
		return no(e.NotInstalled())
	}
	if len(e.Probe) == 0 {
		return factory.EngineCheck{Engine: e.Name, OK: true}
	}
	probe := program
	if e.Probe[0] != e.Executable() {
		if probe, err = process.Program(e.Probe[0], ""); err != nil {
			return no(e.NotInstalled())
		}
	}
	var changed time.Time
	if info, err := os.Stat(program); err == nil {
		changed = info.ModTime()
	}
	c.mu.Lock()
	was, seen := c.known[e.Name]
	c.mu.Unlock()
	if seen && was.program == program && was.changed.Equal(changed) && (was.OK || time.Since(was.tried) < probeAgain) {
		return was.EngineCheck
	}
	now := checked{program, changed, time.Now(), try(ctx, e, probe)}
	c.mu.Lock()
	if c.known == nil {
		c.known = map[string]checked{}
	}
	c.known[e.Name] = now
	c.mu.Unlock()
	return now.EngineCheck
}

// try runs the engine's quick command.
func try(ctx context.Context, e engines.Engine, program string) factory.EngineCheck {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, e.Probe[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(out), "")), "\n")
	if err == nil {
		return factory.EngineCheck{Engine: e.Name, OK: true, Version: version(lines)}
	}
	why := strings.TrimSpace(lines[len(lines)-1])
	if ctx.Err() != nil {
		why = "it has not answered for " + probePatience.String()
	} else if why == "" || errors.Is(err, exec.ErrNotFound) {
		why = err.Error()
	}
	return factory.EngineCheck{Engine: e.Name, Reason: e.Title + " cannot be started on this machine: " + strings.TrimSuffix(short(why, 200), ".") + ". " + e.Install}
}

// version is the first word with a digit in it of what a program says of itself.
func version(lines []string) string {
	for _, line := range lines {
		for _, word := range strings.Fields(line) {
			if strings.ContainsAny(word, "0123456789") && len(word) <= 40 {
				return strings.Trim(word, "(),;:")
			}
		}
	}
	return ""
}

func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}
