// Package process runs engines as processes of the agent's machine. They outlive
// the agent: each is recorded on disk with the time it was started, and an agent
// that comes back adopts what still runs instead of starting it twice. Loading a
// model again would take minutes, and the memory for two is not there.
package process

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tokenfactory/factory"
)

// How long things may take.
const (
	stopGrace = 30 * time.Second // for answers that are under way
	exitGrace = 3 * time.Second  // when the agent itself is told to go
	// unheard is how long engines that do not run wait for the server to say
	// whether they are still wanted; after that what was wanted last holds.
	unheard = 10 * time.Second
)

// Runtime starts, watches and stops the engines of one machine.
type Runtime struct {
	Dir  string // the agent's data folder
	Host string // where the gateway reaches this machine
	Log  *slog.Logger
	// LeaveRunning makes the end of Run leave engines alone, to be adopted later.
	LeaveRunning bool

	mu       sync.Mutex
	replicas map[string]*replica
	applied  bool // the server has spoken since Run began
	running  bool
	closing  bool
	heard    chan struct{}
	changed  chan struct{}
	ports    map[int]string // by which replica
	all      sync.WaitGroup
	once     sync.Once
}

func (rt *Runtime) init() {
	rt.once.Do(func() {
		rt.replicas = map[string]*replica{}
		rt.ports = map[int]string{}
		rt.heard = make(chan struct{})
		rt.changed = make(chan struct{}, 1)
	})
}

// Changed is sent to when a replica's state changes.
func (rt *Runtime) Changed() <-chan struct{} {
	rt.init()
	return rt.changed
}

func (rt *Runtime) noteChange() {
	select {
	case rt.changed <- struct{}{}:
	default:
	}
}

// Run takes over what an earlier agent left, works until ctx ends, and then stops
// every engine that was started, or leaves all running.
func (rt *Runtime) Run(ctx context.Context) error {
	rt.init()
	// The same folder by the same name in every life: engines carry it.
	dir, err := filepath.Abs(rt.Dir)
	if err != nil {
		return err
	}
	rt.Dir = dir
	records, err := rt.load()
	if err != nil {
		return err
	}
	rt.mu.Lock()
	rt.running = true
	for _, rec := range records {
		if rt.replicas[rec.Spec.ID] == nil {
			rt.add(rec)
		}
	}
	rt.mu.Unlock()
	patience := time.AfterFunc(unheard, rt.listened)
	defer patience.Stop()

	<-ctx.Done()
	rt.mu.Lock()
	rt.closing = true
	goal := exitStop
	if rt.LeaveRunning {
		goal = exitLeave
	}
	for _, r := range rt.replicas {
		r.aim(goal)
	}
	rt.mu.Unlock()
	rt.all.Wait()
	return nil
}

// listened lets engines start that were not found running.
func (rt *Runtime) listened() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if !rt.applied {
		rt.applied = true
		close(rt.heard)
	}
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// Apply makes exactly these replicas run: others are stopped, and one with another
// revision is stopped before it is started anew.
func (rt *Runtime) Apply(specs []factory.ReplicaSpec) {
	rt.init()
	rt.mu.Lock()
	if rt.closing || !rt.running {
		rt.mu.Unlock()
		return
	}
	wanted := map[string]bool{}
	for _, spec := range specs {
		if !idPattern.MatchString(spec.ID) { // it becomes a folder's name
			rt.Log.Error("a replica's id cannot be used", "replica", spec.ID)
			continue
		}
		wanted[spec.ID] = true
		if r := rt.replicas[spec.ID]; r != nil {
			r.want(spec)
		} else {
			rt.add(record{Spec: spec})
		}
	}
	for id, r := range rt.replicas {
		if !wanted[id] {
			r.aim(end)
		}
	}
	rt.mu.Unlock()
	rt.listened()
}

// add starts looking after a replica; rt.mu is held.
func (rt *Runtime) add(rec record) {
	r := newReplica(rt, rec)
	rt.replicas[rec.Spec.ID] = r
	rt.all.Add(1)
	go func() {
		defer rt.all.Done()
		r.run()
	}()
}

// Observe says how every replica is, also those that have stopped, until they are
// forgotten.
func (rt *Runtime) Observe() []factory.ReplicaStatus {
	out := []factory.ReplicaStatus{}
	for _, r := range rt.list() {
		out = append(out, r.observe())
	}
	return out
}

// Forget drops replicas that have stopped, once the server knows that they have.
func (rt *Runtime) Forget(ids []string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, id := range ids {
		r := rt.replicas[id]
		if r == nil || !r.done() {
			continue
		}
		delete(rt.replicas, id)
		rt.freePort(id)
		if err := os.RemoveAll(r.dir); err != nil {
			rt.Log.Warn("a stopped replica's folder stays", "replica", id, "err", err)
		}
	}
}

// Target is an engine whose metrics can be read.
type Target struct {
	ReplicaID    string
	DeploymentID string
	Engine       string
	URL          string // as this machine reaches it
	// Run tells one process of the engine from the next. It is empty for engines
	// that were not started here, whose counters are not all ours.
	Run string
}

// Targets lists the engines that have served.
func (rt *Runtime) Targets() []Target {
	var out []Target
	for _, r := range rt.list() {
		if t, ok := r.target(); ok {
			out = append(out, t)
		}
	}
	return out
}

func (rt *Runtime) list() []*replica {
	rt.init()
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return slices.SortedFunc(maps.Values(rt.replicas), func(a, b *replica) int { return strings.Compare(a.id, b.id) })
}

func (rt *Runtime) folder() string { return filepath.Join(rt.Dir, "replicas") }
