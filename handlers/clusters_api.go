package handlers

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

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
