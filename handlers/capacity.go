package handlers

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
	views "tokenfactory/views/deployments"
)

// engineChoice says on how many of a cluster's machines an engine runs, and
// collects the different reasons of those where it does not.
func engineChoice(e engines.Engine, nodes []factory.Node) views.EngineChoice {
	c := views.EngineChoice{Name: e.Name, Title: e.Title, About: e.About, NeedsGPU: e.NeedsGPU, Simulated: e.Simulated, Nodes: len(nodes)}
	for _, n := range nodes {
		ok, reason := e.RunsOn(n.Hardware, n.Runtime)
		if ok {
			c.Runs++
			continue
		}
		if !slices.Contains(c.Reasons, reason) {
			c.Reasons = append(c.Reasons, reason)
		}
	}
	return c
}

func engineChoices(nodes []factory.Node) []views.EngineChoice {
	var out []views.EngineChoice
	for _, e := range engines.Catalogue {
		out = append(out, engineChoice(e, nodes))
	}
	return out
}

// gpuChoices counts a cluster's devices by product name. A device is free while
// no replica holds it, a stopping one included: it still has the memory.
func gpuChoices(nodes []factory.Node, replicas []factory.Replica, now time.Time) []views.GPUChoice {
	held := map[string]bool{}
	for _, r := range replicas {
		for _, uuid := range r.GPUUUIDs {
			held[uuid] = true
		}
	}
	at := map[string]int{}
	var out []views.GPUChoice
	for _, n := range nodes {
		here := map[string]int{}
		for _, g := range n.Hardware.AllocatableGPUs() {
			i, seen := at[g.Name]
			if !seen {
				i = len(out)
				at[g.Name] = i
				out = append(out, views.GPUChoice{Name: g.Name, Unified: g.Unified})
			}
			out[i].Total++
			if !held[g.UUID] && n.Online(now) {
				out[i].Free++
			}
			if g.MemoryBytes != nil {
				out[i].MemoryBytes = max(out[i].MemoryBytes, *g.MemoryBytes)
			}
			// A replica gets one MIG slice at most: they cannot work together.
			if here[g.Name]++; g.MIGProfile != "" {
				here[g.Name] = 1
			}
			out[i].MostOnOneNode = max(out[i].MostOnOneNode, here[g.Name])
		}
	}
	return out
}

// checkGPUs reports a choice that no machine of the cluster could ever satisfy.
// Devices that are taken at the moment do not count against it.
func checkGPUs(errs factory.FieldErrors, spec factory.DeploymentSpec, cluster string, nodes []factory.Node) {
	if spec.GPUCount <= 0 {
		return
	}
	most, names := 0, []string{}
	for _, g := range gpuChoices(nodes, nil, time.Time{}) {
		names = append(names, g.Name)
		// The devices of one replica are of one product.
		if spec.GPU == "" || strings.EqualFold(spec.GPU, g.Name) {
			most = max(most, g.MostOnOneNode)
		}
	}
	switch {
	case len(names) == 0:
		errs.Add("gpu_count", "No machine of cluster "+cluster+" has a GPU that can be used. Give 0 for an engine that runs on the CPU.")
	case spec.GPU != "" && most == 0:
		errs.Add("gpu", "No machine of cluster "+cluster+" has “"+spec.GPU+"”. There are: "+strings.Join(names, ", ")+".")
	case spec.GPUCount > most:
		errs.Add("gpu_count", "No machine of cluster "+cluster+" has "+strconv.Itoa(spec.GPUCount)+" such GPUs; the largest has "+strconv.Itoa(most)+".")
	}
}
