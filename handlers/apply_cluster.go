package handlers

import (
	"context"
	"strconv"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
)

// A join token lives long enough to walk to the machine, and serves a small rack.
const (
	JoinTokenLife = 24 * time.Hour
	JoinTokenUses = 10
)

// Cluster creates or changes a cluster. A new one comes with a join token.
func (a *Apply) Cluster(ctx context.Context, tx *store.Store, name string, spec factory.ClusterSpec) (Result, error) {
	errs := factory.FieldErrors{}
	factory.CheckName(errs, "name", name)
	if len(spec.Description) > 500 {
		errs.Add("description", "Use at most 500 characters.")
	}
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	c, err := tx.ClusterByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	if exists {
		if c.Description == spec.Description {
			return Result{Outcome: Unchanged, ID: c.ID}, nil
		}
		c.Description = spec.Description
		return Result{Outcome: Changed, ID: c.ID}, tx.SaveCluster(ctx, c)
	}
	c = factory.Cluster{ID: factory.NewID(), Name: name, Description: spec.Description, CreatedAt: a.now()}
	if err := tx.CreateCluster(ctx, c); err != nil {
		return Result{}, err
	}
	_, secret, err := a.JoinToken(ctx, tx, c.ID)
	return Result{Outcome: Created, ID: c.ID, Secrets: map[string]string{SecretJoinToken: secret}}, err
}

// JoinToken makes a token that machines join a cluster with, and its secret.
func (a *Apply) JoinToken(ctx context.Context, tx *store.Store, clusterID string) (factory.JoinToken, string, error) {
	secret, hash := factory.NewSecret(factory.PrefixJoin)
	now := a.now()
	t := factory.JoinToken{
		ID: factory.NewID(), ClusterID: clusterID, Hash: hash, MaxUses: JoinTokenUses,
		ExpiresAt: now.Add(JoinTokenLife), CreatedAt: now,
	}
	return t, secret, tx.CreateJoinToken(ctx, t)
}

// Endpoint creates or changes an endpoint.
func (a *Apply) Endpoint(ctx context.Context, tx *store.Store, name string, spec factory.EndpointSpec) (Result, error) {
	errs := spec.Validate()
	factory.CheckName(errs, "name", name)
	cluster, err := lookUp(ctx, errs, "cluster", "cluster", spec.Cluster, tx.ClusterByName)
	if err != nil {
		return Result{}, err
	}
	e, err := tx.EndpointByName(ctx, name)
	exists, err := found(err)
	if err != nil {
		return Result{}, err
	}
	if exists && len(errs) == 0 && e.ClusterID != cluster.ID {
		behind, err := deploymentsBehind(ctx, tx, e.ID)
		if err != nil {
			return Result{}, err
		}
		if len(behind) > 0 {
			errs.Add("cluster", "Clients reach "+countOf(len(behind), "deployment")+" on cluster "+e.ClusterName+
				" through this endpoint. Move or delete "+oneOrThem(len(behind))+" first.")
		}
	}
	if spec.Hostname != "" && len(errs) == 0 {
		if err := hostnameFree(ctx, tx, errs, e.ID, spec.Hostname); err != nil {
			return Result{}, err
		}
	}
	if err := errs.Err(); err != nil {
		return Result{}, err
	}
	if exists {
		if e.Hostname == spec.Hostname && e.ClusterID == cluster.ID {
			return Result{Outcome: Unchanged, ID: e.ID}, nil
		}
		e.Hostname, e.ClusterID, e.ClusterName = spec.Hostname, cluster.ID, cluster.Name
		return Result{Outcome: Changed, ID: e.ID}, tx.SaveEndpoint(ctx, e)
	}
	e = factory.Endpoint{
		ID: factory.NewID(), Name: name, Hostname: spec.Hostname,
		ClusterID: cluster.ID, ClusterName: cluster.Name, CreatedAt: a.now(),
	}
	return Result{Outcome: Created, ID: e.ID}, tx.CreateEndpoint(ctx, e)
}

func hostnameFree(ctx context.Context, tx *store.Store, errs factory.FieldErrors, id, hostname string) error {
	all, err := tx.AllEndpoints(ctx)
	for _, o := range all {
		if o.Hostname == hostname && o.ID != id {
			errs.Add("hostname", "Endpoint "+o.Name+" has this host name already. A host name leads to one endpoint.")
		}
	}
	return err
}

func deploymentsBehind(ctx context.Context, tx *store.Store, endpointID string) ([]factory.Deployment, error) {
	return deploymentsWhere(ctx, tx, func(d factory.Deployment) bool { return d.EndpointID == endpointID })
}

func deploymentsWhere(ctx context.Context, tx *store.Store, want func(factory.Deployment) bool) ([]factory.Deployment, error) {
	all, err := tx.AllDeployments(ctx)
	var out []factory.Deployment
	for _, d := range all {
		if want(d) {
			out = append(out, d)
		}
	}
	return out, err
}

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func oneOrThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
