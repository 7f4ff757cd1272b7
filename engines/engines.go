// Package engines is the catalogue of inference servers, as data: images by
// architecture, how each is started, where it answers, what its metrics are called,
// and the quirks that everybody else would otherwise have to know. Adding an engine
// is one file here, one word in the catalogue and one fixture. It starts nothing
// and knows no HTTP.
package engines

import (
	"slices"

	"tokenfactory/factory"
)

// How agents start engines.
const (
	RuntimeProcess    = "process"
	RuntimeContainer  = "container"
	RuntimeKubernetes = "kubernetes"
)

// Engine is one inference server.
type Engine struct {
	Name  string // in documents and the API
	Title string // as people write it
	About string // one sentence for the form

	Images      []Image
	Port        int // default port inside a container
	HealthPath  string
	Paths       []string // for inference, that the gateway may ask for
	MetricsPath string

	// Command starts the engine as a process; Launch appends the arguments. Empty:
	// it comes as a container image only.
	Command []string
	// Probe is a quick command that succeeds only where the engine is installed, and
	// prints its version; nil when finding the executable says enough.
	Probe []string
	// Install says what to do on a machine that lacks the engine.
	Install string

	NeedsGPU bool
	// MinComputeCap is the oldest NVIDIA architecture it runs on; empty: any.
	MinComputeCap string
	// Sources are the places it can load weights from by itself.
	Sources []string
	// RunningUsage is the request option that makes the engine put running token counts on
	// every event; empty when it has none.
	RunningUsage string
	// Simulated engines make text up; no weights are loaded.
	Simulated bool

	arguments func(spec factory.ReplicaSpec, host string, port int) []string
	env       []string // set for the engine beside what Launch always sets
	hints     []hint
	mapping   mapping
}

// Image is a container image for one architecture.
type Image struct {
	Arch string // as Go names it
	Ref  string
	CUDA string // least CUDA version the machine's driver must support; empty: none
	// Device is part of the GPU's name when the image is made for that device only.
	Device string
	Note   string
}

// Catalogue lists every engine in the order in which forms offer them.
var Catalogue = []Engine{vllm, sglang, nim, dynamo, trtllm, llamacpp, simulator}

// Find returns an engine by name. There is no default: a typing mistake must not
// become some other engine.
func Find(name string) (Engine, bool) {
	i := slices.IndexFunc(Catalogue, func(e Engine) bool { return e.Name == name })
	if i < 0 {
		return Engine{}, false
	}
	return Catalogue[i], true
}

// Executable is the command to look for in PATH on a machine; empty when the engine
// cannot run as a process.
func (e Engine) Executable() string {
	if len(e.Command) == 0 {
		return ""
	}
	return e.Command[0]
}
