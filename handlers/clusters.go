package handlers

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/clusters"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// Clusters are the pages of the fleet.
type Clusters struct {
	Store     *store.Store
	Apply     *Apply
	Poke      func() // tells the controller that there is something to do
	PublicURL string // where agents and clients reach us; empty: as the request did
	Now       func() time.Time

	secrets reveal
}

var fleetCrumb = ui.Link{Label: "Fleet", Href: paths.Clusters}

func clusterCrumbs(c factory.Cluster) []ui.Link {
	return []ui.Link{fleetCrumb, {Label: c.Name, Href: paths.Cluster(c.ID)}}
}

// fleet is everything that runs, read once for a page.
type fleet struct {
	nodes       []factory.Node
	deployments []factory.Deployment
	replicas    []factory.Replica
	names       map[string]string // of deployments, deleted ones too
	silent      map[string]bool
	now         time.Time
}

func readFleet(ctx context.Context, s *store.Store, now time.Time) (f fleet, err error) {
	f.now = now
	if f.nodes, err = s.AllNodes(ctx); err != nil {
		return f, err
	}
	if f.deployments, err = s.AllDeployments(ctx); err != nil {
		return f, err
	}
	if f.replicas, err = s.AllReplicas(ctx); err != nil {
		return f, err
	}
	f.names, err = s.DeploymentNames(ctx)
	f.silent = silentNodes(f.nodes, now)
	return f, err
}

