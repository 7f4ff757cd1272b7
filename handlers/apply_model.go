package handlers

import (
	"context"

	"tokenfactory/factory"
	"tokenfactory/store"
)

// Provider creates or changes a provider.
func (a *Apply) Provider(ctx context.Context, tx *store.Store, name string, spec factory.ProviderSpec) (Result, error) {
	errs := spec.Validate()
	factory.CheckName(errs, "name", name)
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	p, err := tx.ProviderByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	if exists {
		if p.Description == spec.Description && p.Website == spec.Website {
			return Result{Outcome: Unchanged, ID: p.ID}, nil
		}
		p.Description, p.Website = spec.Description, spec.Website
		return Result{Outcome: Changed, ID: p.ID}, tx.SaveProvider(ctx, p)
	}
	p = factory.Provider{ID: factory.NewID(), Name: name, Description: spec.Description, Website: spec.Website, CreatedAt: a.now()}
	return Result{Outcome: Created, ID: p.ID}, tx.CreateProvider(ctx, p)
}

// Model creates or changes a catalogue entry. What engines were started with
// reaches them anew: deployments of the model get a new revision.
func (a *Apply) Model(ctx context.Context, tx *store.Store, name string, spec factory.ModelSpec) (Result, error) {
	errs := spec.Validate()
	factory.CheckName(errs, "name", name)
	provider, err := lookUp(ctx, errs, "provider", "provider", spec.Provider, tx.ProviderByName)
	if err != nil {
		return Result{}, err
	}
	m, err := tx.LLMByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	var served []factory.Deployment
	if exists {
		served, err = deploymentsWhere(ctx, tx, func(d factory.Deployment) bool { return d.ModelID == m.ID })
		if err != nil {
			return Result{}, err
		}
	}
	for _, d := range served {
		if d.ContextLength > spec.ContextLength {
			errs.Add("context_length", "Deployment "+d.Name+" serves this model with a longer context. Shorten it there first.")
		}
	}
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	if !exists {
		m = factory.LLM{
			ID: factory.NewID(), Name: name, ProviderID: provider.ID, ProviderName: provider.Name,
			ModelSpec: spec, CreatedAt: a.now(),
		}
		return Result{Outcome: Created, ID: m.ID}, tx.CreateLLM(ctx, m)
	}
	old := m.ModelSpec
	old.Provider = m.ProviderName
	if old == spec {
		return Result{Outcome: Unchanged, ID: m.ID}, nil
	}
	m.ModelSpec, m.ProviderID, m.ProviderName = spec, provider.ID, provider.Name
	if err := tx.SaveLLM(ctx, m); err != nil {
		return Result{}, err
	}
	if modelRestarts(old, spec) {
		for _, d := range served {
			d.Revision++
			d.UpdatedAt = a.now()
			if err := tx.SaveDeployment(ctx, d); err != nil {
				return Result{}, err
			}
		}
	}
	return Result{Outcome: Changed, ID: m.ID}, nil
}

// modelRestarts reports whether engines that serve the model must start anew.
func modelRestarts(old, new factory.ModelSpec) bool {
	return old.Source != new.Source || old.Location != new.Location || old.Embedding != new.Embedding
}
