package store

import (
	"context"
	"slices"
	"time"

	"tokenfactory/factory"
)

const deploymentColumns = `id, name, model_id, endpoint_id, cluster_id, public_name, engine, address, engine_args, engine_env,
	gpu, gpu_count, replicas, context_length, prefix_caching, limits, replica_concurrency, workload, ttft_target_ms, itl_target_ms,
	shared_with_all, stopped, asleep, running_usage, revision, created_at, updated_at, objectives, targets_at`

// selectDeployments reads live deployments with the names that their spec holds,
// the model and the newest version of the price.
const selectDeployments = `SELECT d.id, d.name, d.model_id, d.endpoint_id, d.cluster_id, d.public_name, d.engine, d.address, d.engine_args, d.engine_env,
	d.gpu, d.gpu_count, d.replicas, d.context_length, d.prefix_caching, d.limits, d.replica_concurrency, d.workload, d.ttft_target_ms, d.itl_target_ms,
	d.shared_with_all, d.stopped, d.asleep, d.running_usage, d.revision, d.created_at, d.updated_at, d.objectives, d.targets_at, e.name, c.name,
	` + selectedPrice + `, ` + selectedLLM + `
	FROM deployments d
	JOIN endpoints e ON e.id = d.endpoint_id
	JOIN clusters c ON c.id = d.cluster_id
	JOIN models m ON m.id = d.model_id
	JOIN providers p ON p.id = m.provider_id
	JOIN prices v ON v.deployment_id = d.id AND v.version = (SELECT MAX(w.version) FROM prices w WHERE w.deployment_id = d.id)
	WHERE d.deleted_at IS NULL `

func scanDeployment(r row) (factory.Deployment, error) {
	d := factory.Deployment{Price: &factory.Price{}}
	dest := []any{&d.ID, &d.Name, &d.ModelID, &d.EndpointID, &d.ClusterID, &d.PublicName, &d.Engine, &d.Address, asJSON(&d.EngineArgs), asJSON(&d.EngineEnv),
		&d.GPU, &d.GPUCount, &d.Replicas, &d.ContextLength, &d.PrefixCaching, asJSON(&d.Limits), &d.ReplicaConcurrency, &d.Workload, &d.TTFTTargetMS, &d.ITLTargetMS,
		&d.SharedWithAll, &d.Stopped, &d.Asleep, &d.RunningUsage, &d.Revision, asTime(&d.CreatedAt), asTime(&d.UpdatedAt), asJSON(&d.Objectives), asTime(&d.TargetsAt), &d.Endpoint, &d.Cluster}
	dest = append(dest, priceDest(d.Price)...)
	dest = append(dest, llmDest(&d.LLM)...)
	if err := r.Scan(dest...); err != nil {
		return d, err
	}
	d.LLM.Provider = d.LLM.ProviderName
	d.Model = d.LLM.Name
	d.Free, d.Currency = d.Price.Free, d.Price.Currency
	if !d.Free {
		d.InputPrice, d.CachedInputPrice, d.OutputPrice = d.Price.Input, d.Price.CachedInput, d.Price.Output
	}
	return d, nil
}

const noDeployment = "There is no such deployment. It may have been deleted."

// Deployment reads a deployment by id.
func (s *Store) Deployment(ctx context.Context, id string) (factory.Deployment, error) {
	return s.deployment(ctx, noDeployment, `AND d.id = ?`, id)
}

// DeploymentByName reads a deployment by name.
func (s *Store) DeploymentByName(ctx context.Context, name string) (factory.Deployment, error) {
	return s.deployment(ctx, "There is no deployment named "+name+".", `AND d.name = ?`, name)
}

// FindDeployment reads the deployment that a person means: its id, its name or
// the model name that clients send, in this order.
func (s *Store) FindDeployment(ctx context.Context, ref string) (factory.Deployment, error) {
	return s.deployment(ctx, "There is no deployment "+ref+".",
		`AND (d.id = ? OR d.name = ? OR d.public_name = ?) ORDER BY CASE WHEN d.id = ? THEN 0 WHEN d.name = ? THEN 1 ELSE 2 END LIMIT 1`,
		ref, ref, ref, ref, ref)
}

func (s *Store) deployment(ctx context.Context, missing, where string, args ...any) (factory.Deployment, error) {
	d, err := one(ctx, s, s.r, "deployment", missing, scanDeployment, selectDeployments+where, args...)
	if err != nil {
		return d, err
	}
	shared, err := s.sharing(ctx, `AND x.deployment_id = ?`, d.ID)
	shared[d.ID].onto(&d)
	return d, err
}

// AllDeployments lists deployments by name.
func (s *Store) AllDeployments(ctx context.Context) ([]factory.Deployment, error) {
	out, err := all(ctx, s, s.r, "deployment", scanDeployment, selectDeployments+`ORDER BY d.name`)
	if err != nil {
		return nil, err
	}
	shared, err := s.sharing(ctx, ``)
	for i := range out {
		shared[out[i].ID].onto(&out[i])
	}
	return out, err
}

