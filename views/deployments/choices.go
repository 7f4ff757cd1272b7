package deployments

import (
	"strconv"

	"tokenfactory/factory"
)

// Choices is what the form offers, given what is chosen so far.
type Choices struct {
	Models    []factory.LLM
	Endpoints []factory.Endpoint
	Tenants   []factory.Tenant

	Cluster string // the chosen endpoint's; empty before one is chosen
	Nodes   int
	Online  int
	Engines []EngineChoice
	GPUs    []GPUChoice
	LLM     factory.LLM // the chosen one; zero before
}

// EngineChoice says where an engine runs, and why it does not where it does not.
type EngineChoice struct {
	Name, Title, About string
	NeedsGPU           bool
	Runs, Nodes        int
	Reasons            []string
}

// Note is the short word beside an engine's name.
func (c EngineChoice) Note() string {
	switch {
	case c.Nodes == 0:
		return "no machines yet"
	case c.Runs == 0:
		return "runs on none of " + count2(c.Nodes, "machine")
	case c.Runs == c.Nodes && c.Nodes == 1:
		return "runs here"
	case c.Runs == c.Nodes:
		return "runs on all " + count2(c.Nodes, "machine")
	}
	return "runs on " + strconv.Itoa(c.Runs) + " of " + count2(c.Nodes, "machine")
}

// GPUChoice is one product among a cluster's devices.
type GPUChoice struct {
	Name          string
	Total, Free   int
	MostOnOneNode int
	MemoryBytes   int64 // of the largest; 0 when not reported
	Unified       bool
}

func count2(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
