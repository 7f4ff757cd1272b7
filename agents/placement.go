package agents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

// fleet is the machines with what is taken on them.
type fleet struct {
	nodes map[string]*room
}

// room is one machine and what it has left.
type room struct {
	factory.Node
	quiet    bool
	holder   map[string]factory.Replica // by device; a stopping one still has the memory
	replicas int
	of       map[string]int // replicas by deployment
}

func newFleet(nodes []factory.Node, now time.Time) fleet {
	f := fleet{nodes: make(map[string]*room, len(nodes))}
	for _, n := range nodes {
		f.nodes[n.ID] = &room{Node: n, quiet: !n.Online(now), holder: map[string]factory.Replica{}, of: map[string]int{}}
	}
	return f
}

// hold notes what a replica has.
func (f fleet) hold(r factory.Replica) {
	n := f.nodes[r.NodeID]
	if n == nil {
		return
	}
	n.replicas++
	n.of[r.DeploymentID]++
	for _, uuid := range r.GPUUUIDs {
		n.holder[uuid] = r
	}
}

// lost reports whether a replica was given a device that its machine, which is
// well, cannot use any more.
func (f fleet) lost(r factory.Replica) bool {
	n := f.nodes[r.NodeID]
	if n == nil || n.quiet {
		return false
	}
	return slices.ContainsFunc(r.GPUUUIDs, func(uuid string) bool { return !allocatable(n.Hardware, uuid) })
}

func allocatable(h factory.Hardware, uuid string) bool {
	return slices.ContainsFunc(h.GPUs, func(g factory.GPU) bool { return g.UUID == uuid && g.Allocatable() })
}

// suits reports whether a replica can stay where it is with what its deployment
// says now.
func (f fleet) suits(d factory.Deployment, r factory.Replica) bool {
	n := f.nodes[r.NodeID]
	if n == nil || n.ClusterID != d.ClusterID || len(r.GPUUUIDs) != d.GPUCount {
		return false
	}
	for _, uuid := range r.GPUUUIDs {
		i := slices.IndexFunc(n.Hardware.GPUs, func(g factory.GPU) bool { return g.UUID == uuid })
		if i < 0 || !n.Hardware.GPUs[i].Allocatable() || !isProduct(n.Hardware.GPUs[i], d.GPU) {
			return false
		}
	}
	return n.cannotRun(d) == ""
}

func isProduct(g factory.GPU, wanted string) bool {
	return wanted == "" || strings.EqualFold(g.Name, wanted)
}

// cannotRun is why the deployment's engine does not start on a machine.
func (n *room) cannotRun(d factory.Deployment) string {
	if d.Address != "" {
		return ""
	}
	e, known := engines.Find(d.Engine)
	if !known {
		return "There is no engine " + d.Engine + " in the catalogue."
	}
	if ok, reason := e.RunsOn(n.Hardware, n.Runtime); !ok {
		return reason
	}
	return ""
}

// find picks the machine and the devices for one more replica of a deployment, or
// says for each machine why it is none.
func (f fleet) find(d factory.Deployment) (*room, []string, string) {
	var all []*room
	for _, n := range f.nodes {
		if n.ClusterID == d.ClusterID {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, nil, "Cluster " + d.Cluster + " has no machine yet. Add one on the cluster's page."
	}
	slices.SortFunc(all, func(a, b *room) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })

	type option struct {
		*room
		gpus []string
		left int // devices that stay free
	}
	var options []option
	var reasons []string
	for _, n := range all {
		if n.quiet {
			reasons = append(reasons, n.Name+": it is silent.")
			continue
		}
		if why := n.cannotRun(d); why != "" {
			reasons = append(reasons, n.Name+": "+why)
			continue
		}
		gpus, left, why := n.devices(d)
		if why != "" {
			reasons = append(reasons, n.Name+": "+why)
			continue
		}
		options = append(options, option{n, gpus, left})
	}
	if len(options) == 0 {
		return nil, nil, noRoom(d, reasons)
	}
	// Apart from its siblings first, so that one machine's end is not the deployment's;
	// then where the fewest devices stay free, so that large gaps stay whole.
	best := slices.MinFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.of[d.ID], b.of[d.ID]), cmp.Compare(a.left, b.left),
			cmp.Compare(a.replicas, b.replicas), strings.Compare(a.Name, b.Name))
	})
	return best.room, best.gpus, ""
}

// noRoom is the reason that people read; it stays the same while nothing changes.
func noRoom(d factory.Deployment, reasons []string) string {
	const most = 5
	text := "No machine of cluster " + d.Cluster + " can take it now. "
	if len(reasons) > most {
		return text + strings.Join(reasons[:most], " ") + fmt.Sprintf(" And %d more.", len(reasons)-most)
	}
	return text + strings.Join(reasons, " ")
}

// devices picks free devices of one product, in bus order, and says how many of it
// stay free. A replica that wants none gets none.
func (n *room) devices(d factory.Deployment) (uuids []string, left int, why string) {
	free := map[string][]string{}
	var products []string
	total, stopping := 0, 0
	for _, g := range n.Hardware.AllocatableGPUs() {
		if !isProduct(g, d.GPU) || (g.MIGProfile != "" && d.GPUCount > 1) {
			continue
		}
		if _, seen := free[g.Name]; !seen {
			products = append(products, g.Name)
			free[g.Name] = nil
		}
		total++
		if holder, held := n.holder[g.UUID]; !held {
			free[g.Name] = append(free[g.Name], g.UUID)
		} else if holder.Stopping {
			stopping++
		}
	}
	if d.GPUCount == 0 {
		for _, p := range products {
			left += len(free[p])
		}
		return nil, left, ""
	}
	best := ""
	for _, p := range products {
		if k := len(free[p]); k >= d.GPUCount && (best == "" || k < len(free[best])) {
			best = p
		}
	}
	if best != "" {
		return free[best][:d.GPUCount], len(free[best]) - d.GPUCount, ""
	}
	return nil, 0, n.tooFew(d, free, total, stopping)
}

func (n *room) tooFew(d factory.Deployment, free map[string][]string, total, stopping int) string {
	what := d.GPU
	if what == "" {
		what = "GPU"
	}
	most := 0
	for _, uuids := range free {
		most = max(most, len(uuids))
	}
	switch {
	case total == 0 && d.GPUCount > 1 && slices.ContainsFunc(n.Hardware.AllocatableGPUs(), func(g factory.GPU) bool {
		return g.MIGProfile != "" && isProduct(g, d.GPU)
	}):
		return "a replica can use one MIG slice only, and " + fmt.Sprint(d.GPUCount) + " are wanted."
	case total == 0 && len(n.Hardware.GPUs) == 0:
		return "it has no GPU."
	case total == 0:
		return "it has no " + what + " that can be used."
	case total < d.GPUCount:
		return fmt.Sprintf("it has %d %s, and %d are wanted.", total, what, d.GPUCount)
	case stopping > 0:
		return fmt.Sprintf("%d of %d %s are free, and %d are wanted; %d more become free when what is stopping has stopped.", most, total, what, d.GPUCount, stopping)
	}
	return fmt.Sprintf("%d of %d %s are free, and %d are wanted.", most, total, what, d.GPUCount)
}
