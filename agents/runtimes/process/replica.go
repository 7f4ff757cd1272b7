package process

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

// What should become of a replica.
type goal int

const (
	keep      goal = iota
	end            // it is not wanted any more
	exitStop       // the agent goes, and its engines with it
	exitLeave      // the agent goes alone
)

// replica looks after one engine.
type replica struct {
	rt  *Runtime
	id  string
	dir string
	log logFile

	// These are run's own.
	rec      record
	child    *child
	failures int // in a row, for the back-off

	mu     sync.Mutex
	spec   factory.ReplicaSpec // as wanted now
	goal   goal
	wake   chan struct{}
	status factory.ReplicaStatus
	shown  shown
}

func newReplica(rt *Runtime, rec record) *replica {
	dir := filepath.Join(rt.folder(), rec.Spec.ID)
	r := &replica{
		rt: rt, id: rec.Spec.ID, dir: dir, rec: rec, spec: rec.Spec,
		log:  logFile{filepath.Join(dir, "engine.log")},
		wake: make(chan struct{}, 1),
		status: factory.ReplicaStatus{ID: rec.Spec.ID, Revision: rec.Spec.Revision, State: factory.Pending,
			Reason: "The agent is about to start it.", Restarts: rec.Restarts},
	}
	if rec.Ending {
		r.goal = end
	}
	return r
}

// want changes what should run.
func (r *replica) want(spec factory.ReplicaSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.goal == end {
		return // its end has begun and will be reported
	}
	anew := spec.Revision != r.spec.Revision
	r.spec = spec
	if anew {
		r.rouse()
	}
}

// aim changes what should become of it. An end is never taken back.
func (r *replica) aim(g goal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.goal == g || (r.goal == end && g != exitStop && g != exitLeave) {
		return
	}
	r.goal = g
	r.rouse()
}

func (r *replica) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *replica) wanted() (factory.ReplicaSpec, goal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spec, r.goal
}

// current reports whether what runs is still what should.
func (r *replica) current() bool {
	spec, g := r.wanted()
	return g == keep && spec.Revision == r.rec.Spec.Revision
}

// pause waits, unless something else is wanted meanwhile.
func (r *replica) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for r.current() {
		select {
		case <-t.C:
			return
		case <-r.wake:
		}
	}
}

// run looks after the replica until it is not wanted, or the agent ends.
func (r *replica) run() {
	for {
		spec, g := r.wanted()
		switch {
		case g == exitLeave:
			return
		case g == exitStop:
			r.finish(exitGrace, "The agent was stopped. It starts again with the agent.")
			return
		case g == end:
			r.finish(stopGrace, "Stopped.")
			return
		}
		if spec.Revision != r.rec.Spec.Revision {
			r.quit("Stopping the engine to start it anew with changed settings.", stopGrace)
			r.failures = 0
			r.rec.Restarts = 0
			if _, g := r.wanted(); g != keep {
				continue
			}
		}
		r.rec.Spec = spec
		r.saveRecord()
		if spec.Address != "" {
			r.watch()
		} else {
			r.serve()
		}
	}
}

