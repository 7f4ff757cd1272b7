package handlers

import (
	"strings"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/clusters"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// Register makes a join token and leads to the page that shows it.
func (h *Clusters) Register(c echo.Context) error {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	var token factory.JoinToken
	var secret string
	_, err = inTx(ctx, h.Store, func(tx *store.Store) error {
		var err error
		token, secret, err = h.Apply.JoinToken(ctx, tx, cluster.ID)
		return err
	})
	if err != nil {
		return err
	}
	return h.reveal(c, cluster.ID, token.ID, secret)
}

func (h *Clusters) reveal(c echo.Context, clusterID, tokenID, secret string) error {
	h.secrets.keep(tokenID, secret, h.Now())
	return respond.Redirect(c, paths.ClusterToken(clusterID, tokenID))
}

// Registration is the page with the command to run and the checklist that fills
// itself in. The command is there the first time only.
func (h *Clusters) Registration(c echo.Context) error {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	tokens, err := h.Store.JoinTokens(ctx, cluster.ID)
	if err != nil {
		return err
	}
	r := views.Registration{Cluster: cluster, Server: baseURL(c, h.PublicURL), Now: h.Now()}
	for _, t := range tokens {
		if t.ID == c.Param("token") {
			r.Token = t
		}
	}
	if r.Token.ID == "" {
		return factory.Errorf(factory.NotFound, "This join token was revoked or never existed. Make a new one on the cluster's page.")
	}
	// The checklist asks again and again; that must not use the one showing up.
	if !respond.IsHTMX(c) {
		if secret := h.secrets.take(r.Token.ID, r.Now); secret != "" {
			r.Command = agentCommand(r.Server, secret)
			c.Response().Header().Set("Cache-Control", "no-store")
		}
	}
	f, err := readFleet(ctx, h.Store, r.Now)
	if err != nil {
		return err
	}
	r.Joined = joinedSince(f.machines(cluster.ID), r.Token)
	return respond.Page(c, respond.View{
		Title: "Register a machine", Active: layout.NavFleet, Crumbs: clusterCrumbs(cluster),
		Lede: "One command makes a machine part of " + cluster.Name + ", whatever its processor.", Body: views.RegistrationView(r),
	})
}

// joinedSince are the machines that have come in by a token, as far as that can be
// told. A silent machine that came back with it keeps the day on which it joined
// first; then all that have been heard of since are shown.
func joinedSince(machines []views.Machine, token factory.JoinToken) []views.Machine {
	var joined, heard []views.Machine
	for _, m := range machines {
		if !m.JoinedAt.Before(token.CreatedAt) {
			joined = append(joined, m)
		} else if !m.LastSeenAt.Before(token.CreatedAt) {
			heard = append(heard, m)
		}
	}
	if token.Uses > len(joined) {
		joined = append(joined, heard...)
	}
	return joined
}

// agentCommand is what to run on a machine. The data folder is the person's own, so
// that no root is needed to try it.
func agentCommand(server, token string) string {
	return "tokenfactory-agent --server " + server + " \\\n" +
		"  --token " + token + " \\\n" +
		"  --data \"$HOME/.tokenfactory-agent\" --runtime process"
}

// baseURL is where this server is reached from outside.
func baseURL(c echo.Context, public string) string {
	if public != "" {
		return strings.TrimRight(public, "/")
	}
	return c.Scheme() + "://" + c.Request().Host
}

// RevokeToken ends a join token; machines that have joined stay.
func (h *Clusters) RevokeToken(c echo.Context) error {
	ctx := c.Request().Context()
	tokens, err := h.Store.JoinTokens(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.ID != c.Param("token") {
			continue
		}
		if err := h.Store.DeleteJoinToken(ctx, t.ID); err != nil {
			return err
		}
		h.secrets.take(t.ID, h.Now())
		break
	}
	respond.Flash(c, "Token revoked.")
	return respond.Redirect(c, paths.Cluster(c.Param("id")))
}

// node finds the machine of the address, which names its cluster too.
func (h *Clusters) node(c echo.Context) (factory.Cluster, factory.Node, error) {
	ctx := c.Request().Context()
	cluster, err := h.Store.Cluster(ctx, c.Param("id"))
	if err != nil {
		return cluster, factory.Node{}, err
	}
	node, err := h.Store.Node(ctx, c.Param("node"))
	if err == nil && node.ClusterID != cluster.ID {
		err = factory.Errorf(factory.NotFound, "There is no such machine in cluster %s.", cluster.Name)
	}
	return cluster, node, err
}

// Node is one machine.
func (h *Clusters) Node(c echo.Context) error {
	cluster, node, err := h.node(c)
	if err != nil {
		return err
	}
	f, err := readFleet(c.Request().Context(), h.Store, h.Now())
	if err != nil {
		return err
	}
	m := f.machine(node)
	confirm := "Its agent's credential ends with it. To bring the machine back, register it again."
	if len(m.Replicas) > 0 {
		confirm = "It runs " + countOf(len(m.Replicas), "replica") + ", which are placed on other machines where there is room. " + confirm
	}
	return respond.Page(c, respond.View{
		Title: node.Name, Active: layout.NavFleet, Crumbs: clusterCrumbs(cluster), State: ui.Online(m.Online), Wide: true,
		Menu: []ui.Action{{
			Label: "Remove", Icon: "trash", Post: paths.RemoveNode(cluster.ID, node.ID), Danger: true,
			ConfirmID: "remove", ConfirmTitle: "Remove " + node.Name + " from " + cluster.Name + "?", Confirm: confirm,
		}},
		Body: views.NodeView(cluster, m),
	})
}

// RemoveNode takes a machine out of its cluster.
func (h *Clusters) RemoveNode(c echo.Context) error {
	cluster, node, err := h.node(c)
	if err != nil {
		return err
	}
	if err := h.Store.DeleteNode(c.Request().Context(), node.ID); err != nil {
		return err
	}
	if h.Poke != nil {
		h.Poke()
	}
	respond.Flash(c, node.Name+" was removed.")
	return respond.Redirect(c, paths.Cluster(cluster.ID))
}