func (f fleet) machines(clusterID string) []views.Machine {
	var out []views.Machine
	for _, n := range f.nodes {
		if n.ClusterID == clusterID {
			out = append(out, f.machine(n))
		}
	}
	slices.SortStableFunc(out, func(a, b views.Machine) int {
		if a.Online != b.Online {
			if b.Online {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func (f fleet) machine(n factory.Node) views.Machine {
	m := views.Machine{Node: n, Online: n.Online(f.now)}
	for _, r := range f.replicas {
		if r.NodeID == n.ID {
			m.Replicas = append(m.Replicas, views.Placed{Replica: r, Deployment: f.names[r.DeploymentID]})
		}
	}
	return m
}

func (f fleet) replicasOf(deploymentID string) []factory.Replica {
	var out []factory.Replica
	for _, r := range f.replicas {
		if r.DeploymentID == deploymentID {
			out = append(out, r)
		}
	}
	return out
}

// ready counts the replicas that serve now.
func (f fleet) ready(replicas []factory.Replica) int {
	n := 0
	for _, r := range replicas {
		if r.State == factory.Ready && !r.Stopping && !f.silent[r.NodeID] {
			n++
		}
	}
	return n
}

// stateRank puts what is wrong first, then what is under way, then what is well.
var stateRank = map[factory.State]int{
	factory.Failed: 0, factory.Degraded: 1, factory.Pending: 2, factory.Starting: 3, factory.Loading: 4,
	factory.Stopping: 5, factory.Ready: 6, factory.Stopped: 7,
}

func (f fleet) served(clusterID string) []views.Served {
	var out []views.Served
	for _, d := range f.deployments {
		if d.ClusterID != clusterID {
			continue
		}
		replicas := f.replicasOf(d.ID)
		s := views.Served{Deployment: d, Ready: f.ready(replicas)}
		s.State, s.Reason = d.Status(replicas, f.silent)
		for _, r := range replicas {
			if r.NodeName != "" && !slices.Contains(s.Machines, r.NodeName) {
				s.Machines = append(s.Machines, r.NodeName)
			}
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b views.Served) int { return cmp.Compare(stateRank[a.State], stateRank[b.State]) })
	return out
}

func (f fleet) row(c factory.Cluster) views.Row {
	row := views.Row{Cluster: c, Machines: f.machines(c.ID)}
	for _, d := range f.served(c.ID) {
		row.Deployments++
		if d.State == factory.Failed || d.State == factory.Degraded {
			row.Failed++
		}
	}
	return row
}

// List is the fleet, clusters with silent machines first.
func (h *Clusters) List(c echo.Context) error {
	ctx := c.Request().Context()
	clusters, err := h.Store.AllClusters(ctx)
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	var rows []views.Row
	for _, x := range clusters {
		rows = append(rows, f.row(x))
	}
	slices.SortStableFunc(rows, func(a, b views.Row) int { return cmp.Compare(b.Offline(), a.Offline()) })
	view := respond.View{Title: "Fleet", Active: layout.NavFleet, Lede: "Your machines, grouped into clusters.", Wide: true, Body: views.List(rows)}
	if len(rows) > 0 {
		view.Actions = []ui.Action{{Label: "New cluster", Icon: "plus", Href: paths.NewCluster, Primary: true}}
	}
	return respond.Page(c, view)
}

// Show is one cluster.
func (h *Clusters) Show(c echo.Context) error {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	show := views.Show{Cluster: cluster, Machines: f.machines(cluster.ID), Served: f.served(cluster.ID), Now: f.now}
	if show.Tokens, err = h.Store.JoinTokens(ctx, cluster.ID); err != nil {
		return err
	}
	endpoints, err := h.Store.AllEndpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if e.ClusterID == cluster.ID {
			show.Endpoints = append(show.Endpoints, e)
		}
	}
	return respond.Page(c, respond.View{
		Title: cluster.Name, Active: layout.NavFleet, Crumbs: []ui.Link{fleetCrumb}, Lede: cluster.Description, Wide: true,
		Menu: []ui.Action{
			{Label: "Edit", Icon: "edit", Href: paths.EditCluster(cluster.ID)},
			{
				Label: "Delete", Icon: "trash", Post: paths.RemoveCluster(cluster.ID), Danger: true,
				ConfirmID: "delete", ConfirmTitle: "Delete " + cluster.Name + "?",
				Confirm: "Its join tokens end with it. Machines, endpoints and deployments must be removed first.",
			},
		},
		Body: views.ShowView(show),
	})
}

// New is the form of a new cluster.
func (h *Clusters) New(c echo.Context) error { return respond.Page(c, h.form(views.Form{}, nil)) }

func (h *Clusters) form(f views.Form, existing *factory.Cluster) respond.View {
	v := respond.View{Title: "New cluster", Active: layout.NavFleet, Crumbs: []ui.Link{fleetCrumb}, Body: views.FormView(f, "")}
	if existing != nil {
		v.Title, v.Crumbs, v.Body = "Edit "+existing.Name, clusterCrumbs(*existing), views.FormView(f, existing.ID)
	}
	return v
}

// Create makes a cluster and leads to registering its first machine.
func (h *Clusters) Create(c echo.Context) error {
	ctx := c.Request().Context()
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		errs := factory.FieldErrors{}
		if err := checkNew(ctx, errs, "cluster", form.Name, tx.ClusterByName); err != nil {
			return err
		}
		if len(errs) > 0 {
			return errs
		}
		var err error
		result, err = h.Apply.Cluster(ctx, tx, form.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		return respond.Invalid(c, h.form(form, nil))
	}
	tokens, err := h.Store.JoinTokens(ctx, result.ID)
	if err != nil {
		return err
	}
	if len(tokens) == 0 { // revoked by somebody else just now
		return respond.Redirect(c, paths.Cluster(result.ID))
	}
	return h.reveal(c, result.ID, tokens[0].ID, result.Secrets[SecretJoinToken])
}

// Edit is the form of a cluster.
func (h *Clusters) Edit(c echo.Context) error {
	cluster, err := h.Store.Cluster(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return respond.Page(c, h.form(views.Form{Name: cluster.Name, Description: cluster.Description}, &cluster))
}

// Update saves a cluster's form.
func (h *Clusters) Update(c echo.Context) error {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		_, err := h.Apply.Cluster(ctx, tx, cluster.Name, form.Spec())
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		return respond.Invalid(c, h.form(form, &cluster))
	}
	respond.Flash(c, "Cluster saved.")
	return respond.Redirect(c, paths.Cluster(cluster.ID))
}

// Remove deletes a cluster that nothing uses any more.
func (h *Clusters) Remove(c echo.Context) error {
	if err := h.Store.DeleteCluster(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	respond.Flash(c, "Cluster deleted.")
	return respond.Redirect(c, paths.Clusters)
}

// ListJSON lists clusters with their machines.
func (h *Clusters) ListJSON(c echo.Context) error {
	if !session.Person(c).Operator() {
		return factory.Errorf(factory.Forbidden, "Only operators see clusters.")
	}
	ctx := c.Request().Context()
	clusters, err := h.Store.AllClusters(ctx)
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	out := make([]clusterJSON, 0, len(clusters))
	for _, x := range clusters {
		item := clusterJSON{ID: x.ID, Name: x.Name, Description: x.Description, Nodes: []nodeJSON{}}
		for _, m := range f.machines(x.ID) {
			item.Nodes = append(item.Nodes, nodeJSON{
				ID: m.ID, Name: m.Name, Online: m.Online, LastSeenAt: m.LastSeenAt, Address: m.Address, Runtime: m.Runtime,
				AgentVersion: m.AgentVersion, Hardware: m.Hardware,
			})
		}
		out = append(out, item)
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"clusters": out})
}

type clusterJSON struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Nodes       []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Online       bool             `json:"online"`
	LastSeenAt   time.Time        `json:"last_seen_at"`
	Address      string           `json:"address"`
	Runtime      string           `json:"runtime"`
	AgentVersion string           `json:"agent_version"`
	Hardware     factory.Hardware `json:"hardware"`
}
