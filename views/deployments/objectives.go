package deployments

import (
	"math"
	"strings"

	"tokenfactory/factory"
	"tokenfactory/slo"
)

// objectives reads the promises that were typed; empty fields are the workload's.
func (f Form) objectives(errs factory.FieldErrors) factory.Objectives {
	return factory.Objectives{
		ObjectivePercent: positive(errs, "objective_percent", f.Objective),
		OutputRateTarget: positive(errs, "output_rate_target", f.OutputRate),
		CostTarget:       strings.TrimSpace(f.CostTarget),
	}
}

// positive reads a number for which zero stands for “not given”; a typed zero must not
// be mistaken for it.
func positive(errs factory.FieldErrors, field, text string) float64 {
	v := errs.Decimal(field, text, 0)
	if v == 0 && strings.TrimSpace(text) != "" {
		errs.Add(field, "Write a number above 0, or leave this empty for the workload's.")
	}
	return v
}

// ReachWarning says which alerts an objective rules out; empty when there is none.
func (f Form) ReachWarning() string {
	errs := factory.FieldErrors{}
	s := factory.DeploymentSpec{Objectives: f.objectives(errs)}
	if len(errs) > 0 || s.ObjectivePercent >= 100 {
		return ""
	}
	var out []string
	for _, w := range slo.Windows {
		if !slo.Reachable(s.ObjectiveShare(), w.Factor) {
			out = append(out, decimal(w.Factor))
		}
	}
	if len(out) == 0 {
		return ""
	}
	most := 1 / (1 - s.ObjectiveShare())
	return "With " + decimal(s.ObjectivePercent) + " % the error budget can burn at most " + decimal(math.Round(10*most)/10) + " times too fast, so that alerts for " +
		strings.Join(out, " and ") + " times too fast can never fire. Choose a higher objective if somebody should be woken up."
}
