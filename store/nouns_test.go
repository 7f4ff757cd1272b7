package store_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		same := func(name string, got, want any) {
			t.Helper()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
			}
		}
		same("cluster", must[factory.Cluster](t)(s.Cluster(ctx, "c1")), w.cluster)
		same("cluster by name", must[factory.Cluster](t)(s.ClusterByName(ctx, "desk")), w.cluster)
		same("clusters", must[[]factory.Cluster](t)(s.AllClusters(ctx)), []factory.Cluster{w.cluster})
		same("endpoint", must[factory.Endpoint](t)(s.Endpoint(ctx, "e1")), w.endpoint)
		same("endpoint by name", must[factory.Endpoint](t)(s.EndpointByName(ctx, "chat")), w.endpoint)
		same("endpoints", must[[]factory.Endpoint](t)(s.AllEndpoints(ctx)), []factory.Endpoint{w.endpoint})
		same("provider", must[factory.Provider](t)(s.Provider(ctx, "p1")), w.provider)
		same("provider by name", must[factory.Provider](t)(s.ProviderByName(ctx, "qwen")), w.provider)
		same("providers", must[[]factory.Provider](t)(s.AllProviders(ctx)), []factory.Provider{w.provider})
		same("model", must[factory.LLM](t)(s.LLM(ctx, "m1")), w.llm)
		same("model by name", must[factory.LLM](t)(s.LLMByName(ctx, "qwen2-0.5b")), w.llm)
		same("models", must[[]factory.LLM](t)(s.AllLLMs(ctx)), []factory.LLM{w.llm})
		same("tenant", must[factory.Tenant](t)(s.Tenant(ctx, "t1")), w.acme)
		same("tenant by name", must[factory.Tenant](t)(s.TenantByName(ctx, "acme")), w.acme)
		same("tenants", must[[]factory.Tenant](t)(s.AllTenants(ctx)), []factory.Tenant{w.acme, w.globex})
		same("user", must[factory.User](t)(s.User(ctx, "u1")), w.ada)
		same("user by e-mail", must[factory.User](t)(s.UserByEmail(ctx, "ada@example.org")), w.ada)
		same("users", must[[]factory.User](t)(s.AllUsers(ctx)), []factory.User{w.ada})
		same("operators", must[int](t)(s.CountOperators(ctx)), 1)
		same("deployment", must[factory.Deployment](t)(s.Deployment(ctx, "d1")), w.deployment)
		same("deployment by name", must[factory.Deployment](t)(s.DeploymentByName(ctx, "small")), w.deployment)
		same("deployments", must[[]factory.Deployment](t)(s.AllDeployments(ctx)), []factory.Deployment{w.deployment})
	})
}

