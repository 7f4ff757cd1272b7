package deployments

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
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
	Simulated          bool
	Runs, Nodes        int
	Reasons            []string
}

// Note is the short word beside an engine's name.
func (c EngineChoice) Note() string {
	switch {
	case c.Nodes == 0:
		return "no machines yet"
	case c.Runs == 0:
		return "runs on none of " + ui.Plural(c.Nodes, "machine")
	case c.Runs == c.Nodes && c.Nodes == 1:
		return "runs here"
	case c.Runs == c.Nodes:
		return "runs on all " + ui.Plural(c.Nodes, "machine")
	}
	return "runs on " + ui.Count(c.Runs) + " of " + ui.Plural(c.Nodes, "machine")
}

// GPUChoice is one product among a cluster's devices.
type GPUChoice struct {
	Name          string
	Total, Free   int
	MostOnOneNode int
	MemoryBytes   int64 // of the largest; 0 when not reported
	Unified       bool
}

// FormPage is everything that the form's page shows.
type FormPage struct {
	Form
	Choices
	ID string // of the deployment that is changed; empty for a new one
	// TargetsAt is since when the targets in force count; zero for a new deployment.
	TargetsAt time.Time
	// Ask is what saving would do to a deployment that serves; the person has to
	// agree before it is saved.
	Ask string
}

// gpu is the chosen product among the cluster's.
func (p FormPage) gpu() (GPUChoice, bool) {
	for _, g := range p.GPUs {
		if g.Name == p.Form.GPU || p.Form.GPU == "" && len(p.GPUs) == 1 {
			return g, true
		}
	}
	return GPUChoice{}, false
}

// engine is the chosen engine's choice.
func (p FormPage) engine() (EngineChoice, bool) {
	for _, e := range p.Engines {
		if e.Name == p.Form.Engine {
			return e, true
		}
	}
	return EngineChoice{}, false
}

func (p FormPage) context() int {
	errs := factory.FieldErrors{}
	if n := errs.Whole("context_length", p.ContextLength, 0); n > 0 && len(errs) == 0 {
		return n
	}
	return p.LLM.ContextLength
}

// memory compares what the model needs with what the chosen GPUs have. fits is
// true when nothing speaks against it; text is empty when the shape is unknown.
func (p FormPage) memory() (text string, fits bool) {
	weights, perToken := p.LLM.WeightBytes(), p.LLM.KVBytesPerToken()
	if weights == 0 {
		return "", true
	}
	context := p.context()
	full := perToken * int64(context)
	text = "Weights take about " + ui.BytesText(weights)
	if perToken > 0 {
		text += ", and one conversation of " + ui.Count(context) + " tokens " + ui.BytesText(full) + " of KV cache"
	}
	text += "."
	g, chosen := p.gpu()
	errs := factory.FieldErrors{}
	n := errs.Whole("gpu_count", p.GPUCount, 1)
	if !chosen || g.MemoryBytes == 0 || n < 1 || len(errs) > 0 || p.Watches() {
		return text, true
	}
	room := g.MemoryBytes * int64(n)
	have := ui.Plural(n, "GPU") + " of " + ui.BytesText(g.MemoryBytes)
	switch {
	case weights >= room:
		return text + " That is more than " + have + ": take more GPUs, or a model of fewer bits.", false
	case weights+full > room:
		return text + " Together that is more than " + have + ": shorten the context, or take more GPUs.", false
	}
	return text + " " + have + " leave " + ui.BytesText(room-weights) + " for the cache and the engine itself.", true
}
