// Package clusters is how clusters and their machines look: the fleet, one
// cluster, one machine, and the page on which a machine is registered.
package clusters

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

// Form is a cluster as typed.
type Form struct {
	Name        string `form:"name"`
	Description string `form:"description"`

	Errors factory.FieldErrors `form:"-"`
}

// Spec reads what was typed.
func (f Form) Spec() factory.ClusterSpec {
	return factory.ClusterSpec{Description: strings.TrimSpace(f.Description)}
}

// Machine is a node with what runs on it.
type Machine struct {
	factory.Node
	Online   bool
	Replicas []Placed
}

// Placed is a replica with the name of its deployment.
type Placed struct {
	factory.Replica
	Deployment string
}

// Served is a deployment of the cluster with how it stands.
type Served struct {
	factory.Deployment
	State    factory.State
	Reason   string
	Ready    int
	Machines []string
}

// Row is a cluster in the list of all.
type Row struct {
	factory.Cluster
	Machines    []Machine
	Deployments int
	Failed      int // deployments that are failed or degraded
}

// Offline counts the machines that have gone silent.
func (r Row) Offline() int { return len(r.Machines) - r.Online() }

// Online counts the machines that have been heard of lately.
func (r Row) Online() int {
	n := 0
	for _, m := range r.Machines {
		if m.Online {
			n++
		}
	}
	return n
}

// GPUCount is how many cards of one product there are.
type GPUCount struct {
	Name  string
	Count int
}

// gpusOf counts cards by product, in order of appearance.
func gpusOf(machines []Machine) []GPUCount {
	var out []GPUCount
	for _, m := range machines {
		for _, g := range m.Hardware.GPUs {
			if g.MIGProfile != "" {
				continue
			}
			i := slices.IndexFunc(out, func(c GPUCount) bool { return c.Name == g.Name })
			if i < 0 {
				out = append(out, GPUCount{Name: g.Name})
				i = len(out) - 1
			}
			out[i].Count++
		}
	}
	return out
}

func archsOf(machines []Machine) []string {
	var out []string
	for _, m := range machines {
		if a := m.Hardware.Arch; a != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// enginesOf lists the titles of the engines that some machine can start.
func enginesOf(machines []Machine) []string {
	var out []string
	for _, e := range engines.Catalogue {
		for _, m := range machines {
			if c, known := m.Hardware.Engine(e.Name); known && c.OK {
				out = append(out, e.Title)
				break
			}
		}
	}
	return out
}

// engineTitle is an engine's name as people write it.
func engineTitle(name string) string {
	if e, ok := engines.Find(name); ok {
		return e.Title
	}
	return name
}

// Show is one cluster.
type Show struct {
	factory.Cluster
	Machines  []Machine
	Served    []Served
	Endpoints []factory.Endpoint
	Tokens    []factory.JoinToken
	Now       time.Time
}

// warning is a sentence about a machine.
type warning struct{ machine, text string }

// SkewShown is the clock difference from which people are told.
const SkewShown = 2 * time.Second

func (s Show) warnings() []warning {
	var out []warning
	for _, m := range s.Machines {
		out = append(out, m.warnings()...)
	}
	return out
}

func (m Machine) warnings() []warning {
	var out []warning
	for _, w := range m.Hardware.Warnings {
		out = append(out, warning{m.Name, w})
	}
	for _, g := range m.Hardware.GPUs {
		if g.Unhealthy != "" {
			out = append(out, warning{m.Name, "GPU " + strconv.Itoa(g.Index) + " is not used: " + g.Unhealthy})
		}
	}
	if m.Skew.Abs() >= SkewShown {
		out = append(out, warning{m.Name, "Its clock is " + skewText(m.Skew) + ". Measurements are corrected; let the machine synchronise its time."})
	}
	return out
}

func skewText(d time.Duration) string {
	if d.Abs() < 100*time.Millisecond {
		return "in step"
	}
	text := strconv.FormatFloat(d.Abs().Seconds(), 'f', 1, 64) + " s"
	if d < 0 {
		return text + " behind"
	}
	return text + " ahead"
}

// gpuRow is a card or a slice under its card.
type gpuRow struct {
	factory.GPU
	Slice bool
	// Slices is how many parts a card is cut into.
	Slices int
	Holds  []Placed
}

// gpuRows puts MIG slices under their card, and says who holds what.
func (m Machine) gpuRows() []gpuRow {
	var out []gpuRow
	add := func(g factory.GPU, slice bool) {
		row := gpuRow{GPU: g, Slice: slice}
		for _, r := range m.Replicas {
			if slices.Contains(r.GPUUUIDs, g.UUID) {
				row.Holds = append(row.Holds, r)
			}
		}
		out = append(out, row)
	}
	known := map[string]bool{}
	for _, g := range m.Hardware.GPUs {
		known[g.UUID] = true
	}
	for _, g := range m.Hardware.GPUs {
		if g.MIGProfile != "" && known[g.ParentUUID] {
			continue
		}
		add(g, g.MIGProfile != "")
		at := len(out) - 1
		for _, s := range m.Hardware.GPUs {
			if s.MIGProfile != "" && s.ParentUUID == g.UUID {
				add(s, true)
				out[at].Slices++
			}
		}
	}
	return out
}

func gpuSummary(h factory.Hardware) string {
	counts := gpusOf([]Machine{{Node: factory.Node{Hardware: h}}})
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = c.text()
	}
	if len(parts) == 0 {
		return "no GPU"
	}
	return strings.Join(parts, ", ")
}

func (c GPUCount) text() string {
	if c.Count == 1 {
		return c.Name
	}
	return strconv.Itoa(c.Count) + " × " + c.Name
}

// whole is a reading without decimals: none of them is that exact.
func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
