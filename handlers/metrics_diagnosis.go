package handlers

import (
	"context"

	"tokenfactory/metrics"
	"tokenfactory/slo"
	tab "tokenfactory/views/metrics"
)

// verdict diagnoses the window that is shown from what was read to draw it; only its past
// is read anew. One replica is held against its own past.
func (h *Metrics) verdict(ctx context.Context, d deploymentNow, m tab.Measured, replica string) (*tab.Verdict, error) {
	of := make(map[metrics.Name]metrics.Summary, len(m.Series)+len(slo.DiagnosedOfGPUs))
	for name, s := range m.Series {
		of[name] = s.Summary
	}
	for _, name := range slo.DiagnosedOfGPUs {
		var each []metrics.Summary
		for _, machine := range m.Machines {
			if machine.Held {
				each = append(each, machine.Series[name].Summary)
			}
		}
		of[name] = slo.Together(each)
	}
	subject := slo.Subject{Deployment: d.Deployment, Replicas: d.Replicas, Only: replica}
	now := slo.FiguresOf(of)
	now.Started = subject.Started(m.Window.From, m.Window.To)
	found, err := subject.Diagnose(ctx, h.Store, now, m.Window.From, m.Window.To)
	if err != nil {
		return nil, err
	}
	return &tab.Verdict{Diagnosis: found, From: m.Window.From, To: m.Window.To, Replica: replica}, nil
}
