package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"tokenfactory/factory"
)

const aliasColumns = `id, name, created_at, updated_at`

const selectAliases = `SELECT a.id, a.name, a.created_at, a.updated_at FROM aliases a `

func scanAlias(r row) (factory.Alias, error) {
	var a factory.Alias
	return a, r.Scan(&a.ID, &a.Name, asTime(&a.CreatedAt), asTime(&a.UpdatedAt))
}

const noAlias = "There is no such alias. It may have been deleted."

// Alias reads an alias by id.
func (s *Store) Alias(ctx context.Context, id string) (factory.Alias, error) {
	return s.alias(ctx, noAlias, `WHERE a.id = ?`, id)
}

// AliasByName reads the alias of a model name that clients send.
func (s *Store) AliasByName(ctx context.Context, name string) (factory.Alias, error) {
	return s.alias(ctx, "There is no alias named "+name+".", `WHERE a.name = ?`, name)
}

func (s *Store) alias(ctx context.Context, missing, where, value string) (factory.Alias, error) {
	a, err := one(ctx, s, s.r, "alias", missing, scanAlias, selectAliases+where, value)
	if err != nil {
		return a, err
	}
	list := []factory.Alias{a}
	err = s.aim(ctx, list, `WHERE x.alias_id = ?`, a.ID)
	return list[0], err
}

// AllAliases lists aliases by name.
func (s *Store) AllAliases(ctx context.Context) ([]factory.Alias, error) {
	list, err := all(ctx, s, s.r, "alias", scanAlias, selectAliases+`ORDER BY a.name`)
	if err != nil {
		return nil, err
	}
	return list, s.aim(ctx, list, ``)
}

// Aliases lists the aliases that lead a tenant somewhere, by name. Deployments that
// are not shared with it are not in them.
func (s *Store) Aliases(ctx context.Context, tenantID string) ([]factory.Alias, error) {
	list, err := all(ctx, s, s.r, "alias", scanAlias, selectAliases+`ORDER BY a.name`)
	if err != nil {
		return nil, err
	}
	err = s.aim(ctx, list, `WHERE d.shared_with_all = TRUE OR d.id IN (SELECT y.deployment_id FROM deployment_tenants y WHERE y.tenant_id = ?)`, tenantID)
	return slices.DeleteFunc(list, func(a factory.Alias) bool { return len(a.Targets)+len(a.Fallbacks) == 0 }), err
}

// aim fills in where aliases lead to.
func (s *Store) aim(ctx context.Context, list []factory.Alias, where string, args ...any) error {
	at := map[string]*factory.Alias{}
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	type aimed struct {
		alias    string
		fallback bool
		factory.AliasTarget
	}
	rows, err := all(ctx, s, s.r, "alias target", func(r row) (aimed, error) {
		var x aimed
		return x, r.Scan(&x.alias, &x.fallback, &x.DeploymentID, &x.Deployment, &x.Weight)
	}, `SELECT x.alias_id, x.fallback, x.deployment_id, d.name, x.weight
		FROM alias_targets x JOIN deployments d ON d.id = x.deployment_id `+where+` ORDER BY x.alias_id, x.position`, args...)
	for _, x := range rows {
		switch a := at[x.alias]; {
		case a == nil: // made since the list was read
		case x.fallback:
			a.Fallbacks = append(a.Fallbacks, x.AliasTarget)
		default:
			a.Targets = append(a.Targets, x.AliasTarget)
		}
	}
	return err
}

// CreateAlias adds an alias with its targets.
func (s *Store) CreateAlias(ctx context.Context, a factory.Alias) error {
	return s.InTx(ctx, func(tx *Store) error {
		if err := tx.checkAlias(ctx, a); err != nil {
			return err
		}
		if err := tx.exec(ctx, "alias", []unique{{"name", a.Name}}, insert("aliases", aliasColumns),
			a.ID, a.Name, micros(a.CreatedAt), micros(a.UpdatedAt)); err != nil {
			return err
		}
		return tx.createTargets(ctx, a)
	})
}

// UpdateAlias writes an alias and its targets.
func (s *Store) UpdateAlias(ctx context.Context, a factory.Alias) error {
	return s.InTx(ctx, func(tx *Store) error {
		if err := tx.checkAlias(ctx, a); err != nil {
			return err
		}
		if err := tx.change(ctx, "alias", noAlias, []unique{{"name", a.Name}},
			`UPDATE aliases SET name = ?, updated_at = ? WHERE id = ?`, a.Name, micros(a.UpdatedAt), a.ID); err != nil {
			return err
		}
		if err := tx.exec(ctx, "alias", nil, `DELETE FROM alias_targets WHERE alias_id = ?`, a.ID); err != nil {
			return err
		}
		return tx.createTargets(ctx, a)
	})
}

