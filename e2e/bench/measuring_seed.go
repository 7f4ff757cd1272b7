//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/web/session"
)

// The factory that pages are measured on. Hours are there of every deployment. Finer
// buckets are there of those that are opened: of all they would be hundreds of millions.
const (
	seedDeployments = 1000
	seedOpened      = 12 // of them every second has two replicas
	seedNodes       = 500
	seedClusters    = 20
	seedTenants     = 20
	seedDays        = 30
	seedUsageDays   = 90
)

const (
	benchEmail    = "bench@example.org"
	benchPassword = "a password for the bench"
	benchSetting  = "bench_world"
)

// world is what was seeded. Pages are asked for as of the moment of the seed, so that a
// file can be used again.
type world struct {
	At     time.Time        `json:"at"`
	Opened []string         `json:"opened"` // deployments with buckets of every resolution
	All    []string         `json:"all"`
	Rows   map[string]int64 `json:"rows"`
}

// openWorld opens a store that was seeded, or seeds it when it is empty.
func openWorld(ctx context.Context, address string, say func(string, ...any)) (*store.Store, world, error) {
	st, err := store.Open(ctx, address)
	if err != nil {
		return nil, world{}, err
	}
	text, err := st.Setting(ctx, benchSetting)
	if err == nil {
		var w world
		return st, w, json.Unmarshal([]byte(text), &w)
	}
	deployments, err := st.AllDeployments(ctx)
	if err != nil || len(deployments) > 0 {
		return nil, world{}, fmt.Errorf("this database is not empty and was not made by the bench (%w); give one of its own", err)
	}
	w, err := seedWorld(ctx, st, address, say)
	return st, w, err
}

func seedWorld(ctx context.Context, st *store.Store, address string, say func(string, ...any)) (world, error) {
	s := &seeder{st: st, now: factory.Now().Truncate(time.Hour).Add(37 * time.Minute), world: world{Rows: map[string]int64{}}}
	s.world.At = s.now
	begun := time.Now()
	for _, part := range []func(context.Context) error{s.people, s.machines, s.deployments, s.keys} {
		if err := part(ctx); err != nil {
			return world{}, err
		}
	}
	b, err := openBulk(address)
	if err != nil {
		return world{}, err
	}
	defer b.db.Close()
	b.say = say
	var templates [][]metrics.Bucket
	for i, t := range traffics {
		templates = append(templates, templateBuckets(t, uint64(i), s.now, seedDays))
	}
	var gpu []metrics.Bucket
	for _, r := range metrics.Resolutions {
		gpu = append(gpu, gpuBuckets(s.now, r.Step, min(r.Keep, seedDays*24*time.Hour))...)
	}
	if err := b.prepare(ctx, append(templates, gpu), s.owners); err != nil {
		return world{}, err
	}
	say("The nouns and templates are there after %s; now the buckets.", time.Since(begun).Round(time.Second))
	if err := b.withoutIndexes(ctx, "metric_buckets", func() error { return b.copyBuckets(ctx) }); err != nil {
		return world{}, err
	}
	if err := b.withoutIndexes(ctx, "usage_rollups", func() error { return b.usage(ctx, s.uses, s.now) }); err != nil {
		return world{}, err
	}
	if err := b.finish(ctx); err != nil {
		return world{}, err
	}
	if s.world.Rows, err = b.counts(ctx); err != nil {
		return world{}, err
	}
	text, err := json.Marshal(s.world)
	if err != nil {
		return world{}, err
	}
	say("Seeded after %s.", time.Since(begun).Round(time.Second))
	return s.world, st.SaveSetting(ctx, benchSetting, string(text))
}

// seeder makes the nouns by way of the store.
type seeder struct {
	st       *store.Store
	now      time.Time
	world    world
	clusters []factory.Cluster
	llm      factory.LLM
	endpoint factory.Endpoint
	nodes    []factory.Node
	tenants  []factory.Tenant
	list     []factory.Deployment
	owners   []owner
	uses     []use
}

// use is a key that uses a deployment.
type use struct{ tenant, key, deployment, price string }

func (s *seeder) people(ctx context.Context) error {
	hash, err := session.HashPassword(benchPassword)
	if err != nil {
		return err
	}
	if err := s.st.CreateUser(ctx, factory.User{ID: factory.NewID(), Email: benchEmail, PasswordHash: hash, Operator: true, CreatedAt: s.now}); err != nil {
		return err
	}
	for i := range seedTenants {
		t := factory.Tenant{ID: factory.NewID(), Name: fmt.Sprintf("tenant-%02d", i), Title: fmt.Sprintf("Tenant %d", i), CreatedAt: s.now}
		if err := s.st.CreateTenant(ctx, t); err != nil {
			return err
		}
		s.tenants = append(s.tenants, t)
	}
	return nil
}

