package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// How often the machine is looked at. Asking the driver's tool takes a good part of
// a second of CPU, so figures are not newer than this.
const (
	lookEvery    = 10 * time.Second
	enginesEvery = time.Minute
)

// machine is this machine as it was seen last.
type machine struct {
	root      string
	described *described // instead of looking
	file      string     // that described was read from
	recorder  *metrics.Recorder
	nvidia    nvidia
	checker   checker

	mu      sync.Mutex
	node    string // its id, once the machine has joined
	now     factory.Hardware
	checks  []factory.EngineCheck
	checked time.Time
}

// look reads everything anew.
func (m *machine) look(ctx context.Context) {
	var h factory.Hardware
	if m.described != nil {
		h = m.reread()
	} else {
		var mem memory
		h, mem = readSystem(m.root)
		h.GPUs, h.Warnings = m.nvidia.look(ctx, mem)
		h.Driver, h.CUDA = m.nvidia.driver, m.nvidia.details.cuda
		for _, g := range h.GPUs {
			if g.Unhealthy != "" {
				h.Warnings = append(h.Warnings, "GPU "+g.Name+" ("+g.BusID+") is not used. "+g.Unhealthy)
			}
		}
		h.Warnings = distinct(h.Warnings)
	}
	if h.GPUs == nil {
		h.GPUs = []factory.GPU{}
	}
	// What this machine can start is real also where the rest is described.
	if m.checks == nil || time.Since(m.checked) > enginesEvery {
		m.checks, m.checked = m.checker.all(ctx), time.Now()
	}
	h.Engines = m.checks
	m.mu.Lock()
	m.now = h
	node := m.node
	m.mu.Unlock()
	if node != "" {
		measureGPUs(m.recorder, time.Now(), node, h.GPUs)
	}
}

// joined says under which id the machine's figures are kept.
func (m *machine) joined(node string) {
	m.mu.Lock()
	m.node = node
	m.mu.Unlock()
}

func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func (m *machine) hardware() factory.Hardware {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Run keeps looking until ctx ends.
func (m *machine) Run(ctx context.Context) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			m.look(ctx)
		}
	}
}

// unified reports whether one of the devices shares the machine's memory.
func unified(h factory.Hardware, uuids []string) bool {
	return slices.ContainsFunc(h.GPUs, func(g factory.GPU) bool { return g.Unified && slices.Contains(uuids, g.UUID) })
}
