package factory

// Hardware is what an agent found on its machine. Pointers are nil where the
// machine does not say: "not reported" is never zero.
type Hardware struct {
	Hostname    string `json:"hostname"`
	Arch        string `json:"arch"` // as Go names it: amd64, arm64
	OS          string `json:"os"`   // for example "Ubuntu 24.04.2 LTS"
	Kernel      string `json:"kernel"`
	CPUModel    string `json:"cpu_model"`
	CPUCores    int    `json:"cpu_cores"`
	MemoryBytes int64  `json:"memory_bytes"`
	Driver      string `json:"driver,omitempty"` // NVIDIA driver version
	CUDA        string `json:"cuda,omitempty"`   // newest CUDA that the driver supports
	GPUs        []GPU  `json:"gpus"`
	// Warnings are sentences for the operator: what is odd about this machine and what to do.
	Warnings []string `json:"warnings,omitempty"`
	// Engines says for every engine of the catalogue whether this machine can start it.
	Engines []EngineCheck `json:"engines"`
}

// GPU is one card, or one MIG slice. They are told apart by UUID only: indices
// change between tools, and equal cards have equal names.
type GPU struct {
	UUID        string   `json:"uuid"`
	Index       int      `json:"index"`
	Name        string   `json:"name"`
	BusID       string   `json:"bus_id,omitempty"`
	ComputeCap  string   `json:"compute_cap,omitempty"`
	MemoryBytes *int64   `json:"memory_bytes"`
	UsedBytes   *int64   `json:"used_bytes"`
	Utilisation *float64 `json:"utilisation"` // percent, 0 to 100
	Temperature *float64 `json:"temperature"` // degrees Celsius
	PowerWatts  *float64 `json:"power_watts"`
	// ClockMHz is how fast the multiprocessors run, of at most ClockMaxMHz.
	ClockMHz    *float64 `json:"clock_mhz,omitempty"`
	ClockMaxMHz *float64 `json:"clock_max_mhz,omitempty"`
	// Unified is set for devices that share the machine's memory with the CPU
	// (GB10); their memory figures are the machine's own.
	Unified bool `json:"unified,omitempty"`
	// MIGProfile names the slice ("3g.20gb") and ParentUUID its card.
	MIGProfile string `json:"mig_profile,omitempty"`
	ParentUUID string `json:"parent_uuid,omitempty"`
	// Partitioned is set on a card that is cut into MIG slices: it is shown, and
	// never offered as a whole.
	Partitioned bool `json:"partitioned,omitempty"`
	// Unhealthy is the reason why the card must not be used; empty when it may.
	Unhealthy string `json:"unhealthy,omitempty"`
}

// Allocatable reports whether a replica may be given this device.
func (g GPU) Allocatable() bool { return !g.Partitioned && g.Unhealthy == "" }

// PhysicalGPUs counts cards, not slices.
func (h Hardware) PhysicalGPUs() int {
	n := 0
	for _, g := range h.GPUs {
		if g.MIGProfile == "" {
			n++
		}
	}
	return n
}

// AllocatableGPUs lists the devices that replicas may be given, in bus order as reported.
func (h Hardware) AllocatableGPUs() []GPU {
	var out []GPU
	for _, g := range h.GPUs {
		if g.Allocatable() {
			out = append(out, g)
		}
	}
	return out
}

// EngineCheck says whether a machine can start an engine, and if not, why and what would help.
type EngineCheck struct {
	Engine  string `json:"engine"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Engine finds the check of one engine; the second result is false when the
// machine has not reported on it.
func (h Hardware) Engine(name string) (EngineCheck, bool) {
	for _, c := range h.Engines {
		if c.Engine == name {
			return c, true
		}
	}
	return EngineCheck{}, false
}
