package engines

import "strings"

// hint turns a line that an engine is known to log when it fails into a sentence
// that says what to do.
type hint struct {
	contains string // lower case
	say      string
}

// Common to everything that loads weights from Hugging Face or runs on CUDA.
var commonHints = []hint{
	{"address already in use", "Another program listens on the port that the engine was given."},
	{"gatedrepoerror", "The model is gated on Hugging Face. Accept its licence there and give the agent a token in HF_TOKEN."},
	{"401 client error", "The weights may not be read without a token. Give the agent one in HF_TOKEN."},
	{"repositorynotfounderror", "The model's location was not found on Hugging Face, or needs a token in HF_TOKEN."},
	{"no space left on device", "The disk is full. Free space where weights are kept, or point HF_HOME to a larger disk."},
	{"cuda out of memory", "The GPU's memory is too small for this model and context length. Lower the context length, use more GPUs, or choose a smaller or quantised model."},
	{"torch.outofmemoryerror", "The GPU's memory is too small for this model and context length. Lower the context length, use more GPUs, or choose a smaller or quantised model."},
	{"no kernel image is available", "The engine was built without code for this GPU. Install a build for its compute capability."},
}

// Explain looks through an engine's last log lines, newest first, for a failure that
// is known; empty when there is none.
func (e Engine) Explain(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.ToLower(lines[i])
		for _, hints := range [][]hint{e.hints, commonHints} {
			for _, h := range hints {
				if strings.Contains(line, h.contains) {
					return h.say
				}
			}
		}
	}
	return ""
}
