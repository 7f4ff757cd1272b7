package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"tokenfactory/engines"
)

// child is a running engine, started here or adopted.
type child struct {
	pid    int
	exited chan struct{}
	how    string // how it ended, once exited is closed
	// ours reports whether the number is still this engine's; nil for our own
	// children, whose number stays theirs until we have waited for them.
	ours func() bool
}

// Variables of the agent itself are none of an engine's business; one of them can
// be a join token.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TOKENFACTORY_") })
}

// launch starts the engine of r with what it should run. The record is on disk
// before and after, so that a killed agent finds what it started.
func (r *replica) launch(e engines.Engine) (*child, error) {
	rt := r.rt
	host := listenHost(rt.Host)
	port, err := rt.choosePort(r.id, host, r.rec.Port)
	if err != nil {
		return nil, err
	}
	argv, env := e.Launch(r.rec.Spec, host, port)
	if len(argv) == 0 {
		return nil, fmt.Errorf("%s cannot be started as a process", e.Title)
	}
	path, err := Program(argv[0], r.rec.Spec.Env["PATH"])
	if err != nil {
		return nil, errors.New(e.NotInstalled())
	}
	out, from, err := r.log.open()
	if err != nil {
		return nil, fmt.Errorf("open the engine's log: %w", err)
	}
	defer out.Close()

	r.rec.Listen, r.rec.Port, r.rec.LogFrom, r.rec.Revision = host, port, from, r.rec.Spec.Revision
	r.rec.PID, r.rec.StartTicks, r.rec.ReadyAt, r.rec.Launching = 0, 0, time.Time{}, true
	if err := r.rec.save(r.dir); err != nil {
		return nil, fmt.Errorf("record the replica: %w", err)
	}
	cmd := exec.Command(path, argv[1:]...)
	cmd.Env = append(append(inherited(), env...), marker+"="+r.mark())
	// A file, not a pipe: the engine must be able to write when the agent is gone.
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own: what stops the agent from a terminal does not reach it, and
	// its workers can be ended with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.rec.Launching = false
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	c := &child{pid: cmd.Process.Pid, exited: make(chan struct{})}
	s, lookErr := look(c.pid)
	go func() {
		err := cmd.Wait()
		sweep(c.pid, r.mark())
		c.how = describe(err, cmd.ProcessState)
		close(c.exited)
	}()
	r.rec.PID, r.rec.StartTicks, r.rec.Boot, r.rec.StartedAt, r.rec.Launching = c.pid, s.ticks, bootID(), time.Now().UTC(), false
	if err := errors.Join(ignoreDone(lookErr), r.rec.save(r.dir)); err != nil {
		// An engine that would not be found again must not run.
		c.stop(0)
		return nil, fmt.Errorf("record the engine: %w", err)
	}
	return c, nil
}

// ignoreDone forgives that a process ended before it was looked at.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// adoptEvery is how often an adopted engine is looked at: nobody tells us of the
// end of a process that is not our child.
const adoptEvery = 500 * time.Millisecond

// adopt takes over the engine of a record, when it still runs.
func (r *replica) adopt() *child {
	if r.rec.Launching {
		r.rec.Launching = false
		pid, ticks := orphan(r.mark())
		if pid == 0 {
			return nil
		}
		r.rec.PID, r.rec.StartTicks, r.rec.Boot, r.rec.StartedAt = pid, ticks, bootID(), time.Now().UTC()
		if err := r.rec.save(r.dir); err != nil {
			r.rt.Log.Error("an adopted engine could not be recorded", "replica", r.id, "err", err)
		}
	}
	if !r.rec.alive() {
		return nil
	}
	rec := r.rec
	r.rt.holdPort(r.id, rec.Port)
	c := &child{pid: rec.PID, exited: make(chan struct{}), ours: rec.alive}
	go func() {
		for rec.alive() {
			time.Sleep(adoptEvery)
		}
		if _, err := look(c.pid); err != nil { // else its number is somebody else's by now
			sweep(c.pid, r.mark())
		}
		c.how = "ended"
		close(c.exited)
	}()
	r.rt.Log.Info("an engine that still runs is adopted", "replica", r.id, "deployment", rec.Spec.Deployment, "pid", rec.PID)
	return c
}

// stop asks the engine to end and waits for at most grace before it makes it.
func (c *child) stop(grace time.Duration) {
	if grace > 0 && c.signal(syscall.SIGTERM) == nil {
		select {
		case <-c.exited:
			return
		case <-time.After(grace):
		}
	}
	c.end()
	<-c.exited
}

// end kills the engine and all its workers.
func (c *child) end() {
	select {
	case <-c.exited:
		return
	default:
	}
	if c.ours == nil || c.ours() {
		endGroup(c.pid)
	}
}

// signal is for the engine's leader only: it ends its workers in order.
func (c *child) signal(s syscall.Signal) error {
	select {
	case <-c.exited:
		return os.ErrProcessDone
	default:
	}
	if c.ours != nil && !c.ours() {
		return os.ErrProcessDone
	}
	return syscall.Kill(c.pid, s)
}

func describe(err error, state *os.ProcessState) string {
	if state == nil {
		return fmt.Sprintf("could not be waited for (%v)", err)
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return "was killed (often because the machine ran out of memory)"
	case ok && status.Signaled():
		return fmt.Sprintf("was ended by signal %d (%s)", int(status.Signal()), status.Signal())
	}
	return fmt.Sprintf("exited with status %d", state.ExitCode())
}

// Program finds an engine's program: beside the agent's own, then in path, a list
// of folders, or in the agent's PATH when that is empty.
func Program(name, path string) (string, error) {
	if strings.ContainsRune(name, os.PathSeparator) {
		return exec.LookPath(name)
	}
	if self, err := os.Executable(); err == nil {
		if found, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return found, nil
		}
	}
	if path == "" {
		return exec.LookPath(name)
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}
