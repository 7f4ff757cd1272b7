// Package deployments is how deployments look: the list, the form, and the tabs
// of one deployment.
package deployments

import (
	"slices"
	"strconv"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/views/limits"
)

// Form is a deployment as typed. Field names are those of documents, so that one
// rule speaks to both.
type Form struct {
	Name             string   `form:"name" query:"name"`
	Model            string   `form:"model" query:"model"`
	Endpoint         string   `form:"endpoint" query:"endpoint"`
	Cluster          string   `form:"cluster" query:"cluster"`
	PublicName       string   `form:"public_name" query:"public_name"`
	Serving          string   `form:"serving" query:"serving"` // "start" an engine, or "watch" one that runs
	Engine           string   `form:"engine" query:"engine"`
	Address          string   `form:"address" query:"address"`
	EngineArgs       string   `form:"engine_args" query:"engine_args"`
	EngineEnv        string   `form:"engine_env" query:"engine_env"`
	GPU              string   `form:"gpu" query:"gpu"`
	GPUCount         string   `form:"gpu_count" query:"gpu_count"`
	Replicas         string   `form:"replicas" query:"replicas"`
	ContextLength    string   `form:"context_length" query:"context_length"`
	PrefixCaching    string   `form:"prefix_caching" query:"prefix_caching"`
	Workload         string   `form:"workload" query:"workload"`
	TTFTTarget       string   `form:"ttft_target_ms" query:"ttft_target_ms"`
	Concurrency      string   `form:"replica_concurrency" query:"replica_concurrency"`
	ITLTarget        string   `form:"itl_target_ms" query:"itl_target_ms"`
	OutputRate       string   `form:"output_rate_target" query:"output_rate_target"`
	Objective        string   `form:"objective_percent" query:"objective_percent"`
	CostTarget       string   `form:"cost_target" query:"cost_target"`
	Free             string   `form:"free" query:"free"` // "yes", "no", or nothing chosen
	Currency         string   `form:"currency" query:"currency"`
	InputPrice       string   `form:"input_price" query:"input_price"`
	CachedInputPrice string   `form:"cached_input_price" query:"cached_input_price"`
	OutputPrice      string   `form:"output_price" query:"output_price"`
	Sharing          string   `form:"sharing" query:"sharing"` // "all" or "some"
	Tenants          []string `form:"tenants" query:"tenants"`
	limits.Form
	// Typed is set by the form itself: a request without it is a first visit.
	Typed string `form:"typed" query:"typed"`
	// Restart agrees to the restart that a change brings.
	Restart string `form:"restart" query:"-"`

	Errors factory.FieldErrors `form:"-" query:"-"`
}

// NewForm is what an empty form starts from; what a link preselects is kept.
func NewForm(preset Form) Form {
	preset.Replicas, preset.PrefixCaching, preset.Workload = "1", "on", string(factory.Interactive)
	preset.Currency, preset.Sharing, preset.Serving = "USD", "some", "start"
	return preset
}

