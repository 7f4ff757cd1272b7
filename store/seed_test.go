package store_test

import (
	"context"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
)

// start is when the tests' world begins; whole seconds keep expectations readable.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// world is one of everything, made the way that operators make it.
type world struct {
	s          *store.Store
	cluster    factory.Cluster
	endpoint   factory.Endpoint
	provider   factory.Provider
	llm        factory.LLM
	acme       factory.Tenant
	globex     factory.Tenant
	ada        factory.User
	deployment factory.Deployment
	token      string // secret of a join token with plenty of uses
}

func seed(t *testing.T, s *store.Store) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{
		s:        s,
		cluster:  factory.Cluster{ID: "c1", Name: "desk", Description: "one Spark", CreatedAt: start},
		endpoint: factory.Endpoint{ID: "e1", Name: "chat", Hostname: "llm.example.org", ClusterID: "c1", ClusterName: "desk", CreatedAt: start},
		provider: factory.Provider{ID: "p1", Name: "qwen", Description: "Qwen", Website: "https://qwen.ai", CreatedAt: start},
		llm: factory.LLM{ID: "m1", Name: "qwen2-0.5b", ProviderID: "p1", ProviderName: "qwen", CreatedAt: start, ModelSpec: factory.ModelSpec{
			Provider: "qwen", Source: factory.SourceHuggingFace, Location: "Qwen/Qwen2-0.5B-Instruct", Description: "tiny", ContextLength: 32768,
			Parameters: 0.494, WeightBits: 16, Layers: 24, KVHeads: 2, HeadSize: 64}},
		acme:   factory.Tenant{ID: "t1", Name: "acme", Title: "Acme", CreatedAt: start},
		globex: factory.Tenant{ID: "t2", Name: "globex", Title: "Globex", CreatedAt: start},
		ada:    factory.User{ID: "u1", Email: "ada@example.org", Name: "Ada", PasswordHash: "x", Operator: true, CreatedAt: start},
	}
	w.deployment = w.newDeployment("d1", "small")
	secret, hash := factory.NewSecret(factory.PrefixJoin)
	w.token = secret
	for _, err := range []error{
		s.CreateCluster(ctx, w.cluster),
		s.CreateEndpoint(ctx, w.endpoint),
		s.CreateProvider(ctx, w.provider),
		s.CreateLLM(ctx, w.llm),
		s.CreateTenant(ctx, w.acme),
		s.CreateTenant(ctx, w.globex),
		s.CreateUser(ctx, w.ada),
		s.CreateDeployment(ctx, w.deployment),
		s.CreateJoinToken(ctx, factory.JoinToken{ID: "j1", ClusterID: "c1", Hash: hash, MaxUses: 100, ExpiresAt: start.Add(24 * time.Hour), CreatedAt: start}),
	} {
		if err != nil {
			t.Fatalf("seed: %v", err)
		}
	}
	return w
}

func (w *world) newDeployment(id, name string) factory.Deployment {
	d := factory.Deployment{
		ID: id, Name: name, ModelID: w.llm.ID, EndpointID: w.endpoint.ID, ClusterID: w.cluster.ID, LLM: w.llm,
		DeploymentSpec: factory.DeploymentSpec{
			Model: w.llm.Name, Endpoint: w.endpoint.Name, Cluster: w.cluster.Name, PublicName: "public/" + name, Engine: "vllm",
			EngineArgs: []string{"--max-num-seqs", "8"}, EngineEnv: map[string]string{"A": "1"}, GPU: "NVIDIA GB10", GPUCount: 1, Replicas: 2,
			PrefixCaching: true, Limits: factory.Limits{RequestsPerMinute: 60}, Workload: factory.Interactive, TTFTTargetMS: 300, ITLTargetMS: 40,
			Currency: "USD", InputPrice: "0.15", CachedInputPrice: "0.03", OutputPrice: "0.60", Tenants: []string{"acme"},
		},
		Revision: 1, CreatedAt: start, UpdatedAt: start, TenantIDs: []string{w.acme.ID},
	}
	p := d.DeploymentSpec.Price()
	p.ID, p.DeploymentID, p.ValidFrom = "price-"+id, id, start
	d.Price = &p
	return d
}

// join makes a machine of the cluster, heard of at that moment.
func (w *world) join(t *testing.T, host, identity string, at time.Time) factory.Node {
	t.Helper()
	n, err := w.tryJoin(t.Context(), host, identity, "192.0.2.1", at)
	if err != nil {
		t.Fatalf("join %s: %v", host, err)
	}
	return n
}

func (w *world) tryJoin(ctx context.Context, host, identity, address string, at time.Time) (factory.Node, error) {
	_, hash := factory.NewSecret(factory.PrefixAgent)
	memory := int64(128 << 30)
	return w.s.RedeemJoinToken(ctx, factory.HashSecret(w.token), factory.Node{
		Name: host, Identity: identity, CredentialHash: hash, Address: address, AgentVersion: "1", Runtime: "process",
		Hardware: factory.Hardware{Hostname: host, Arch: "arm64", CPUCores: 20, GPUs: []factory.GPU{{UUID: "GPU-" + identity, Name: "NVIDIA GB10", MemoryBytes: &memory, Unified: true}}},
	}, at)
}

func (w *world) place(t *testing.T, id, nodeID string) factory.Replica {
	t.Helper()
	r := factory.Replica{ID: id, DeploymentID: w.deployment.ID, NodeID: nodeID, GPUUUIDs: []string{"GPU-x"}, Revision: 1,
		State: factory.Pending, Reason: "Waiting for its machine.", CreatedAt: start, UpdatedAt: start}
	if err := w.s.CreateReplica(t.Context(), r); err != nil {
		t.Fatalf("create replica: %v", err)
	}
	return r
}

// must fails the test on an error and passes the value on.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, want factory.Kind) {
	t.Helper()
	if err == nil || factory.KindOf(err) != want {
		t.Fatalf("got %v, want kind %s", err, want)
	}
}