// serve runs the engine once, from its start or adoption to its end.
func (r *replica) serve() {
	e, known := engines.Find(r.rec.Spec.Engine)
	if !known {
		r.fail("This agent does not know the engine "+r.rec.Spec.Engine+". Update the agent.", "")
		return
	}
	c := r.adopt()
	r.child = c
	if c != nil && r.rec.Revision != r.rec.Spec.Revision {
		r.stopChild(c, "Stopping the engine to start it anew with changed settings.", stopGrace)
		return
	}
	if host := listenHost(r.rt.Host); c != nil && r.rec.Listen != host && r.rec.Listen != "" {
		r.stopChild(c, "This machine is reached at "+r.rt.Host+" now, and the engine listens elsewhere: starting it anew.", stopGrace)
		return
	}
	if c == nil {
		r.set(factory.Pending, "Waiting for the server to say whether it is still wanted.")
		for heard := false; !heard; {
			select {
			case <-r.rt.heard:
				heard = true
			case <-r.wake:
				if !r.current() {
					return
				}
			}
		}
		if !r.current() {
			return
		}
		var err error
		if c, err = r.launch(e); err != nil {
			r.fail("It could not be started: "+strings.TrimSuffix(err.Error(), ".")+".", "")
			return
		}
		r.child = c
		r.rt.Log.Info("an engine is started", "replica", r.id, "deployment", r.rec.Spec.Deployment, "engine", e.Name, "pid", c.pid, "port", r.rec.Port)
	}
	base := "http://" + net.JoinHostPort(r.rt.Host, strconv.Itoa(r.rec.Port))
	r.begin(e, base, base)
	if !r.tend(probe{engine: e, base: base, spec: r.rec.Spec}, c.exited, !r.rec.ReadyAt.IsZero()) {
		return // still running, and something else is wanted
	}
	r.child = nil
	lived := time.Since(r.rec.StartedAt)
	if !r.rec.ReadyAt.IsZero() && time.Since(r.rec.ReadyAt) > maxBackoff {
		r.failures = 0 // it was well for long
	}
	r.fail("The engine "+c.how+" after "+lasted(lived)+".", e.Explain(r.log.tail(r.rec.LogFrom, nil)))
}

const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
)

// fail says why the engine does not run and waits before the next try.
func (r *replica) fail(why, hint string) {
	if !r.current() {
		return
	}
	wait := min(firstBackoff<<min(r.failures, 10), maxBackoff)
	r.failures++
	r.rec.Restarts++
	r.rec.PID = 0
	r.rt.Log.Warn("an engine failed", "replica", r.id, "deployment", r.rec.Spec.Deployment, "why", why, "next_try", wait)
	reason := why
	if hint != "" {
		reason += " " + hint
	}
	r.update(func(s *factory.ReplicaStatus) {
		s.State, s.Reason = factory.Failed, fmt.Sprintf("%s Next try in %s.", reason, lasted(wait))
		s.Revision, s.PID, s.ReadyAt, s.Progress, s.Restarts = r.rec.Spec.Revision, 0, nil, "", r.rec.Restarts
	})
	r.saveRecord()
	r.pause(wait)
}

// finish ends the engine for good, or until the agent is back.
func (r *replica) finish(grace time.Duration, reason string) {
	_, g := r.wanted()
	r.rec.Ending = r.rec.Ending || g == end
	r.saveRecord()
	r.quit("Finishing the answers that are under way.", grace)
	if _, g := r.wanted(); g == exitLeave {
		return // it ends by itself, and the next agent says so
	}
	r.update(func(s *factory.ReplicaStatus) {
		s.State, s.Reason, s.PID, s.ReadyAt, s.Progress = factory.Stopped, reason, 0, nil, ""
	})
}

// quit stops the engine when one runs.
func (r *replica) quit(reason string, grace time.Duration) {
	if r.child == nil {
		r.child = r.adopt()
	}
	if r.child != nil {
		r.stopChild(r.child, reason, grace)
	}
}

// stopChild ends an engine; the agent's own end shortens its time.
func (r *replica) stopChild(c *child, reason string, grace time.Duration) {
	engine, serving := r.target()
	r.set(factory.Stopping, reason)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if serving && grace > exitGrace {
			drain(c, engine, grace)
		}
		c.stop(grace)
	}()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		case <-r.wake:
			if _, g := r.wanted(); g == exitLeave {
				return
			} else if g == exitStop {
				_ = c.signal(syscall.SIGTERM) // it may be waiting for answers still
				go func() {
					select {
					case <-time.After(exitGrace):
						c.end()
					case <-ended:
					}
				}()
			}
		}
	}
	r.rt.Log.Info("an engine has stopped", "replica", r.id, "deployment", r.rec.Spec.Deployment, "how", c.how)
	r.child = nil
	r.rec.PID = 0
	r.saveRecord()
}

func (r *replica) saveRecord() {
	if err := r.rec.save(r.dir); err != nil {
		r.rt.Log.Error("a replica's record could not be written", "replica", r.id, "err", err)
	}
}