func TestChangesAreKept(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		w.cluster.Description = "two Sparks"
		ok(t, s.SaveCluster(ctx, w.cluster))
		w.endpoint.Hostname = ""
		ok(t, s.SaveEndpoint(ctx, w.endpoint))
		w.provider.Website = ""
		ok(t, s.SaveProvider(ctx, w.provider))
		w.llm.Embedding, w.llm.Parameters = true, 1.5
		ok(t, s.SaveLLM(ctx, w.llm))
		w.acme.Title = "Acme Inc."
		ok(t, s.SaveTenant(ctx, w.acme))
		ok(t, s.SavePassword(ctx, "u1", "y"))
		if c := must[factory.Cluster](t)(s.Cluster(ctx, "c1")); c != w.cluster {
			t.Errorf("cluster %+v", c)
		}
		if e := must[factory.Endpoint](t)(s.Endpoint(ctx, "e1")); e != w.endpoint {
			t.Errorf("endpoint %+v", e)
		}
		if p := must[factory.Provider](t)(s.Provider(ctx, "p1")); p != w.provider {
			t.Errorf("provider %+v", p)
		}
		if m := must[factory.LLM](t)(s.LLM(ctx, "m1")); m != w.llm {
			t.Errorf("model %+v", m)
		}
		if x := must[factory.Tenant](t)(s.Tenant(ctx, "t1")); x != w.acme {
			t.Errorf("tenant %+v", x)
		}
		if u := must[factory.User](t)(s.User(ctx, "u1")); u.PasswordHash != "y" {
			t.Errorf("user %+v", u)
		}
	})
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for name, err := range map[string]error{
			"setting":           second(s.Setting(ctx, "x")),
			"user":              second(s.User(ctx, "x")),
			"user by e-mail":    second(s.UserByEmail(ctx, "x")),
			"password":          s.SavePassword(ctx, "x", "y"),
			"delete user":       s.DeleteUser(ctx, "x"),
			"session":           second(s.Session(ctx, "x")),
			"tenant":            second(s.Tenant(ctx, "x")),
			"tenant by name":    second(s.TenantByName(ctx, "x")),
			"save tenant":       s.SaveTenant(ctx, factory.Tenant{ID: "x"}),
			"delete tenant":     s.DeleteTenant(ctx, "x"),
			"membership":        second(s.Membership(ctx, "x", "y")),
			"delete membership": s.DeleteMembership(ctx, "x", "y"),
			"cluster":           second(s.Cluster(ctx, "x")),
			"cluster by name":   second(s.ClusterByName(ctx, "x")),
			"save cluster":      s.SaveCluster(ctx, factory.Cluster{ID: "x"}),
			"delete cluster":    s.DeleteCluster(ctx, "x"),
			"join token":        s.DeleteJoinToken(ctx, "x"),
			"node":              second(s.Node(ctx, "x")),
			"credential":        second(s.NodeByCredential(ctx, "x")),
			"delete node":       s.DeleteNode(ctx, "x"),
			"report":            s.SaveReport(ctx, "x", factory.NodeReport{ReceivedAt: start}, nil),
			"endpoint":          second(s.Endpoint(ctx, "x")),
			"endpoint by name":  second(s.EndpointByName(ctx, "x")),
			"delete endpoint":   s.DeleteEndpoint(ctx, "x"),
			"provider":          second(s.Provider(ctx, "x")),
			"provider by name":  second(s.ProviderByName(ctx, "x")),
			"delete provider":   s.DeleteProvider(ctx, "x"),
			"model":             second(s.LLM(ctx, "x")),
			"model by name":     second(s.LLMByName(ctx, "x")),
			"delete model":      s.DeleteLLM(ctx, "x"),
			"deployment":        second(s.Deployment(ctx, "x")),
			"find deployment":   second(s.FindDeployment(ctx, "x")),
			"save deployment":   s.SaveDeployment(ctx, factory.Deployment{ID: "x"}),
			"stop deployment":   s.SetDeploymentStopped(ctx, "x", true),
			"delete deployment": s.DeleteDeployment(ctx, "x", start),
			"replica revision":  s.SetReplicaRevision(ctx, "x", 2),
			"key":               second(s.Key(ctx, "x", "y")),
			"key by hash":       second(s.KeyByHash(ctx, "x")),
			"key by name":       second(s.KeyByName(ctx, "x", "y")),
			"revoke key":        s.RevokeKey(ctx, "x", "y", start),
			"last bucket":       second(s.LastBucketAt(ctx, "x", "ttft")),
		} {
			if factory.KindOf(err) != factory.NotFound {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if m := factory.MessageOf(err); !strings.HasSuffix(m, ".") || strings.Contains(m, "sql") {
				t.Errorf("%s: %q is no sentence", name, m)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestATakenNameIsNamed(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		ok(t, s.CreateKey(ctx, factory.Key{ID: "k1", TenantID: "t1", Name: "ci", Hash: "h1", CreatedAt: start}))
		other := w.newDeployment("d2", "other")
		other.PublicName = w.deployment.PublicName
		sameName := w.newDeployment("d9", "small")
		sameName.PublicName = "public/another"
		otherCluster := factory.Cluster{ID: "c2", Name: "rack"}
		ok(t, s.CreateCluster(ctx, otherCluster))
		otherCluster.Name = "desk"
		for _, c := range []struct {
			err  error
			want string
		}{
			{s.CreateCluster(ctx, factory.Cluster{ID: "c9", Name: "desk"}), "A cluster named desk exists already. Choose another name."},
			{s.SaveCluster(ctx, otherCluster), "A cluster named desk exists already. Choose another name."},
			{s.CreateEndpoint(ctx, factory.Endpoint{ID: "e9", Name: "chat", ClusterID: "c1"}), "An endpoint named chat exists already. Choose another name."},
			{s.CreateEndpoint(ctx, factory.Endpoint{ID: "e9", Name: "x", Hostname: "llm.example.org", ClusterID: "c1"}), "Another endpoint has the host name llm.example.org already. Choose another."},
			{s.CreateProvider(ctx, factory.Provider{ID: "p9", Name: "qwen"}), "A provider named qwen exists already. Choose another name."},
			{s.CreateLLM(ctx, factory.LLM{ID: "m9", Name: "qwen2-0.5b", ProviderID: "p1"}), "A model named qwen2-0.5b exists already. Choose another name."},
			{s.CreateTenant(ctx, factory.Tenant{ID: "t9", Name: "acme"}), "A tenant named acme exists already. Choose another name."},
			{s.CreateUser(ctx, factory.User{ID: "u9", Email: "ada@example.org"}), "Another user has the e-mail address ada@example.org already. Choose another."},
			{s.CreateDeployment(ctx, sameName), "A deployment named small exists already. Choose another name."},
			{s.CreateDeployment(ctx, other), "Another deployment has the public name public/small already. Choose another."},
			{s.CreateKey(ctx, factory.Key{ID: "k9", TenantID: "t1", Name: "ci", Hash: "h9"}), "A key named ci exists already. Choose another name."},
			{s.CreateCluster(ctx, factory.Cluster{ID: "c1", Name: "new"}), "This cluster exists already."},
		} {
			wantKind(t, c.err, factory.Conflict)
			if got := factory.MessageOf(c.err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		}
		// Nothing is left of what was refused: names are free for others.
		ok(t, s.CreateKey(ctx, factory.Key{ID: "k2", TenantID: "t2", Name: "ci", Hash: "h2"}))
		ok(t, s.CreateDeployment(ctx, w.newDeployment("d9", "free")))
		// Endpoints without a host name of their own do not clash.
		ok(t, s.CreateEndpoint(ctx, factory.Endpoint{ID: "e2", Name: "a", ClusterID: "c1"}))
		ok(t, s.CreateEndpoint(ctx, factory.Endpoint{ID: "e3", Name: "b", ClusterID: "c1"}))
	})
}

func TestWhatIsUsedIsNotDeleted(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "spark", "m-a", start)
		for _, c := range []struct {
			err  error
			want string
		}{
			{s.DeleteCluster(ctx, "c1"), "node spark, endpoint chat, deployment small"},
			{s.DeleteEndpoint(ctx, "e1"), "deployment small"},
			{s.DeleteProvider(ctx, "p1"), "model qwen2-0.5b"},
			{s.DeleteLLM(ctx, "m1"), "deployment small"},
		} {
			wantKind(t, c.err, factory.Conflict)
			if m := factory.MessageOf(c.err); !strings.Contains(m, c.want) {
				t.Errorf("%q does not name %q", m, c.want)
			}
		}
		// What refers to nothing is refused too, and says so.
		wantKind(t, s.CreateEndpoint(ctx, factory.Endpoint{ID: "e9", Name: "x", ClusterID: "gone"}), factory.Conflict)

		// From the top down everything goes, although the deployment stays in history.
		ok(t, s.DeleteDeployment(ctx, "d1", start))
		ok(t, s.DeleteLLM(ctx, "m1"))
		ok(t, s.DeleteProvider(ctx, "p1"))
		ok(t, s.DeleteEndpoint(ctx, "e1"))
		ok(t, s.DeleteNode(ctx, node.ID))
		ok(t, s.DeleteCluster(ctx, "c1"))
		if tokens := must[[]factory.JoinToken](t)(s.JoinTokens(ctx, "c1")); len(tokens) != 0 {
			t.Errorf("%d tokens outlived their cluster", len(tokens))
		}
		if names := must[map[string]string](t)(s.DeploymentNames(ctx)); names["d1"] != "small" {
			t.Errorf("history lost the deployment's name: %v", names)
		}
	})
}

