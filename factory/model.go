package factory

import "time"

// Where a model's weights come from.
const (
	SourceHuggingFace = "huggingface" // Location is "org/name"
	SourceNGC         = "ngc"         // Location is "org/team/name:tag"
	SourceObject      = "object"      // Location is an s3:// or gs:// address
	SourcePath        = "path"        // Location is a path on the machines
)

// Sources lists the weight sources in the order in which forms offer them.
var Sources = []string{SourceHuggingFace, SourceNGC, SourceObject, SourcePath}

// LLM is an entry of the model catalogue: what is served, where its weights
// are, and the shape that decides how much memory it needs.
type LLM struct {
	ID           string
	Name         string // our name of it, in URLs and documents
	ProviderID   string
	ProviderName string // joined
	ModelSpec
	CreatedAt time.Time
}

// ModelSpec is what an operator writes about a model. The shape fields feed the
// memory estimate; zero means unknown.
type ModelSpec struct {
	Provider      string  `json:"provider"`
	Source        string  `json:"source"`
	Location      string  `json:"location"`
	Description   string  `json:"description,omitempty"`
	ContextLength int     `json:"context_length"`
	Parameters    float64 `json:"parameters_b,omitempty"` // billions
	WeightBits    int     `json:"weight_bits,omitempty"`  // 16 for BF16, 8 for FP8, 4 for INT4
	Layers        int     `json:"layers,omitempty"`
	KVHeads       int     `json:"kv_heads,omitempty"`
	HeadSize      int     `json:"head_size,omitempty"`
	Embedding     bool    `json:"embedding,omitempty"` // answers /v1/embeddings, not chat
}

// Validate checks what can be checked without looking anything up.
func (s ModelSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if s.Provider == "" {
		errs.Add("provider", "Choose whose model this is.")
	}
	known := false
	for _, x := range Sources {
		known = known || x == s.Source
	}
	if !known {
		errs.Add("source", "Choose where the weights come from: huggingface, ngc, object or path.")
	}
	if s.Location == "" {
		errs.Add("location", "Say where the weights are, for example Qwen/Qwen2-0.5B-Instruct.")
	}
	if s.ContextLength < 1 || s.ContextLength > 100_000_000 {
		errs.Add("context_length", "Give the context length in tokens, at least 1.")
	}
	if s.Parameters < 0 {
		errs.Add("parameters_b", "The number of parameters cannot be negative.")
	}
	for field, v := range map[string]int{"weight_bits": s.WeightBits, "layers": s.Layers, "kv_heads": s.KVHeads, "head_size": s.HeadSize} {
		if v < 0 {
			errs.Add(field, "This cannot be negative.")
		}
	}
	return errs
}

// WeightBytes estimates the size of the weights; zero when the shape is unknown.
func (s ModelSpec) WeightBytes() int64 {
	return int64(s.Parameters * 1e9 * float64(s.WeightBits) / 8)
}

// KVBytesPerToken is the KV cache that one token of context takes at 16 bits:
// keys and values for every layer and KV head. Zero when the shape is unknown.
func (s ModelSpec) KVBytesPerToken() int64 {
	return int64(2 * 2 * s.Layers * s.KVHeads * s.HeadSize)
}

// DefaultPublicName is what clients call the model unless a deployment says
// otherwise. Paths and addresses of buckets are nobody's business outside, so they
// give way to our own name.
func (m LLM) DefaultPublicName() string {
	if m.Source == SourceHuggingFace || m.Source == SourceNGC {
		return m.Location
	}
	return m.Name
}
