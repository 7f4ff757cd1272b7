package factory

import (
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Workload says what users of a deployment feel: it picks default objectives.
type Workload string

const (
	Interactive Workload = "interactive" // chat, agents, coding: TTFT and ITL matter
	Batch       Workload = "batch"       // pipelines: throughput and cost matter
)

// Learned is a fact that only trying tells; empty until then.
type Learned string

const (
	LearnedYes Learned = "yes"
	LearnedNo  Learned = "no"
)

// Deployment is a model served by an engine on a cluster behind an endpoint,
// with limits and prices.
type Deployment struct {
	ID         string
	Name       string
	ModelID    string
	EndpointID string
	ClusterID  string
	DeploymentSpec
	Stopped bool
	// Asleep holds no machine; the next request wakes it.
	Asleep bool
	// RunningUsage is what the gateway learned about the engine: whether it puts running
	// counts on its events. A restart with other settings forgets it.
	RunningUsage Learned
	// Revision grows with every change that needs the engine to start anew.
	Revision  int
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt *time.Time
	// TargetsAt is since when requests are judged by these targets.
	TargetsAt time.Time
	// Price is the version in force; nil only for rows read without it.
	Price *Price
	// LLM is the catalogue entry that is served; joined.
	LLM LLM
	// TenantIDs are the tenants it is shared with, when not with all; joined.
	TenantIDs []string
}

// DeploymentSpec is what an operator writes about a deployment: the same fields in
// the form, in the API and in apply's documents. Other nouns are named, not
// given by id.
type DeploymentSpec struct {
	Model    string `json:"model"`
	Endpoint string `json:"endpoint"`
	Cluster  string `json:"cluster,omitempty"` // default: the endpoint's
	// PublicName is the model name that clients send; default: the model's location.
	PublicName string `json:"public_name,omitempty"`

	Engine string `json:"engine"`
	// Address makes the agent watch an engine that already runs at this URL,
	// instead of starting one. It is never stopped.
	Address    string            `json:"address,omitempty"`
	EngineArgs []string          `json:"engine_args,omitempty"`
	EngineEnv  map[string]string `json:"engine_env,omitempty"`

	GPU           string `json:"gpu,omitempty"` // product name, or "" for any
	GPUCount      int    `json:"gpu_count"`     // per replica; 0 for CPU only
	Replicas      int    `json:"replicas"`
	ContextLength int    `json:"context_length,omitempty"` // default: the model's
	PrefixCaching bool   `json:"prefix_caching"`

	Limits // of all clients together
	// ReplicaConcurrency is how many requests one replica gets at once; more wait in the
	// gateway. 0: as many as come, the engine queues them.
	ReplicaConcurrency int      `json:"replica_concurrency,omitempty"`
	Workload           Workload `json:"workload"`
	TTFTTargetMS       int      `json:"ttft_target_ms,omitempty"` // 0: the workload's default
	ITLTargetMS        int      `json:"itl_target_ms,omitempty"`
	Objectives

	// Free must be chosen; a deployment with neither prices nor Free is refused.
	Free             bool   `json:"free,omitempty"`
	Currency         string `json:"currency,omitempty"`           // default USD
	InputPrice       string `json:"input_price,omitempty"`        // decimals per 1,000,000 tokens
	CachedInputPrice string `json:"cached_input_price,omitempty"` // default: the input price
	OutputPrice      string `json:"output_price,omitempty"`

	SharedWithAll bool     `json:"shared_with_all,omitempty"`
	Tenants       []string `json:"tenants,omitempty"`
}

// Limits that keep one typing mistake from taking a cluster down.
const (
	maxReplicas = 256
	maxGPUs     = 64
)

// Validate checks what can be checked without looking anything up; names of other
// nouns and the engine are checked by whoever can see them.
func (s DeploymentSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if s.Model == "" {
		errs.Add("model", "Choose the model to serve.")
	}
	if s.Endpoint == "" {
		errs.Add("endpoint", "Choose the endpoint clients use.")
	}
	if s.Engine == "" {
		errs.Add("engine", "Choose an engine.")
	}
	if s.Address != "" {
		u, err := url.Parse(s.Address)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			errs.Add("address", "Write the engine's address as the agent reaches it, such as http://127.0.0.1:8000.")
		}
	}
	if s.Address != "" && s.Replicas > 1 {
		errs.Add("replicas", "An engine that already runs at an address is one replica: write 1.")
	}
	if strings.IndexFunc(s.PublicName, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) >= 0 || len(s.PublicName) > 200 {
		errs.Add("public_name", "Use at most 200 characters and no spaces.")
	}
	for key := range s.EngineEnv {
		if !envPattern(key) {
			errs.Add("engine_env", "Write one NAME=value a line; names are letters, digits and underscores.")
		}
	}
	checkRange(errs, "gpu_count", s.GPUCount, 0, maxGPUs)
	checkRange(errs, "replicas", s.Replicas, 1, maxReplicas)
	checkRange(errs, "context_length", s.ContextLength, 0, 100_000_000)
	s.Limits.validate(errs)
	checkRange(errs, "replica_concurrency", s.ReplicaConcurrency, 0, 100_000)
	checkRange(errs, "ttft_target_ms", s.TTFTTargetMS, 0, 86_400_000)
	checkRange(errs, "itl_target_ms", s.ITLTargetMS, 0, 86_400_000)
	if s.Workload != Interactive && s.Workload != Batch {
		errs.Add("workload", "Choose interactive or batch.")
	}
	s.Objectives.validate(errs)
	s.validatePrices(errs)
	if s.SharedWithAll && len(s.Tenants) > 0 {
		errs.Add("tenants", "Share with everybody or with named tenants, not both.")
	}
	return errs
}

func checkRange(errs FieldErrors, field string, v, least, most int) {
	if v < least {
		errs.Add(field, "This must be at least "+itoa(least)+".")
	}
	if v > most {
		errs.Add(field, "This must be at most "+itoa(most)+".")
	}
}

func envPattern(name string) bool {
	for i, r := range name {
		if r != '_' && !(r >= 'A' && r <= 'Z') && !(r >= 'a' && r <= 'z') && !(i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}

// SharedWith reports whether members and keys of a tenant may use the deployment.
func (d Deployment) SharedWith(tenantID string) bool {
	return d.SharedWithAll || slices.Contains(d.TenantIDs, tenantID)
}

// NeedsRestart reports whether going from one spec to the other changes what the
// engine was started with. Limits, prices and sharing do not.
func (s DeploymentSpec) NeedsRestart(old DeploymentSpec) bool {
	if s.Model != old.Model || s.Cluster != old.Cluster || s.PublicName != old.PublicName || s.Engine != old.Engine ||
		s.Address != old.Address || s.GPU != old.GPU || s.GPUCount != old.GPUCount ||
		s.ContextLength != old.ContextLength || s.PrefixCaching != old.PrefixCaching ||
		!slices.Equal(s.EngineArgs, old.EngineArgs) || len(s.EngineEnv) != len(old.EngineEnv) {
		return true
	}
	for k, v := range s.EngineEnv {
		if w, ok := old.EngineEnv[k]; !ok || v != w {
			return true
		}
	}
	return false
}
