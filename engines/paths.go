package engines

import "slices"

// The paths for inference that the gateway knows, as engines name them.
const (
	PathChat        = "/v1/chat/completions"
	PathCompletions = "/v1/completions"
	PathEmbeddings  = "/v1/embeddings"
	PathResponses   = "/v1/responses"
	PathRerank      = "/v1/rerank"
)

// Offers reports whether some release of the engine answers at a path. Whether this
// one does, with the model it was given, only the engine itself can tell.
func (e Engine) Offers(path string) bool { return slices.Contains(e.Paths, path) }
