package metrics

import (
	"slices"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Layers puts what was measured into the three parts of the page. Panels are those with
// a card; infrastructure is left out for who may not see it.
func Layers(d factory.Deployment, m Measured, panels []Panel, infrastructure bool) ([]Layer, error) {
	cost, err := m.cost(d)
	if err != nil {
		return nil, err
	}
	user := Layer{
		Name: "user", Title: "What people feel", About: "Measured at the gateway, for every request.",
		Charts: []Chart{m.goodShare(d), m.journey()},
	}
	engine := Layer{Name: "infrastructure", Title: "What it runs on", About: "As engines and machines tell of themselves."}
	if m.Budget != nil {
		user.Charts = append(user.Charts, m.budget())
	}
	for _, p := range panels {
		if p.Metric.Layer == metrics.UserLayer {
			user.Panels = append(user.Panels, p)
		} else {
			engine.Panels = append(engine.Panels, p)
		}
	}
	workload := Layer{
		Name: "workload", Title: "What is asked and answered", About: "The load, and what it costs.",
		Charts: []Chart{m.requests(), m.tokens(), m.concurrency(), m.lengths(metrics.PromptLength), m.lengths(metrics.OutputLength), cost},
	}
	if m.OneTenant { // concurrency is sampled of everybody's requests together
		workload.Charts = slices.DeleteFunc(workload.Charts, func(c Chart) bool { return c.Name == "concurrency" })
	}
	out := []Layer{user, workload}
	if infrastructure {
		engine.Charts = append([]Chart{m.firstTokens(), m.batch(), m.prefix(), m.preemptions(), m.counted()}, m.machines()...)
		out = append(out, engine)
	}
	return out, nil
}
