// Package models is how the catalogue looks: models, and the providers they come from.
package models

import (
	"strconv"
	"strings"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/views/ui"
)

// Form is a model as typed.
type Form struct {
	Name          string `form:"name"`
	Provider      string `form:"provider" query:"provider"`
	Source        string `form:"source"`
	Location      string `form:"location"`
	Description   string `form:"description"`
	ContextLength string `form:"context_length"`
	Parameters    string `form:"parameters_b"`
	WeightBits    string `form:"weight_bits"`
	Layers        string `form:"layers"`
	KVHeads       string `form:"kv_heads"`
	HeadSize      string `form:"head_size"`
	Embedding     string `form:"embedding"`

	Errors factory.FieldErrors `form:"-" query:"-"`
}

// FormOf fills the form from a catalogue entry.
func FormOf(name string, s factory.ModelSpec) Form {
	f := Form{
		Name: name, Provider: s.Provider, Source: s.Source, Location: s.Location, Description: s.Description,
		ContextLength: digits(s.ContextLength), WeightBits: digits(s.WeightBits),
		Layers: digits(s.Layers), KVHeads: digits(s.KVHeads), HeadSize: digits(s.HeadSize),
	}
	if s.Parameters > 0 {
		f.Parameters = strconv.FormatFloat(s.Parameters, 'f', -1, 64)
	}
	if s.Embedding {
		f.Embedding = "on"
	}
	return f
}

func digits(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Spec reads what was typed.
func (f Form) Spec() (factory.ModelSpec, factory.FieldErrors) {
	errs := factory.FieldErrors{}
	s := factory.ModelSpec{
		Provider: f.Provider, Source: f.Source, Location: strings.TrimSpace(f.Location), Description: strings.TrimSpace(f.Description),
		ContextLength: errs.Whole("context_length", f.ContextLength, 0), Parameters: errs.Decimal("parameters_b", f.Parameters, 0),
		WeightBits: errs.Whole("weight_bits", f.WeightBits, 0), Layers: errs.Whole("layers", f.Layers, 0),
		KVHeads: errs.Whole("kv_heads", f.KVHeads, 0), HeadSize: errs.Whole("head_size", f.HeadSize, 0),
		Embedding: f.Embedding != "",
	}
	return s, errs
}

// ProviderForm is a provider as typed.
type ProviderForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Website     string `form:"website"`

	Errors factory.FieldErrors `form:"-"`
}

// Spec reads what was typed.
func (f ProviderForm) Spec() factory.ProviderSpec {
	return factory.ProviderSpec{Description: strings.TrimSpace(f.Description), Website: strings.TrimSpace(f.Website)}
}

// Row is a model in the catalogue.
type Row struct {
	factory.LLM
	Deployments int
}

// ProviderRow is a provider in the catalogue.
type ProviderRow struct {
	factory.Provider
	Models int
}

// Served is a deployment of a model with how it stands.
type Served struct {
	factory.Deployment
	State factory.State
}

var sourceNames = map[string]string{
	factory.SourceHuggingFace: "Hugging Face",
	factory.SourceNGC:         "NVIDIA NGC",
	factory.SourceObject:      "Object storage",
	factory.SourcePath:        "Path on the machines",
}

var sourceHints = map[string]string{
	factory.SourceHuggingFace: "Qwen/Qwen3-8B",
	factory.SourceNGC:         "nim/meta/llama-3.1-8b-instruct:1.8",
	factory.SourceObject:      "s3://models/qwen3-8b",
	factory.SourcePath:        "/srv/models/qwen3-8b",
}

// engineTitle is an engine's name as people write it.
func engineTitle(name string) string {
	if e, ok := engines.Find(name); ok {
		return e.Title
	}
	return name
}

// SourceName is a weight source as people write it.
func SourceName(source string) string {
	if name := sourceNames[source]; name != "" {
		return name
	}
	return source
}

// Memory says how much memory a model needs, as far as its shape is known.
type Memory struct {
	Weights  int64
	PerToken int64
	Context  int
}

// MemoryOf is the estimate of a model at a context length; 0 stands for the model's own.
func MemoryOf(s factory.ModelSpec, context int) Memory {
	if context == 0 {
		context = s.ContextLength
	}
	return Memory{Weights: s.WeightBytes(), PerToken: s.KVBytesPerToken(), Context: context}
}

// Known reports whether there is anything to say.
func (m Memory) Known() bool { return m.Weights > 0 || m.PerToken > 0 }

// Full is the cache of one conversation that fills the whole context.
func (m Memory) Full() int64 { return m.PerToken * int64(m.Context) }

// Text is the estimate as one sentence.
func (m Memory) Text() string {
	var parts []string
	if m.Weights > 0 {
		parts = append(parts, "Weights take about "+ui.BytesText(m.Weights)+".")
	}
	if m.PerToken > 0 {
		parts = append(parts, "Each token of context takes "+ui.BytesText(m.PerToken)+" of KV cache; one conversation of "+
			ui.Count(m.Context)+" tokens takes "+ui.BytesText(m.Full())+".")
	}
	return strings.Join(parts, " ")
}