// FormOf fills the form from a deployment's spec.
func FormOf(name string, s factory.DeploymentSpec) Form {
	f := Form{
		Name: name, Model: s.Model, Endpoint: s.Endpoint, Cluster: s.Cluster, PublicName: s.PublicName,
		Engine: s.Engine, Address: s.Address, EngineArgs: strings.Join(s.EngineArgs, "\n"),
		GPU: s.GPU, GPUCount: strconv.Itoa(s.GPUCount), Replicas: strconv.Itoa(s.Replicas),
		ContextLength: optional(s.ContextLength), Form: limits.FormOf(s.Limits), Concurrency: optional(s.ReplicaConcurrency),
		Workload: string(s.Workload), TTFTTarget: optional(s.TTFTTargetMS), ITLTarget: optional(s.ITLTargetMS),
		OutputRate: decimal(s.OutputRateTarget), Objective: decimal(s.ObjectivePercent), CostTarget: s.CostTarget,
		Free: "no", Currency: s.Currency, InputPrice: s.InputPrice, CachedInputPrice: s.CachedInputPrice, OutputPrice: s.OutputPrice,
		Sharing: "some", Tenants: s.Tenants, Typed: "yes",
	}
	var env []string
	for k, v := range s.EngineEnv {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	f.EngineEnv = strings.Join(env, "\n")
	if s.PrefixCaching {
		f.PrefixCaching = "on"
	}
	f.Serving = "start"
	if s.Address != "" {
		f.Serving = "watch"
	}
	if s.Free {
		f.Free = "yes"
	}
	if s.SharedWithAll {
		f.Sharing = "all"
	}
	return f
}

func optional(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func decimal(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Spec reads what was typed. unset is the GPU count that stands for “as the
// engine needs”.
func (f Form) Spec(unset int) (factory.DeploymentSpec, factory.FieldErrors) {
	errs := factory.FieldErrors{}
	s := factory.DeploymentSpec{
		Model: f.Model, Endpoint: f.Endpoint, Cluster: f.Cluster, PublicName: strings.TrimSpace(f.PublicName),
		Engine: f.Engine, Address: strings.TrimSpace(f.Address), EngineArgs: lines(f.EngineArgs),
		GPU: f.GPU, GPUCount: count(errs, "gpu_count", f.GPUCount, unset), Replicas: errs.Whole("replicas", f.Replicas, 1),
		ContextLength: errs.Whole("context_length", f.ContextLength, 0), PrefixCaching: f.PrefixCaching != "",
		Limits: f.Limits(errs), ReplicaConcurrency: errs.Whole("replica_concurrency", f.Concurrency, 0), Workload: factory.Workload(f.Workload),
		TTFTTargetMS: errs.Whole("ttft_target_ms", f.TTFTTarget, 0), ITLTargetMS: errs.Whole("itl_target_ms", f.ITLTarget, 0),
		Objectives: f.objectives(errs),
		Free:       f.Free == "yes", Currency: strings.ToUpper(strings.TrimSpace(f.Currency)), SharedWithAll: f.Sharing == "all",
	}
	s.EngineEnv = f.env(errs)
	if f.Watches() {
		// How it was started is not ours to say.
		s.GPU, s.GPUCount, s.EngineArgs, s.EngineEnv = "", 0, nil, nil
		if s.Address == "" {
			errs.Add("address", "Write the engine's address as the machines of the cluster reach it, such as http://127.0.0.1:8000.")
		}
	} else {
		s.Address = ""
	}
	if f.Free == "" && f.InputPrice+f.OutputPrice+f.CachedInputPrice == "" {
		errs.Add("free", "Choose between prices and free.")
	}
	if !s.Free {
		s.InputPrice = strings.TrimSpace(f.InputPrice)
		s.CachedInputPrice = strings.TrimSpace(f.CachedInputPrice)
		s.OutputPrice = strings.TrimSpace(f.OutputPrice)
	}
	if !s.SharedWithAll {
		s.Tenants = f.Tenants
	}
	return s, errs
}

// Watches reports whether an engine that already runs is meant.
func (f Form) Watches() bool {
	return f.Serving == "watch" || f.Serving == "" && strings.TrimSpace(f.Address) != ""
}

// count reads a number that has a stand-in for “not given”; a typed negative
// number must not be mistaken for it.
func count(errs factory.FieldErrors, field, text string, unset int) int {
	n := errs.Whole(field, text, unset)
	if n < 0 && strings.TrimSpace(text) != "" {
		errs.Add(field, "This must be at least 0.")
	}
	return n
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func (f Form) env(errs factory.FieldErrors) map[string]string {
	var env map[string]string
	for _, line := range lines(f.EngineEnv) {
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok {
			errs.Add("engine_env", "Write one NAME=value a line; “"+line+"” has no equals sign.")
			continue
		}
		if _, twice := env[name]; twice {
			errs.Add("engine_env", name+" is there twice.")
		}
		if env == nil {
			env = map[string]string{}
		}
		env[name] = value
	}
	return env
}
