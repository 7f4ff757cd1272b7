package factory

import "time"

// Alias is another model name that clients may send. It leads to one of several
// deployments by weight, so that a new one can be tried on a part of the traffic,
// and to others in turn when none of those can serve. Answers carry the alias.
type Alias struct {
	ID        string
	Name      string // the model name that clients send
	Targets   []AliasTarget
	Fallbacks []AliasTarget // tried in this order; weights do not matter
	CreatedAt time.Time
	UpdatedAt time.Time
}

// AliasTarget is a deployment behind an alias. A tenant reaches it only when the
// deployment is shared with it.
type AliasTarget struct {
	DeploymentID string
	Deployment   string // its name; joined
	Weight       int
}

// AliasSpec is what an operator writes about an alias.
type AliasSpec struct {
	Targets   []AliasTargetSpec `json:"targets"`
	Fallbacks []string          `json:"fallbacks,omitempty"` // names of deployments
}

// AliasTargetSpec names a deployment and its share of the traffic.
type AliasTargetSpec struct {
	Deployment string `json:"deployment"`
	Weight     int    `json:"weight"` // share is weight over the sum of weights; 0 sends nothing there
}

const maxAliasTargets = 16

// Validate checks what can be checked without looking anything up.
func (s AliasSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	seen := map[string]bool{}
	sum := 0
	for _, t := range s.Targets {
		if t.Deployment == "" {
			errs.Add("targets", "Name the deployment of each target.")
		}
		if t.Weight < 0 || t.Weight > 1_000_000 {
			errs.Add("targets", "Write weights from 0 to 1,000,000.")
		}
		if seen[t.Deployment] {
			errs.Add("targets", "Name each deployment once; "+t.Deployment+" is there twice.")
		}
		seen[t.Deployment] = true
		sum += t.Weight
	}
	switch {
	case len(s.Targets) == 0:
		errs.Add("targets", "Choose at least one deployment.")
	case len(s.Targets) > maxAliasTargets || len(s.Fallbacks) > maxAliasTargets:
		errs.Add("targets", "Use at most "+itoa(maxAliasTargets)+" deployments.")
	case sum == 0:
		errs.Add("targets", "Give at least one target a weight above 0.")
	}
	for _, f := range s.Fallbacks {
		if seen[f] {
			errs.Add("fallbacks", "Name each deployment once; "+f+" is there twice.")
		}
		seen[f] = true
	}
	return errs
}