// DeploymentsOf lists the deployments that a tenant may use, by name. With whom
// else they are shared is not in them.
func (s *Store) DeploymentsOf(ctx context.Context, tenantID string) ([]factory.Deployment, error) {
	out, err := all(ctx, s, s.r, "deployment", scanDeployment, selectDeployments+
		`AND (d.shared_with_all = TRUE OR d.id IN (SELECT x.deployment_id FROM deployment_tenants x WHERE x.tenant_id = ?)) ORDER BY d.name`, tenantID)
	for i := range out {
		if !out[i].SharedWithAll {
			out[i].TenantIDs = []string{tenantID}
		}
	}
	return out, err
}

// DeploymentNames maps ids to names, of deleted deployments too: history needs them.
func (s *Store) DeploymentNames(ctx context.Context) (map[string]string, error) {
	return s.names(ctx, "deployment", `SELECT id, name FROM deployments`)
}

// PublicNames maps ids to the model names that clients send, of deleted deployments
// too: history needs them.
func (s *Store) PublicNames(ctx context.Context) (map[string]string, error) {
	return s.names(ctx, "deployment", `SELECT id, public_name FROM deployments`)
}

// shares are the tenants that a deployment is shared with, ids and names in equal order.
type shares struct{ ids, names []string }

func (x shares) onto(d *factory.Deployment) { d.TenantIDs, d.Tenants = x.ids, x.names }

func (s *Store) sharing(ctx context.Context, where string, args ...any) (map[string]shares, error) {
	rows, err := all(ctx, s, s.r, "sharing", func(r row) ([3]string, error) {
		var x [3]string
		return x, r.Scan(&x[0], &x[1], &x[2])
	}, `SELECT x.deployment_id, x.tenant_id, t.name FROM deployment_tenants x
		JOIN tenants t ON t.id = x.tenant_id WHERE t.deleted_at IS NULL `+where+` ORDER BY t.name`, args...)
	out := map[string]shares{}
	for _, x := range rows {
		of := out[x[0]]
		out[x[0]] = shares{append(of.ids, x[1]), append(of.names, x[2])}
	}
	return out, err
}

func taken(d factory.Deployment) []unique {
	return []unique{{"name", d.Name}, {"public_name", d.PublicName}}
}

// CreateDeployment adds a deployment with its price and the tenants it is shared with.
func (s *Store) CreateDeployment(ctx context.Context, d factory.Deployment) error {
	if d.Price == nil {
		return factory.FieldErrors{"input_price": "Give a price, or choose free."}
	}
	return s.InTx(ctx, func(tx *Store) error {
		if err := tx.checkPublicName(ctx, d); err != nil {
			return err
		}
		err := tx.exec(ctx, "deployment", taken(d), insert("deployments", deploymentColumns),
			d.ID, d.Name, d.ModelID, d.EndpointID, d.ClusterID, d.PublicName, d.Engine, d.Address, toJSON(d.EngineArgs), toJSON(d.EngineEnv),
			d.GPU, d.GPUCount, d.Replicas, d.ContextLength, d.PrefixCaching, toJSON(d.Limits.WithDefaults()), d.ReplicaConcurrency, d.Workload, d.TTFTTargetMS, d.ITLTargetMS,
			d.SharedWithAll, d.Stopped, d.Asleep, d.RunningUsage, d.Revision, micros(d.CreatedAt), micros(d.UpdatedAt), toJSON(d.Objectives), micros(d.TargetsAt))
		if err != nil {
			return err
		}
		if err := tx.createPrice(ctx, d); err != nil {
			return err
		}
		if err := tx.share(ctx, d); err != nil {
			return err
		}
		return tx.record(ctx, d.ID, factory.EventDeploy, "Deployed with "+d.Engine+".", d.CreatedAt)
	})
}

