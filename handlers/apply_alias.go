package handlers

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"tokenfactory/factory"
	"tokenfactory/store"
)

// Alias creates or changes another name for models.
func (a *Apply) Alias(ctx context.Context, tx *store.Store, name string, spec factory.AliasSpec) (Result, error) {
	errs := spec.Validate()
	checkAliasName(errs, name)
	targets, err := a.aimAt(ctx, tx, errs, spec)
	if err != nil {
		return Result{}, err
	}
	fallbacks, err := a.fallBackTo(ctx, tx, errs, spec)
	if err != nil {
		return Result{}, err
	}
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	old, err := tx.AliasByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	now := a.now()
	if !exists {
		x := factory.Alias{ID: factory.NewID(), Name: name, Targets: targets, Fallbacks: fallbacks, CreatedAt: now, UpdatedAt: now}
		return Result{Outcome: Created, ID: x.ID}, tx.CreateAlias(ctx, x)
	}
	if slices.Equal(old.Targets, targets) && slices.Equal(old.Fallbacks, fallbacks) {
		return Result{Outcome: Unchanged, ID: old.ID}, nil
	}
	old.Targets, old.Fallbacks, old.UpdatedAt = targets, fallbacks, now
	return Result{Outcome: Changed, ID: old.ID}, tx.UpdateAlias(ctx, old)
}

// checkAliasName holds an alias to the rules of a deployment's public name: both are
// what clients put into “model”.
func checkAliasName(errs factory.FieldErrors, name string) {
	if name == "" {
		errs.Add("name", "Give the name that clients send as the model.")
	}
	if len(name) > 200 || strings.IndexFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) >= 0 {
		errs.Add("name", "Use at most 200 characters and no spaces.")
	}
}

func (a *Apply) aimAt(ctx context.Context, tx *store.Store, errs factory.FieldErrors, spec factory.AliasSpec) ([]factory.AliasTarget, error) {
	var out []factory.AliasTarget
	for _, t := range spec.Targets {
		d, err := lookUp(ctx, errs, "targets", "deployment", t.Deployment, tx.DeploymentByName)
		if err != nil {
			return nil, err
		}
		out = append(out, factory.AliasTarget{DeploymentID: d.ID, Deployment: d.Name, Weight: t.Weight})
	}
	return out, nil
}

func (a *Apply) fallBackTo(ctx context.Context, tx *store.Store, errs factory.FieldErrors, spec factory.AliasSpec) ([]factory.AliasTarget, error) {
	var out []factory.AliasTarget
	for _, name := range spec.Fallbacks {
		if name == "" {
			errs.Add("fallbacks", "Name the deployment of each fallback.")
		}
		d, err := lookUp(ctx, errs, "fallbacks", "deployment", name, tx.DeploymentByName)
		if err != nil {
			return nil, err
		}
		out = append(out, factory.AliasTarget{DeploymentID: d.ID, Deployment: d.Name})
	}
	return out, nil
}

// SpecOfAlias is an alias as its operator would write it.
func SpecOfAlias(x factory.Alias) factory.AliasSpec {
	var spec factory.AliasSpec
	for _, t := range x.Targets {
		spec.Targets = append(spec.Targets, factory.AliasTargetSpec{Deployment: t.Deployment, Weight: t.Weight})
	}
	for _, t := range x.Fallbacks {
		spec.Fallbacks = append(spec.Fallbacks, t.Deployment)
	}
	return spec
}
