package handlers

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	views "tokenfactory/views/deployments"
	"tokenfactory/views/layout"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
)

// choices reads what the form offers, given what it says so far.
func (h *Deployments) choices(ctx context.Context, form views.Form) (views.Choices, error) {
	var c views.Choices
	var err error
	if c.Models, err = h.Store.AllLLMs(ctx); err != nil {
		return c, err
	}
	if c.Endpoints, err = h.Store.AllEndpoints(ctx); err != nil {
		return c, err
	}
	if c.Tenants, err = h.Store.AllTenants(ctx); err != nil {
		return c, err
	}
	for _, m := range c.Models {
		if m.Name == form.Model {
			c.LLM = m
		}
	}
	var nodes []factory.Node
	for _, e := range c.Endpoints {
		if e.Name == form.Endpoint {
			c.Cluster = e.ClusterName
			if nodes, err = h.Store.Nodes(ctx, e.ClusterID); err != nil {
				return c, err
			}
		}
	}
	replicas, err := h.Store.AllReplicas(ctx)
	if err != nil {
		return c, err
	}
	c.Nodes = len(nodes)
	for _, n := range nodes {
		if n.Online(h.Now()) {
			c.Online++
		}
	}
	c.Engines, c.GPUs = engineChoices(nodes), gpuChoices(nodes, replicas, h.Now())
	return c, nil
}

func (h *Deployments) newView(ctx context.Context, form views.Form) (respond.View, error) {
	choices, err := h.choices(ctx, form)
	if err != nil {
		return respond.View{}, err
	}
	// Where there is one to choose, it is chosen.
	if form.Endpoint == "" && len(choices.Endpoints) == 1 {
		form.Endpoint = choices.Endpoints[0].Name
		if choices, err = h.choices(ctx, form); err != nil {
			return respond.View{}, err
		}
	}
	if form.Engine == "" && !form.Watches() {
		form.Engine = firstThatRuns(choices.Engines)
	}
	return respond.View{
		Title: "Deploy a model", Active: layout.NavDeployments, Crumbs: []ui.Link{{Label: "Deployments", Href: paths.Deployments}},
		Body: views.FormView(views.FormPage{Form: form, Choices: choices}),
	}, nil
}

// firstThatRuns is the engine to begin with: the first of the catalogue that runs
// on the cluster's machines and does not make text up.
func firstThatRuns(choices []views.EngineChoice) string {
	for _, e := range choices {
		if e.Runs > 0 && !e.Simulated {
			return e.Name
		}
	}
	return ""
}

// New is the form of a new deployment. What is in the address fills it: that is how
// links preselect, and how the form reads its choices anew while it is typed.
func (h *Deployments) New(c echo.Context) error {
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	if form.Typed == "" {
		form = views.NewForm(form)
	}
	v, err := h.newView(c.Request().Context(), form)
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// Create makes a deployment.
func (h *Deployments) Create(c echo.Context) error {
	ctx := c.Request().Context()
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = strings.TrimSpace(form.Name)
	spec, typed := form.Spec(GPUCountDefault)
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		if err := checkNew(ctx, typed, "deployment", form.Name, tx.DeploymentByName); err != nil {
			return err
		}
		var err error
		result, err = h.apply(ctx, tx, form.Name, spec, typed)
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		form.Errors = errs
		v, err := h.newView(ctx, form)
		if err != nil {
			return err
		}
		return respond.Invalid(c, v)
	}
	h.Poke()
	if warning := form.ReachWarning(); warning != "" {
		respond.Flash(c, "Deployment created. "+warning)
	}
	return respond.Redirect(c, paths.Deployment(result.ID))
}

// apply saves a spec unless something was typed that cannot be read; then the rest
// is checked all the same, so that everything wrong is told at once.
func (h *Deployments) apply(ctx context.Context, tx *store.Store, name string, spec factory.DeploymentSpec, typed factory.FieldErrors) (Result, error) {
	if len(typed) == 0 {
		return h.Apply.Deployment(ctx, tx, name, spec)
	}
	_, _, err := h.Apply.place(ctx, tx, name, spec)
	more, err := onlyFields(err)
	if err != nil {
		return Result{}, err
	}
	_, undecided := typed["free"]
	for field, message := range more {
		// Between prices and free the person has to choose first.
		if !undecided || !strings.HasSuffix(field, "_price") {
			typed.Add(field, message)
		}
	}
	return Result{}, typed
}