// SaveDeployment writes a deployment and with whom it is shared; another price
// becomes a new version. Whether it is stopped or asleep is changed by methods of
// their own only, so that an edit never undoes a stop that came between. What was
// learned about the engine is forgotten with its revision.
func (s *Store) SaveDeployment(ctx context.Context, d factory.Deployment) error {
	return s.InTx(ctx, func(tx *Store) error {
		// It lets one edit at a time through, so that nothing changes after this is read.
		if err := tx.checkPublicName(ctx, d); err != nil {
			return err
		}
		old, err := tx.Deployment(ctx, d.ID)
		if err != nil {
			return err
		}
		// Before the price, because it locks the row: two edits must not make one version.
		err = tx.change(ctx, "deployment", noDeployment, taken(d),
			`UPDATE deployments SET name = ?, model_id = ?, endpoint_id = ?, cluster_id = ?, public_name = ?, engine = ?, address = ?, engine_args = ?, engine_env = ?,
			gpu = ?, gpu_count = ?, replicas = ?, context_length = ?, prefix_caching = ?, limits = ?, replica_concurrency = ?, workload = ?, ttft_target_ms = ?, itl_target_ms = ?,
			shared_with_all = ?, running_usage = CASE WHEN revision = ? THEN running_usage ELSE '' END, revision = ?, updated_at = ?, objectives = ?, targets_at = ?
			WHERE id = ? AND deleted_at IS NULL`,
			d.Name, d.ModelID, d.EndpointID, d.ClusterID, d.PublicName, d.Engine, d.Address, toJSON(d.EngineArgs), toJSON(d.EngineEnv),
			d.GPU, d.GPUCount, d.Replicas, d.ContextLength, d.PrefixCaching, toJSON(d.Limits.WithDefaults()), d.ReplicaConcurrency, d.Workload, d.TTFTTargetMS, d.ITLTargetMS,
			d.SharedWithAll, d.Revision, d.Revision, micros(d.UpdatedAt), toJSON(d.Objectives), micros(d.TargetsAt), d.ID)
		if err != nil {
			return err
		}
		if err := tx.savePrice(ctx, d); err != nil {
			return err
		}
		if err := tx.exec(ctx, "sharing", nil, `DELETE FROM deployment_tenants WHERE deployment_id = ?`, d.ID); err != nil {
			return err
		}
		if err := tx.share(ctx, d); err != nil {
			return err
		}
		saved, err := tx.Deployment(ctx, d.ID)
		if err != nil {
			return err
		}
		return tx.recordChanges(ctx, old, saved)
	})
}

func (s *Store) share(ctx context.Context, d factory.Deployment) error {
	ids := slices.Clone(d.TenantIDs)
	slices.Sort(ids)
	return inChunks(slices.Compact(ids), func(part []string) error {
		var args []any
		for _, id := range part {
			args = append(args, d.ID, id)
		}
		return s.exec(ctx, "deployment", nil,
			`INSERT INTO deployment_tenants (deployment_id, tenant_id) VALUES `+rowsOf(len(part), 2), args...)
	})
}

// SetDeploymentStopped stops a deployment or lets it start. Either ends its sleep: no
// request wakes what is stopped, and what is started serves.
func (s *Store) SetDeploymentStopped(ctx context.Context, id string, stopped bool) error {
	return s.switchDeployment(ctx, id, func(_, _ bool) (bool, bool, string, error) {
		if stopped {
			return true, false, "Stopped.", nil
		}
		return false, false, "Started.", nil
	})
}

// SleepDeployment lets go of a deployment's machines until the next request.
func (s *Store) SleepDeployment(ctx context.Context, id string) error {
	return s.switchDeployment(ctx, id, func(stopped, _ bool) (bool, bool, string, error) {
		if stopped {
			return true, false, "", factory.Errorf(factory.Conflict, "The deployment is stopped and holds no machine already. Start it to let requests wake it.")
		}
		return false, true, "Put to sleep.", nil
	})
}

// WakeDeployment ends a deployment's sleep. One that is awake, stopped or gone by now
// stays as it is: of many gateways that ask, the first wakes it.
func (s *Store) WakeDeployment(ctx context.Context, id string) error {
	err := s.switchDeployment(ctx, id, func(stopped, _ bool) (bool, bool, string, error) {
		return stopped, false, "Woken.", nil
	})
	if factory.KindOf(err) == factory.NotFound {
		return nil
	}
	return err
}

// SetRunningUsage keeps whether the engine of a deployment's revision puts running
// counts on its events. What is told late, of another revision or of a deployment that
// is gone, changes nothing.
func (s *Store) SetRunningUsage(ctx context.Context, deploymentID string, revision int, learned factory.Learned) error {
	return s.exec(ctx, "deployment", nil,
		`UPDATE deployments SET running_usage = ? WHERE id = ? AND revision = ? AND deleted_at IS NULL`, learned, deploymentID, revision)
}

// DeleteDeployment takes a deployment out of service: its names become free, its
// replicas have to stop, and its usage, prices and name stay for history.
func (s *Store) DeleteDeployment(ctx context.Context, id string, now time.Time) error {
	return s.InTx(ctx, func(tx *Store) error {
		if err := tx.checkNoAlias(ctx, id); err != nil {
			return err
		}
		err := tx.change(ctx, "deployment", noDeployment, nil,
			`UPDATE deployments SET deleted_at = ?, updated_at = ?, stopped = TRUE, asleep = FALSE, model_id = NULL, endpoint_id = NULL, cluster_id = NULL
			WHERE id = ? AND deleted_at IS NULL`, micros(now), micros(now), id)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, "sharing", nil, `DELETE FROM deployment_tenants WHERE deployment_id = ?`, id); err != nil {
			return err
		}
		// Locked in the order in which reports lock them.
		if _, err := all(ctx, tx, tx.q, "replica", scanText,
			`SELECT id FROM replicas WHERE deployment_id = ? ORDER BY id`+tx.forUpdate("replicas"), id); err != nil {
			return err
		}
		if err := tx.exec(ctx, "replica", nil, `UPDATE replicas SET stopping = TRUE WHERE deployment_id = ?`, id); err != nil {
			return err
		}
		return tx.record(ctx, id, factory.EventDeploy, "Deleted.", now)
	})
}
