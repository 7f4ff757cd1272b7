package slo

import (
	"context"

	"tokenfactory/factory"
)

// Diagnose says what is to blame at a deployment at this moment, as the most urgent alert
// would say it if it fired now.
func (w *Watcher) Diagnose(ctx context.Context, deploymentID string) (Diagnosis, error) {
	r, err := w.begin(ctx)
	if err != nil {
		return Diagnosis{}, err
	}
	for _, d := range r.deployments {
		if d.ID != deploymentID {
			continue
		}
		p, err := r.blame(ctx, d, d.ObjectiveShare(), Windows[0], Payload{Figures: map[string]*float64{}})
		if err != nil {
			return Diagnosis{}, err
		}
		return *p.Diagnosis, nil
	}
	return Diagnosis{}, factory.Errorf(factory.NotFound, "There is no deployment %s.", deploymentID)
}
