package handlers

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/store"
)

// GPUCountDefault in a spec stands for “as the engine needs”: one GPU for engines
// that cannot run without, none for the others.
const GPUCountDefault = -1

// NewDeploymentSpec is what a form or a document starts from.
func NewDeploymentSpec() factory.DeploymentSpec {
	return factory.DeploymentSpec{
		GPUCount: GPUCountDefault, Replicas: 1, PrefixCaching: true, Workload: factory.Interactive,
	}
}

// placing is what the names in a deployment's spec stand for.
type placing struct {
	llm      factory.LLM
	endpoint factory.Endpoint
	cluster  factory.Cluster
	engine   engines.Engine
	tenants  []string // ids
	old      *factory.Deployment
}

// Deployment creates or changes a deployment. A change that the engine was started
// with raises the revision, so that its replicas start anew.
func (a *Apply) Deployment(ctx context.Context, tx *store.Store, name string, spec factory.DeploymentSpec) (Result, error) {
	spec, at, err := a.place(ctx, tx, name, spec)
	if err != nil {
		return Result{}, err
	}
	price := spec.Price()
	now := a.now()
	if at.old == nil {
		d := factory.Deployment{
			ID: factory.NewID(), Name: name, ModelID: at.llm.ID, EndpointID: at.endpoint.ID, ClusterID: at.cluster.ID,
			DeploymentSpec: spec, Revision: 1, CreatedAt: now, UpdatedAt: now, TargetsAt: now, LLM: at.llm, TenantIDs: at.tenants,
		}
		price.ID, price.DeploymentID, price.ValidFrom = factory.NewID(), d.ID, now
		d.Price = &price
		return Result{Outcome: Created, ID: d.ID}, tx.CreateDeployment(ctx, d)
	}
	d := *at.old
	restart := spec.NeedsRestart(d.DeploymentSpec)
	if !restart && sameDeployment(d, spec, price, at) {
		return Result{Outcome: Unchanged, ID: d.ID}, nil
	}
	if restart {
		d.Revision++
	}
	if !spec.SameTargets(d.DeploymentSpec) {
		d.TargetsAt = now // what was judged before stays judged
	}
	d.DeploymentSpec, d.ModelID, d.EndpointID, d.ClusterID = spec, at.llm.ID, at.endpoint.ID, at.cluster.ID
	d.LLM, d.TenantIDs, d.UpdatedAt = at.llm, at.tenants, now
	if d.Price == nil || !price.Same(*d.Price) {
		price.ID, price.DeploymentID, price.ValidFrom = factory.NewID(), d.ID, now
		d.Price = &price
	}
	return Result{Outcome: Changed, ID: d.ID}, tx.SaveDeployment(ctx, d)
}

// place fills a spec's defaults and finds what it names. Everything that is wrong
// with it comes back at once, as factory.FieldErrors.
func (a *Apply) place(ctx context.Context, tx *store.Store, name string, spec factory.DeploymentSpec) (factory.DeploymentSpec, placing, error) {
	var at placing
	old, err := tx.DeploymentByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return spec, at, err
	}
	if exists {
		at.old = &old
	}
	at.engine, _ = engines.Find(spec.Engine)
	if spec.GPUCount == GPUCountDefault {
		spec.GPUCount = 0
		if at.engine.NeedsGPU && spec.Address == "" {
			spec.GPUCount = 1
		}
	}
	if spec.Currency == "" {
		spec.Currency = "USD"
	}
	errs := spec.Validate()
	spec.Limits = spec.Limits.WithDefaults()
	if spec.Budget != "" && !spec.Free && spec.BudgetCurrency != spec.Currency {
		// Every request would be refused: money of two currencies cannot be compared.
		errs.Add("budget_currency", "The prices are in "+spec.Currency+". Give the budget in the same currency.")
	}
	factory.CheckName(errs, "name", name)
	if at.llm, err = lookUp(ctx, errs, "model", "model", spec.Model, tx.LLMByName); err != nil {
		return spec, at, err
	}
	if at.endpoint, err = lookUp(ctx, errs, "endpoint", "endpoint", spec.Endpoint, tx.EndpointByName); err != nil {
		return spec, at, err
	}
	if spec.Cluster == "" {
		spec.Cluster = at.endpoint.ClusterName
	}
	if at.cluster, err = lookUp(ctx, errs, "cluster", "cluster", spec.Cluster, tx.ClusterByName); err != nil {
		return spec, at, err
	}
	if at.cluster.ID != "" && at.endpoint.ID != "" && at.cluster.ID != at.endpoint.ClusterID {
		errs.Add("cluster", "Endpoint "+at.endpoint.Name+" leads to cluster "+at.endpoint.ClusterName+". Choose that cluster, or another endpoint.")
	}
	if at.llm.ID != "" && spec.ContextLength > at.llm.ContextLength {
		errs.Add("context_length", "The model's context is "+strconv.Itoa(at.llm.ContextLength)+" tokens. Give at most that, or nothing for all of it.")
	}
	if err := a.fits(ctx, tx, errs, spec, at); err != nil {
		return spec, at, err
	}
	if spec.PublicName == "" && at.llm.ID != "" {
		spec.PublicName = at.llm.DefaultPublicName()
	}
	if err := publicNameFree(ctx, tx, errs, spec.PublicName, at.old); err != nil {
		return spec, at, err
	}
	if at.tenants, err = tenantIDs(ctx, tx, errs, spec.Tenants); err != nil {
		return spec, at, err
	}
	return spec, at, errs.Err()
}

