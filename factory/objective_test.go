package factory_test

import (
	"testing"
	"time"

	"tokenfactory/factory"
)

func TestTargetsFollowTheWorkload(t *testing.T) {
	for name, c := range map[string]struct {
		spec  factory.DeploymentSpec
		want  factory.Targets
		share float64
	}{
		"interactive": {factory.DeploymentSpec{Workload: factory.Interactive}, factory.Targets{TTFT: 500 * time.Millisecond, ITL: 250 * time.Millisecond}, 0.95},
		"batch":       {factory.DeploymentSpec{Workload: factory.Batch}, factory.Targets{OutputRate: 10}, 0.95},
		"own": {factory.DeploymentSpec{Workload: factory.Batch, TTFTTargetMS: 2000, Objectives: factory.Objectives{ObjectivePercent: 99.9, OutputRateTarget: 40}},
			factory.Targets{TTFT: 2 * time.Second, OutputRate: 40}, 0.999},
	} {
		if got := c.spec.Targets(); got != c.want || c.spec.ObjectiveShare() != c.share {
			t.Errorf("%s: %+v, %v", name, got, c.spec.ObjectiveShare())
		}
	}
}

func TestObjectivesThatCannotBeAreRefused(t *testing.T) {
	for field, o := range map[string]factory.Objectives{
		"objective_percent":  {ObjectivePercent: 100},
		"output_rate_target": {OutputRateTarget: -1},
		"cost_target":        {CostTarget: "cheap"},
	} {
		if errs := (factory.DeploymentSpec{Objectives: o}).Validate(); errs[field] == "" {
			t.Errorf("%+v is taken", o)
		}
	}
}
