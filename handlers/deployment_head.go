package handlers

import (
	"context"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/deployments"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Tabs of a deployment.
const (
	tabOverview = "overview"
	tabMetrics  = "metrics"
	tabReplicas = "replicas"
	tabSettings = "settings"
)

// deploymentNow is a deployment with how it stands at this moment.
type deploymentNow struct {
	factory.Deployment
	State    factory.State
	Reason   string
	Replicas []factory.Replica
	Nodes    map[string]factory.Node
}

// readDeployment finds one deployment and sums its replicas up.
func readDeployment(ctx context.Context, s *store.Store, id string, now time.Time) (deploymentNow, error) {
	d, err := s.Deployment(ctx, id)
	if err != nil {
		return deploymentNow{}, err
	}
	replicas, err := s.Replicas(ctx, d.ID)
	if err != nil {
		return deploymentNow{}, err
	}
	nodes, err := s.AllNodes(ctx)
	if err != nil {
		return deploymentNow{}, err
	}
	out := deploymentNow{Deployment: d, Replicas: replicas, Nodes: byID(nodes)}
	out.State, out.Reason = d.Status(replicas, silentNodes(nodes, now))
	return out, nil
}

func byID(nodes []factory.Node) map[string]factory.Node {
	m := make(map[string]factory.Node, len(nodes))
	for _, n := range nodes {
		m[n.ID] = n
	}
	return m
}

// silentNodes is the set of nodes that have not been heard of lately.
func silentNodes(nodes []factory.Node, now time.Time) map[string]bool {
	silent := map[string]bool{}
	for _, n := range nodes {
		if !n.Online(now) {
			silent[n.ID] = true
		}
	}
	return silent
}

// page is the frame of one tab of the deployment; the tab sets its body.
func (d deploymentNow) page(tab string) respond.View {
	tabs := []ui.Link{
		{Label: "Overview", Href: paths.Deployment(d.ID), Current: tab == tabOverview},
		{Label: "Metrics", Href: paths.DeploymentMetrics(d.ID), Current: tab == tabMetrics},
		{Label: "Replicas", Href: paths.DeploymentReplicas(d.ID), Current: tab == tabReplicas},
		{Label: "Settings", Href: paths.DeploymentSettings(d.ID), Current: tab == tabSettings},
	}
	remove := ui.Action{
		Label: "Delete", Icon: "trash", Post: paths.RemoveDeployment(d.ID), Danger: true,
		ConfirmID: "delete", ConfirmTitle: "Delete " + d.Name + "?",
		Confirm: "Its replicas are stopped and clients get “model not found” from then on. Usage and measurements keep its name.",
	}
	v := respond.View{
		Title: d.Name, Active: layout.NavDeployments,
		Crumbs: []ui.Link{{Label: "Deployments", Href: paths.Deployments}},
		State:  views.StateBadge(d.State), Tabs: tabs, Menu: []ui.Action{remove},
	}
	if d.Stopped {
		v.Actions = []ui.Action{{Label: "Start", Icon: "play", Post: paths.StartDeployment(d.ID), Primary: true}}
		return v
	}
	stop := ui.Action{
		Label: "Stop", Icon: "stop", Post: paths.StopDeployment(d.ID),
		ConfirmID: "stop", ConfirmTitle: "Stop " + d.Name + "?",
		Confirm: "Its replicas end after the answers under way, and clients are told that it is not available until it is started again.",
	}
	restart := ui.Action{
		Label: "Restart", Icon: "refresh", Post: paths.RestartDeployment(d.ID),
		ConfirmID: "restart", ConfirmTitle: "Restart " + d.Name + "?",
		Confirm: "Replicas start anew one after the other, each on the place of the old one. With one replica, clients are told to come back for as long as loading takes.",
	}
	if d.Asleep {
		v.Actions = []ui.Action{{Label: "Wake", Icon: "play", Post: paths.WakeDeployment(d.ID), Primary: true}}
		v.Menu = []ui.Action{stop, remove}
		return v
	}
	sleep := ui.Action{
		Label: "Put to sleep", Icon: "moon", Post: paths.SleepDeployment(d.ID),
		ConfirmID: "sleep", ConfirmTitle: "Put " + d.Name + " to sleep?",
		Confirm: "Its replicas end after the answers under way, and its machines are free for others. The next request wakes it and waits for as long as loading takes.",
	}
	if d.Address != "" {
		stop.Confirm = "The engine at " + d.Address + " keeps running; it is no longer watched, and clients are no longer sent there until you start this again."
		v.Menu = []ui.Action{stop, remove}
		return v
	}
	v.Menu = []ui.Action{sleep, stop, restart, remove}
	return v
}