func (h *Deployments) tenantNames(ctx context.Context) (map[string]string, error) {
	tenants, err := h.Store.AllTenants(ctx)
	names := map[string]string{}
	for _, t := range tenants {
		names[t.ID] = t.Name
	}
	return names, err
}

func (h *Deployments) settingsView(ctx context.Context, d deploymentNow, form views.Form, ask string) (respond.View, error) {
	choices, err := h.choices(ctx, form)
	if err != nil {
		return respond.View{}, err
	}
	v := d.page(tabSettings)
	v.Body = views.FormView(views.FormPage{Form: form, Choices: choices, ID: d.ID, TargetsAt: d.TargetsAt, Ask: ask})
	return v, nil
}

// Settings is the Settings tab: the form, filled.
func (h *Deployments) Settings(c echo.Context) error {
	ctx := c.Request().Context()
	d, err := readDeployment(ctx, h.Store, c.Param("id"), h.Now())
	if err != nil {
		return err
	}
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	if form.Typed == "" {
		names, err := h.tenantNames(ctx)
		if err != nil {
			return err
		}
		form = views.FormOf(d.Name, SpecOf(d.Deployment, names))
	}
	v, err := h.settingsView(ctx, d, form, "")
	if err != nil {
		return err
	}
	return respond.Page(c, v)
}

// Update saves the Settings tab. A change that restarts engines which run is told
// first, and saved once the person has agreed.
func (h *Deployments) Update(c echo.Context) error {
	ctx := c.Request().Context()
	d, err := readDeployment(ctx, h.Store, c.Param("id"), h.Now())
	if err != nil {
		return err
	}
	var form views.Form
	if err := c.Bind(&form); err != nil {
		return err
	}
	form.Name = d.Name
	spec, typed := form.Spec(GPUCountDefault)
	ask := ""
	var result Result
	errs, err := inTx(ctx, h.Store, func(tx *store.Store) error {
		if len(typed) == 0 && form.Restart == "" {
			placed, _, err := h.Apply.place(ctx, tx, d.Name, spec)
			if err != nil {
				return err
			}
			if ask = restartOf(d, placed); ask != "" {
				return nil
			}
		}
		var err error
		result, err = h.apply(ctx, tx, d.Name, spec, typed)
		return err
	})
	if err != nil {
		return err
	}
	if len(errs) > 0 || ask != "" {
		form.Errors = errs
		v, err := h.settingsView(ctx, d, form, ask)
		if err != nil {
			return err
		}
		return respond.Invalid(c, v)
	}
	h.Poke()
	if result.Outcome == Unchanged {
		respond.Flash(c, "Nothing was changed.")
	} else {
		respond.Flash(c, strings.TrimSpace("Deployment saved. "+form.ReachWarning()))
	}
	return respond.Redirect(c, paths.Deployment(d.ID))
}

// restartOf says what saving does to replicas that run; empty when it leaves them alone.
func restartOf(d deploymentNow, spec factory.DeploymentSpec) string {
	running, serving := 0, 0
	for _, r := range d.Replicas {
		switch {
		case r.Stopping || r.NodeID == "":
		case r.State == factory.Ready:
			running++
			serving++
		default:
			running++
		}
	}
	if running == 0 || d.Stopped || !spec.NeedsRestart(d.DeploymentSpec) {
		return ""
	}
	switch {
	case spec.Address != "" && d.Address != "":
		return "The engine at " + spec.Address + " is looked at anew; it is not stopped. Clients are told to come back until it has answered."
	case serving > 1:
		return "Replicas restart one after the other: each old one stops before its new one starts on the same GPUs, and the others keep serving meanwhile."
	}
	return "The old replica stops before the new one starts, because both need the same place. Clients are told to come back for as long as loading takes."
}