// DeleteAlias removes an alias; the deployments behind it stay.
func (s *Store) DeleteAlias(ctx context.Context, id string) error {
	return s.change(ctx, "alias", noAlias, nil, `DELETE FROM aliases WHERE id = ?`, id)
}

func (s *Store) createTargets(ctx context.Context, a factory.Alias) error {
	const columns = 5
	var args []any
	add := func(targets []factory.AliasTarget, fallback bool) {
		for _, t := range targets {
			args = append(args, a.ID, t.DeploymentID, fallback, len(args)/columns, t.Weight)
		}
	}
	add(a.Targets, false)
	add(a.Fallbacks, true)
	if len(args) == 0 {
		return nil
	}
	return s.exec(ctx, "alias target", nil, `INSERT INTO alias_targets (alias_id, deployment_id, fallback, position, weight)
		VALUES `+rowsOf(len(args)/columns, columns), args...)
}

// lockNames makes changes of the names that clients send, and of where they lead,
// wait for each other: two tables hold those names, and no constraint spans both.
// It comes first in a transaction, before any row is locked.
func (s *Store) lockNames(ctx context.Context) error {
	if s.driver != driverPostgres {
		return nil // the transaction has the database to itself
	}
	return s.exec(ctx, "alias", nil, `LOCK TABLE aliases IN SHARE ROW EXCLUSIVE MODE`)
}

// checkAlias refuses a name that leads somewhere already, and targets that are gone.
func (s *Store) checkAlias(ctx context.Context, a factory.Alias) error {
	if err := s.lockNames(ctx); err != nil {
		return err
	}
	errs := factory.FieldErrors{}
	users, err := all(ctx, s, s.q, "deployment", scanText,
		`SELECT name FROM deployments WHERE public_name = ? AND deleted_at IS NULL`, a.Name)
	if err != nil {
		return err
	}
	for _, name := range users {
		errs.Add("name", "Clients reach deployment "+name+" as “"+a.Name+"” already. Choose another name.")
	}
	if err := s.checkTargets(ctx, errs, "targets", a.Targets); err != nil {
		return err
	}
	if err := s.checkTargets(ctx, errs, "fallbacks", a.Fallbacks); err != nil {
		return err
	}
	return errs.Err()
}

// checkTargets reports targets that are gone into errs. A deleted deployment keeps
// its row, so that no foreign key tells.
func (s *Store) checkTargets(ctx context.Context, errs factory.FieldErrors, field string, targets []factory.AliasTarget) error {
	if len(targets) == 0 {
		return nil
	}
	var ids []any
	for _, t := range targets {
		ids = append(ids, t.DeploymentID)
	}
	live, err := all(ctx, s, s.q, "deployment", scanText,
		`SELECT id FROM deployments WHERE deleted_at IS NULL AND id IN `+rowsOf(1, len(ids)), ids...)
	for _, t := range targets {
		if !slices.Contains(live, t.DeploymentID) {
			errs.Add(field, "Deployment "+cmp.Or(t.Deployment, t.DeploymentID)+" does not exist any more. Choose another one.")
		}
	}
	return err
}

// checkPublicName refuses a deployment's public name that is an alias.
func (s *Store) checkPublicName(ctx context.Context, d factory.Deployment) error {
	if err := s.lockNames(ctx); err != nil {
		return err
	}
	n, err := one(ctx, s, s.q, "alias", noAlias, scanCount, `SELECT COUNT(*) FROM aliases WHERE name = ?`, d.PublicName)
	if err == nil && n > 0 {
		return factory.FieldErrors{"public_name": "“" + d.PublicName + "” is an alias. Choose another public name, or give the alias another name first."}
	}
	return err
}

// checkNoAlias refuses to take a deployment away while aliases lead to it: where
// their traffic goes then is for people to say.
func (s *Store) checkNoAlias(ctx context.Context, deploymentID string) error {
	if err := s.lockNames(ctx); err != nil {
		return err
	}
	names, err := all(ctx, s, s.q, "alias", scanText,
		`SELECT a.name FROM aliases a JOIN alias_targets x ON x.alias_id = a.id WHERE x.deployment_id = ? ORDER BY a.name`, deploymentID)
	switch {
	case len(names) == 1:
		err = factory.Errorf(factory.Conflict, "The alias %s leads to this deployment. Take it out of the alias first.", names[0])
	case len(names) > 1:
		err = factory.Errorf(factory.Conflict, "The aliases %s lead to this deployment. Take it out of them first.", strings.Join(names, ", "))
	}
	return err
}
