package handlers

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/home"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Home is where people land: what they have to do next, or what they watch.
type Home struct {
	Store *store.Store
	Now   func() time.Time
}

// Show sends members to their tenant and operators to their deployments, or to the
// steps that are still missing.
func (h *Home) Show(c echo.Context) error {
	who := session.Person(c)
	if !who.User.Operator {
		if len(who.Tenants) == 0 {
			return factory.Errorf(factory.Forbidden, "You belong to no tenant yet. Ask an operator to add you to one.")
		}
		return respond.Redirect(c, paths.Own(who.Tenants[0].TenantName))
	}
	start, err := h.start(c.Request().Context())
	if err != nil {
		return err
	}
	for _, step := range start.Steps {
		if !step.Done {
			return respond.Page(c, respond.View{
				Title: "Get started",
				Lede:  "Five steps from a machine to an OpenAI-compatible API that tenants use. The CPU architecture makes no difference.",
				Body:  home.Show(start),
			})
		}
	}
	return respond.Redirect(c, paths.Deployments)
}

func (h *Home) start(ctx context.Context) (home.Start, error) {
	nodes, err := h.Store.AllNodes(ctx)
	if err != nil {
		return home.Start{}, err
	}
	clusters, err := h.Store.AllClusters(ctx)
	if err != nil {
		return home.Start{}, err
	}
	endpoints, err := h.Store.AllEndpoints(ctx)
	if err != nil {
		return home.Start{}, err
	}
	models, err := h.Store.AllLLMs(ctx)
	if err != nil {
		return home.Start{}, err
	}
	deployments, err := h.Store.AllDeployments(ctx)
	if err != nil {
		return home.Start{}, err
	}
	keys, err := h.Store.AllKeys(ctx)
	if err != nil {
		return home.Start{}, err
	}
	return home.Start{Steps: []home.Step{
		clusterStep(clusters, nodes),
		{
			Title: "Endpoint", Done: len(endpoints) > 0, Note: ui.Plural(len(endpoints), "endpoint") + " named.",
			Text:   "Name the front door that clients use, and the cluster that it leads to.",
			Action: ui.Action{Label: "Add an endpoint", Icon: "plus", Href: paths.NewEndpoint, Primary: true},
		},
		{
			Title: "Provider and model", Done: len(models) > 0, Note: ui.Plural(len(models), "model") + " in the catalogue.",
			Text:   "Say whose model it is and where its weights come from, or start from the built-in list of open models.",
			Action: ui.Action{Label: "Add a model", Icon: "plus", Href: paths.NewModel, Primary: true},
		},
		{
			Title: "Deployment", Done: len(deployments) > 0, Note: ui.Plural(len(deployments), "deployment") + " made.",
			Text:   "Pick model, endpoint, engine and price. It is checked that it fits and runs there before anything starts.",
			Action: ui.Action{Label: "Deploy a model", Icon: "plus", Href: paths.NewDeployment, Primary: true},
		},
		consumptionStep(keys),
	}}, nil
}

func clusterStep(clusters []factory.Cluster, nodes []factory.Node) home.Step {
	step := home.Step{
		Title: "Compute cluster", Done: len(nodes) > 0,
		Note:   ui.Plural(len(nodes), "machine") + " in " + ui.Plural(len(clusters), "cluster") + ".",
		Text:   "Register a cluster and run one copied command on each machine. The agent phones home and says what hardware there is.",
		Action: ui.Action{Label: "Register a cluster", Icon: "plus", Href: paths.NewCluster, Primary: true},
	}
	if len(clusters) > 0 && len(nodes) == 0 {
		step.Text = "No machine has called in yet. Run the command from the cluster's page on a machine."
		step.Action = ui.Action{Label: "Show the command", Icon: "arrow-right", Href: paths.Cluster(clusters[0].ID), Primary: true}
	}
	return step
}

func consumptionStep(keys []factory.Key) home.Step {
	return home.Step{
		Title: "Consumption", Done: len(keys) > 0, Note: ui.Plural(len(keys), "key") + " given out.",
		Text:   "Add a tenant, share the deployment with it, and give it a key for the OpenAI-compatible API.",
		Action: ui.Action{Label: "Add a tenant", Icon: "plus", Href: paths.NewTenant, Primary: true},
	}
}