func (s *seeder) machines(ctx context.Context) error {
	memory, used, busy, heat := int64(85899345920), int64(71000000000), 70.0, 68.0
	for i := range seedClusters {
		c := factory.Cluster{ID: factory.NewID(), Name: fmt.Sprintf("rack-%02d", i), CreatedAt: s.now}
		secret, hash := factory.NewSecret(factory.PrefixJoin)
		if err := s.st.CreateCluster(ctx, c); err != nil {
			return err
		}
		err := s.st.CreateJoinToken(ctx, factory.JoinToken{ID: factory.NewID(), ClusterID: c.ID, Hash: hash, MaxUses: seedNodes, ExpiresAt: s.now.Add(time.Hour), CreatedAt: s.now})
		if err != nil {
			return err
		}
		s.clusters = append(s.clusters, c)
		for j := range seedNodes / seedClusters {
			name := fmt.Sprintf("node-%02d-%02d", i, j)
			_, credential := factory.NewSecret(factory.PrefixAgent)
			n, err := s.st.RedeemJoinToken(ctx, factory.HashSecret(secret), factory.Node{
				ID: factory.NewID(), Name: name, Identity: name, CredentialHash: credential, Address: "192.0.2.1", AgentVersion: "1", Runtime: "container",
				Hardware: factory.Hardware{Hostname: name, Arch: "amd64", OS: "Ubuntu 24.04", CPUModel: "EPYC", CPUCores: 64, MemoryBytes: 1 << 40, Driver: "580", CUDA: "13.0",
					GPUs:    []factory.GPU{{UUID: "GPU-" + name, Name: "NVIDIA H100", ComputeCap: "9.0", MemoryBytes: &memory, UsedBytes: &used, Utilisation: &busy, Temperature: &heat}},
					Engines: []factory.EngineCheck{{Engine: "vllm", OK: true, Version: "0.13"}}},
			}, s.now)
			if err != nil {
				return err
			}
			s.nodes = append(s.nodes, n)
			s.owners = append(s.owners, owner{deployment: n.ID, replica: "GPU-" + name, template: len(traffics), finest: 3600})
		}
	}
	return nil
}

