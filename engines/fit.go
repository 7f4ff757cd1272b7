package engines

import (
	"slices"

	"tokenfactory/factory"
)

var sourceTitles = map[string]string{
	factory.SourceHuggingFace: "Hugging Face",
	factory.SourceNGC:         "NVIDIA NGC",
	factory.SourceObject:      "object storage",
	factory.SourcePath:        "a local path",
}

// Check reports what of a deployment this engine cannot do, by form field. Engines
// that already run at an address are taken as they are.
func (e Engine) Check(d factory.DeploymentSpec, m factory.ModelSpec) factory.FieldErrors {
	errs := factory.FieldErrors{}
	if d.Address != "" {
		return errs
	}
	if e.NeedsGPU && d.GPUCount < 1 {
		errs.Add("gpu_count", e.Title+" needs at least 1 GPU per replica. To serve from CPUs choose llama.cpp.")
	}
	if !e.Simulated && !slices.Contains(e.Sources, m.Source) {
		errs.Add("engine", e.Title+" cannot load weights from "+sourceTitles[m.Source]+". Choose another engine, or give the model another source.")
	}
	return errs
}