func TestATransactionHappensWholeOrNotAtAll(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		refused := factory.Errorf(factory.Invalid, "No.")
		err := s.InTx(ctx, func(tx *store.Store) error {
			ok(t, tx.SaveSetting(ctx, "a", "1"))
			// A nested transaction is the same one.
			ok(t, tx.InTx(ctx, func(inner *store.Store) error { return inner.SaveSetting(ctx, "b", "2") }))
			if v := must[string](t)(tx.Setting(ctx, "b")); v != "2" {
				t.Errorf("inside, b is %q", v)
			}
			return refused
		})
		if err != refused {
			t.Fatalf("got %v", err)
		}
		wantKind(t, second(s.Setting(ctx, "a")), factory.NotFound)
		wantKind(t, second(s.Setting(ctx, "b")), factory.NotFound)

		func() {
			defer func() { _ = recover() }()
			_ = s.InTx(ctx, func(tx *store.Store) error {
				ok(t, tx.SaveSetting(ctx, "a", "1"))
				panic("a bug")
			})
		}()
		wantKind(t, second(s.Setting(ctx, "a")), factory.NotFound)

		ok(t, s.InTx(ctx, func(tx *store.Store) error { return tx.SaveSetting(ctx, "a", "1") }))
		ok(t, s.SaveSetting(ctx, "a", "2"))
		if v := must[string](t)(s.Setting(ctx, "a")); v != "2" {
			t.Errorf("a is %q", v)
		}
	})
}

func TestAnEndedContextIsNoFailureOfTheDatabase(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, err := range map[string]error{
			"read":        second(s.AllClusters(ctx)),
			"write":       s.SaveSetting(ctx, "a", "1"),
			"transaction": s.InTx(ctx, func(tx *store.Store) error { return tx.SaveSetting(ctx, "a", "1") }),
			"midway":      s.InTx(t.Context(), func(tx *store.Store) error { return tx.SaveSetting(ctx, "a", "1") }),
		} {
			if !strings.Contains(err.Error(), context.Canceled.Error()) || factory.KindOf(err) != factory.Internal {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestAClosedDatabaseIsUnavailable(t *testing.T) {
	s := must[*store.Store](t)(store.Open(t.Context(), "sqlite:"+t.TempDir()+"/x.db"))
	ok(t, s.Close())
	wantKind(t, second(s.AllClusters(t.Context())), factory.Unavailable)
	_, err := store.Open(t.Context(), "postgres://nobody:secret@127.0.0.1:1/none?connect_timeout=1")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	for _, address := range []string{"", "mysql://x", "sqlite:", "postgres://%zz:secret@x"} {
		if _, err := store.Open(t.Context(), address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