func (s *seeder) deployments(ctx context.Context) error {
	provider := factory.Provider{ID: factory.NewID(), Name: "qwen", CreatedAt: s.now}
	s.llm = factory.LLM{ID: factory.NewID(), Name: "qwen3-8b", ProviderID: provider.ID, ProviderName: provider.Name, CreatedAt: s.now, ModelSpec: factory.ModelSpec{
		Provider: provider.Name, Source: factory.SourceHuggingFace, Location: "Qwen/Qwen3-8B", ContextLength: 40960, Parameters: 8.2, WeightBits: 16, Layers: 36, KVHeads: 8, HeadSize: 128}}
	s.endpoint = factory.Endpoint{ID: factory.NewID(), Name: "public", ClusterID: s.clusters[0].ID, CreatedAt: s.now}
	for _, err := range []error{s.st.CreateProvider(ctx, provider), s.st.CreateLLM(ctx, s.llm), s.st.CreateEndpoint(ctx, s.endpoint)} {
		if err != nil {
			return err
		}
	}
	for i := range seedDeployments {
		d := s.deployment(i)
		if err := s.st.CreateDeployment(ctx, d); err != nil {
			return err
		}
		s.list = append(s.list, d)
		s.world.All = append(s.world.All, d.ID)
		opened := i < seedOpened
		replicas, finest := 1, int64(3600)
		if opened {
			replicas, finest = 1+i%2, 10
			s.world.Opened = append(s.world.Opened, d.ID)
		}
		for j := range replicas {
			if err := s.replica(ctx, d, i, j, finest); err != nil {
				return err
			}
		}
		for j := 0; opened && j < 12; j++ {
			e := factory.Event{DeploymentID: d.ID, Kind: factory.EventRestart, Text: "A replica started anew.", At: s.now.Add(-time.Duration(j*j*5) * time.Hour)}
			e.ID = factory.NewOrderedID(e.At)
			if err := s.st.RecordEvent(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *seeder) deployment(i int) factory.Deployment {
	name := fmt.Sprintf("model-%04d", i)
	began := s.now.AddDate(0, 0, -seedUsageDays)
	d := factory.Deployment{
		ID: factory.NewID(), Name: name, ModelID: s.llm.ID, EndpointID: s.endpoint.ID, ClusterID: s.clusters[i%seedClusters].ID, LLM: s.llm,
		DeploymentSpec: factory.DeploymentSpec{
			Model: s.llm.Name, Endpoint: s.endpoint.Name, Cluster: s.clusters[i%seedClusters].Name, PublicName: "bench/" + name, Engine: "vllm",
			GPUCount: 1, Replicas: 1, Workload: factory.Interactive, TTFTTargetMS: 500, ITLTargetMS: 50,
			Currency: "USD", InputPrice: "0.15", CachedInputPrice: "0.03", OutputPrice: "0.60", SharedWithAll: true,
		},
		Revision: 1, CreatedAt: began, UpdatedAt: began, TargetsAt: began,
	}
	p := d.DeploymentSpec.Price()
	p.ID, p.DeploymentID, p.ValidFrom = factory.NewID(), d.ID, began
	d.Price = &p
	return d
}

func (s *seeder) replica(ctx context.Context, d factory.Deployment, i, j int, finest int64) error {
	at := (i + j) % seedNodes
	ready := s.now.AddDate(0, 0, -seedDays)
	r := factory.Replica{
		ID: factory.NewID(), DeploymentID: d.ID, NodeID: s.nodes[at].ID, GPUUUIDs: []string{s.nodes[at].Hardware.GPUs[0].UUID}, Revision: 1,
		State: factory.Ready, Reason: "It serves.", URL: "http://192.0.2.1:8000", ServedName: d.LLM.Location, StartedAt: &ready, ReadyAt: &ready, CreatedAt: ready, UpdatedAt: s.now,
	}
	s.owners = append(s.owners, owner{deployment: d.ID, replica: r.ID, template: i % len(traffics), finest: finest})
	if finest < 3600 {
		n := slices.IndexFunc(s.owners, func(o owner) bool { return o.deployment == r.NodeID })
		s.owners[n].finest = finest
	}
	return s.st.CreateReplica(ctx, r)
}

// keys gives tenants two keys each. The first of all uses every deployment that is opened, and all
// of them use some others, which is what the usage page has to add up.
func (s *seeder) keys(ctx context.Context) error {
	for i, t := range s.tenants {
		for j := range 2 {
			_, hash := factory.NewSecret(factory.PrefixKey)
			k := factory.Key{ID: factory.NewID(), TenantID: t.ID, Name: fmt.Sprintf("key-%d", j), Prefix: "tf-…", Hash: hash, Scope: factory.ScopeInference, CreatedBy: benchEmail, CreatedAt: s.now}
			if err := s.st.CreateKey(ctx, k); err != nil {
				return err
			}
			for n := range 10 {
				d := s.list[(i*10+j*5+n)%len(s.list)]
				s.uses = append(s.uses, use{t.ID, k.ID, d.ID, d.Price.ID})
			}
			for n := 0; i+j == 0 && n < seedOpened; n++ {
				s.owners = append(s.owners, owner{deployment: s.list[n].ID, tenant: t.ID, key: k.ID, template: n % len(traffics), finest: 60})
			}
		}
	}
	return nil
}

// usage fills the sums of the ledger: every use in every fourth quarter of an hour.
func (b *bulk) usage(ctx context.Context, uses []use, now time.Time) error {
	const quarter = 15 * time.Minute
	if err := b.run(ctx, `DROP TABLE IF EXISTS bench_uses`); err != nil {
		return err
	}
	if err := b.run(ctx, `CREATE TABLE bench_uses (n BIGINT, tenant_id TEXT, key_id TEXT, deployment_id TEXT, price_id TEXT)`); err != nil {
		return err
	}
	var rows [][]any
	for i, u := range uses {
		rows = append(rows, []any{i, u.tenant, u.key, u.deployment, u.price})
	}
	if err := b.insert(ctx, "bench_uses", rows); err != nil {
		return err
	}
	tx, err := b.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	n := 0
	for at := now.AddDate(0, 0, -seedUsageDays).Truncate(quarter); at.Before(now); at = at.Add(quarter) {
		_, err := tx.ExecContext(ctx, tx.Rebind(`INSERT INTO usage_rollups (quarter_us, tenant_id, key_id, deployment_id, price_id, requests, prompt_tokens, cached_tokens, completion_tokens, estimated, aborted)
			SELECT CAST(? AS BIGINT), tenant_id, key_id, deployment_id, price_id, 12, 3600, 900, 1500, 0, 0 FROM bench_uses WHERE n % 4 = CAST(? AS BIGINT)`), at.UnixMicro(), n%4)
		if err != nil {
			return err
		}
		n++
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO usage_days (day_us, tenant_id, key_id, deployment_id, price_id, requests, prompt_tokens, cached_tokens, completion_tokens)
		SELECT quarter_us - quarter_us % 86400000000, tenant_id, key_id, deployment_id, price_id, SUM(requests), SUM(prompt_tokens), SUM(cached_tokens), SUM(completion_tokens)
		FROM usage_rollups GROUP BY 1, 2, 3, 4, 5`)
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return b.run(ctx, `DROP TABLE bench_uses`)
}

// databaseName is how reports call a database.
func databaseName(address string) string {
	if strings.HasPrefix(address, "sqlite:") {
		return "SQLite"
	}
	return "PostgreSQL"
}