// fits checks the engine and the GPUs against the machines that are there. A
// cluster without machines takes everything; a change that leaves engine and
// place alone is not held up by a machine that has got worse since.
func (a *Apply) fits(ctx context.Context, tx *store.Store, errs factory.FieldErrors, spec factory.DeploymentSpec, at placing) error {
	if spec.Engine != "" && at.engine.Name == "" {
		errs.Add("engine", "There is no engine named “"+spec.Engine+"”. Choose one of "+strings.Join(engineNames(), ", ")+".")
		return nil
	}
	if at.llm.ID != "" && at.engine.Name != "" {
		for field, message := range at.engine.Check(spec, at.llm.ModelSpec) {
			errs.Add(field, message)
		}
	}
	same := at.old != nil && at.old.Engine == spec.Engine && at.old.Cluster == spec.Cluster && at.old.Address == spec.Address &&
		at.old.GPU == spec.GPU && at.old.GPUCount == spec.GPUCount
	if spec.Address != "" || at.cluster.ID == "" || at.engine.Name == "" || same {
		return nil
	}
	nodes, err := tx.Nodes(ctx, at.cluster.ID)
	if err != nil || len(nodes) == 0 {
		return err
	}
	choice := engineChoice(at.engine, nodes)
	if choice.Runs == 0 {
		errs.Add("engine", at.engine.Title+" runs on no machine of cluster "+at.cluster.Name+". "+strings.Join(choice.Reasons, " "))
		return nil
	}
	checkGPUs(errs, spec, at.cluster.Name, nodes)
	return nil
}

func engineNames() []string {
	var names []string
	for _, e := range engines.Catalogue {
		names = append(names, e.Name)
	}
	return names
}

func publicNameFree(ctx context.Context, tx *store.Store, errs factory.FieldErrors, name string, old *factory.Deployment) error {
	if name == "" || old != nil && old.PublicName == name {
		return nil
	}
	all, err := tx.AllDeployments(ctx)
	for _, d := range all {
		if d.PublicName == name && (old == nil || d.ID != old.ID) {
			errs.Add("public_name", "Clients already reach deployment "+d.Name+" as “"+name+"”. Give this one another public name.")
		}
	}
	return err
}

func tenantIDs(ctx context.Context, tx *store.Store, errs factory.FieldErrors, names []string) ([]string, error) {
	var ids []string
	for _, name := range names {
		t, err := lookUp(ctx, errs, "tenants", "tenant", name, tx.TenantByName)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, t.ID) {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// sameDeployment compares what does not restart the engine.
func sameDeployment(d factory.Deployment, spec factory.DeploymentSpec, price factory.Price, at placing) bool {
	return d.EndpointID == at.endpoint.ID && d.ModelID == at.llm.ID && d.ClusterID == at.cluster.ID &&
		d.Replicas == spec.Replicas && d.Limits.WithDefaults() == spec.Limits && d.ReplicaConcurrency == spec.ReplicaConcurrency && d.Workload == spec.Workload &&
		d.TTFTTargetMS == spec.TTFTTargetMS && d.ITLTargetMS == spec.ITLTargetMS && d.Objectives == spec.Objectives &&
		d.SharedWithAll == spec.SharedWithAll && sameSet(d.TenantIDs, at.tenants) &&
		d.Price != nil && price.Same(*d.Price)
}

func sameSet(a, b []string) bool {
	set := func(xs []string) map[string]bool {
		m := map[string]bool{}
		for _, x := range xs {
			m[x] = true
		}
		return m
	}
	return maps.Equal(set(a), set(b))
}

// SpecOf is a deployment as its operator would write it: what the edit form
// starts from, so that saving it untouched changes nothing.
func SpecOf(d factory.Deployment, tenantNames map[string]string) factory.DeploymentSpec {
	spec := d.DeploymentSpec
	spec.Tenants = nil
	for _, id := range d.TenantIDs {
		if name := tenantNames[id]; name != "" {
			spec.Tenants = append(spec.Tenants, name)
		}
	}
	slices.Sort(spec.Tenants)
	if p := d.Price; p != nil {
		spec.Free, spec.Currency = p.Free, p.Currency
		spec.InputPrice, spec.CachedInputPrice, spec.OutputPrice = p.Input, p.CachedInput, p.Output
		if p.Free {
			spec.InputPrice, spec.CachedInputPrice, spec.OutputPrice = "", "", ""
		}
	}
	return spec
}
