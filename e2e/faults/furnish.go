package faults

import (
	"context"
	"errors"
	"time"

	"tokenfactory/factory"
)

const (
	model        = "small"
	deploymentID = "deployment"
	replicaID    = "replica"
	card         = "GPU-1"
)

// furnish makes one of every noun, joins the machine and has its engine serve.
func (p *Plant) furnish(ctx context.Context) error {
	now := p.clock.Now()
	llm := factory.LLM{ID: "model", Name: model, ProviderID: "provider", ProviderName: "provider", CreatedAt: now,
		ModelSpec: factory.ModelSpec{Provider: "provider", Source: factory.SourceHuggingFace, Location: model, ContextLength: 32768}}
	d := factory.Deployment{
		ID: deploymentID, Name: "chat", ModelID: llm.ID, EndpointID: "endpoint", ClusterID: "cluster", LLM: llm, Revision: 1, CreatedAt: now, UpdatedAt: now,
		DeploymentSpec: factory.DeploymentSpec{
			Model: llm.Name, Endpoint: "endpoint", Cluster: "cluster", PublicName: model, Engine: "sim", GPUCount: 1, Replicas: 1,
			Workload: factory.Interactive, TTFTTargetMS: int(ttftTarget.Milliseconds()), ITLTargetMS: int(itlTarget.Milliseconds()),
			Objectives: factory.Objectives{ObjectivePercent: objective}, Free: true, SharedWithAll: true,
		},
	}
	price := d.DeploymentSpec.Price()
	price.ID, price.DeploymentID, price.ValidFrom = "price", d.ID, now
	d.Price = &price
	secret, hash := factory.NewSecret(factory.PrefixKey)
	p.key = secret
	token, tokenHash := factory.NewSecret(factory.PrefixJoin)
	if err := errors.Join(
		p.Store.CreateCluster(ctx, factory.Cluster{ID: "cluster", Name: "cluster", CreatedAt: now}),
		p.Store.CreateEndpoint(ctx, factory.Endpoint{ID: "endpoint", Name: "endpoint", Hostname: "llm.example.org", ClusterID: "cluster", CreatedAt: now}),
		p.Store.CreateProvider(ctx, factory.Provider{ID: "provider", Name: "provider", CreatedAt: now}),
		p.Store.CreateLLM(ctx, llm),
		p.Store.CreateTenant(ctx, factory.Tenant{ID: "tenant", Name: "acme", Title: "Acme", CreatedAt: now}),
		p.Store.CreateKey(ctx, factory.Key{ID: "key", TenantID: "tenant", Name: "app", Prefix: secret[:8], Hash: hash, Scope: factory.ScopeInference, CreatedAt: now}),
		p.Store.CreateDeployment(ctx, d),
		p.Store.CreateJoinToken(ctx, factory.JoinToken{ID: "token", ClusterID: "cluster", Hash: tokenHash, MaxUses: 1, ExpiresAt: now.Add(time.Hour), CreatedAt: now}),
	); err != nil {
		return err
	}
	node, err := p.machine.join(ctx, p.server.URL, token)
	if err != nil {
		return err
	}
	if err := p.Store.CreateReplica(ctx, factory.Replica{ID: replicaID, DeploymentID: d.ID, NodeID: node, GPUUUIDs: []string{card}, Revision: 1,
		State: factory.Pending, CreatedAt: now, UpdatedAt: now}); err != nil {
		return err
	}
	return p.Pass(ctx, 0)
}

// Tell has pages sent to a webhook.
func (p *Plant) Tell(ctx context.Context, url, secret string) error {
	now := p.clock.Now()
	return p.Store.CreateChannel(ctx, factory.Channel{
		ID: "channel", Name: "on call", Kind: factory.ChannelWebhook, Settings: factory.ChannelSettings{URL: url, Secret: secret, Private: true},
		Severities: []factory.Severity{factory.Page}, Enabled: true, CreatedAt: now, UpdatedAt: now,
	})
}
