package handlers

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// deploymentJSON is a deployment in the API. Tenants see what concerns them: neither
// machines, nor the engine's arguments, nor who else it is shared with.
type deploymentJSON struct {
	ID        string        `json:"id"`
	Name      string        `json:"name"`
	Model     string        `json:"model"` // what clients name
	State     factory.State `json:"state"`
	Reason    string        `json:"reason"`
	Ready     int           `json:"ready"`
	Replicas  int           `json:"replicas"`
	Price     priceJSON     `json:"price"`
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`

	Spec   *factory.DeploymentSpec `json:"spec,omitempty"`
	Copies []replicaJSON           `json:"copies,omitempty"`
}

type priceJSON struct {
	Free        bool   `json:"free"`
	Currency    string `json:"currency"`
	Input       string `json:"input"`
	CachedInput string `json:"cached_input"`
	Output      string `json:"output"`
}

type replicaJSON struct {
	ID        string        `json:"id"`
	Node      string        `json:"node"`
	State     factory.State `json:"state"`
	Reason    string        `json:"reason"`
	URL       string        `json:"url,omitempty"`
	PID       int           `json:"pid,omitempty"`
	Restarts  int           `json:"restarts"`
	Revision  int           `json:"revision"`
	Stopping  bool          `json:"stopping"`
	Progress  string        `json:"progress,omitempty"`
	LastLines []string      `json:"last_lines,omitempty"`
	StartedAt *time.Time    `json:"started_at,omitempty"`
	ReadyAt   *time.Time    `json:"ready_at,omitempty"`
}

func (h *Deployments) json(f fleet, d factory.Deployment, names map[string]string, everything bool) deploymentJSON {
	replicas := f.replicasOf(d.ID)
	state, reason := d.Status(replicas, f.silent)
	out := deploymentJSON{
		ID: d.ID, Name: d.Name, Model: d.PublicName, State: state, Reason: reason, Ready: f.ready(replicas),
		Replicas: d.Replicas, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	if p := d.Price; p != nil {
		out.Price = priceJSON{Free: p.Free, Currency: p.Currency, Input: p.Input, CachedInput: p.CachedInput, Output: p.Output}
	}
	if !everything {
		out.Reason = ""
		return out
	}
	spec := SpecOf(d, names)
	out.Spec = &spec
	for _, r := range replicas {
		out.Copies = append(out.Copies, replicaJSON{
			ID: r.ID, Node: r.NodeName, State: r.State, Reason: r.Reason, URL: r.URL, PID: r.PID, Restarts: r.Restarts, Revision: r.Revision,
			Stopping: r.Stopping, Progress: r.Progress, LastLines: r.LastLines, StartedAt: r.StartedAt, ReadyAt: r.ReadyAt,
		})
	}
	return out
}

// ListJSON lists deployments: all for operators, those shared with it for a tenant.
func (h *Deployments) ListJSON(c echo.Context) error {
	ctx := c.Request().Context()
	tenantID, err := session.Scope(c)
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	names, err := h.tenantNames(ctx)
	if err != nil {
		return err
	}
	out := []deploymentJSON{}
	for _, d := range f.deployments {
		if tenantID == "" || d.SharedWith(tenantID) {
			out = append(out, h.json(f, d, names, tenantID == ""))
		}
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"deployments": out})
}

// ShowJSON is one deployment by id, name or public name. One that is not shared with
// the tenant that asks does not exist for it.
func (h *Deployments) ShowJSON(c echo.Context) error {
	ctx := c.Request().Context()
	tenantID, err := session.Scope(c)
	if err != nil {
		return err
	}
	ref := pathText(c, "ref")
	d, err := h.Store.FindDeployment(ctx, ref)
	if err == nil && tenantID != "" && !d.SharedWith(tenantID) {
		err = factory.Errorf(factory.NotFound, "There is no deployment “%s”.", ref)
	}
	if err != nil {
		return err
	}
	f, err := readFleet(ctx, h.Store, h.Now())
	if err != nil {
		return err
	}
	names, err := h.tenantNames(ctx)
	if err != nil {
		return err
	}
	return respond.JSON(c, http.StatusOK, h.json(f, d, names, tenantID == ""))
}

// pathText is a parameter of the address as it was meant. Public names have slashes
// in them; the router leaves what came escaped as it is.
func pathText(c echo.Context, name string) string {
	text := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return text
	}
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
