package store_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestADeploymentIsFoundByIDNameOrPublicName(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		// This one is called like the other's public name: the name wins.
		tricky := w.newDeployment("d2", "public/small")
		ok(t, s.CreateDeployment(ctx, tricky))
		for ref, want := range map[string]string{"d1": "d1", "small": "d1", "public/small": "d2", "public/public/small": "d2"} {
			if d := must[factory.Deployment](t)(s.FindDeployment(ctx, ref)); d.ID != want {
				t.Errorf("%s leads to %s", ref, d.ID)
			}
		}
	})
}

func TestAPriceChangesByANewVersionOnly(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		d := must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		first := *d.Price
		d.Replicas, d.UpdatedAt = 3, start.Add(time.Hour)
		ok(t, s.SaveDeployment(ctx, d))
		same := first
		same.ID = "another-id-of-equal-price"
		d.Price = &same
		ok(t, s.SaveDeployment(ctx, d))
		if prices := must[map[string]factory.Price](t)(s.Prices(ctx)); len(prices) != 1 || prices[first.ID] != first {
			t.Fatalf("an equal price made a version: %+v", prices)
		}
		// The price that was read, changed in place, must not change the version that usage names.
		dearer := first
		dearer.Output = "0.90"
		d.Price = &dearer
		ok(t, s.SaveDeployment(ctx, d))
		got := must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		if got.Price.ID == first.ID || got.Price.Output != "0.90" || got.OutputPrice != "0.90" || !got.Price.ValidFrom.Equal(d.UpdatedAt) || got.Replicas != 3 {
			t.Errorf("got price %+v, %d replicas", got.Price, got.Replicas)
		}
		free := factory.Price{ID: "free-1", Free: true, Currency: "USD", Input: "0", CachedInput: "0", Output: "0", ValidFrom: start.Add(2 * time.Hour)}
		d.Price = &free
		ok(t, s.SaveDeployment(ctx, d))
		got = must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		if got.Price.ID != "free-1" || !got.Free || got.InputPrice != "" {
			t.Errorf("got %+v and spec %+v", got.Price, got.DeploymentSpec)
		}
		if errs := got.Validate(); len(errs) > 0 {
			t.Errorf("what is read does not validate: %v", errs)
		}
		if prices := must[map[string]factory.Price](t)(s.Prices(ctx)); len(prices) != 3 || prices[first.ID] != first {
			t.Errorf("versions %+v", prices)
		}
		unpriced := d
		unpriced.ID, unpriced.Name, unpriced.PublicName, unpriced.Price = "d9", "x", "x", nil
		wantKind(t, s.CreateDeployment(ctx, unpriced), factory.Invalid)
	})
}

func TestAnEditDoesNotUndoAStop(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		d := must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		ok(t, s.SetDeploymentStopped(ctx, "d1", true))
		d.Replicas, d.TenantIDs, d.SharedWithAll = 5, nil, true
		ok(t, s.SaveDeployment(ctx, d))
		got := must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		if !got.Stopped || got.Replicas != 5 || !got.SharedWithAll || len(got.TenantIDs) != 0 {
			t.Errorf("got %+v", got)
		}
		ok(t, s.SetDeploymentStopped(ctx, "d1", false))
		if must[factory.Deployment](t)(s.Deployment(ctx, "d1")).Stopped {
			t.Error("still stopped")
		}
	})
}

func TestATenantSeesWhatIsSharedWithIt(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		everybody := w.newDeployment("d2", "everybody")
		everybody.TenantIDs, everybody.Tenants, everybody.SharedWithAll = nil, nil, true
		ok(t, s.CreateDeployment(ctx, everybody))
		both := w.newDeployment("d3", "both")
		both.TenantIDs = []string{"t2", "t1", "t2"}
		ok(t, s.CreateDeployment(ctx, both))
		nobody := w.newDeployment("d4", "nobody")
		nobody.TenantIDs = nil
		ok(t, s.CreateDeployment(ctx, nobody))
		for tenant, want := range map[string][]string{"t1": {"both", "everybody", "small"}, "t2": {"both", "everybody"}, "t3": {"everybody"}} {
			var names []string
			for _, d := range must[[]factory.Deployment](t)(s.DeploymentsOf(ctx, tenant)) {
				names = append(names, d.Name)
				if !d.SharedWith(tenant) || slices.ContainsFunc(d.TenantIDs, func(id string) bool { return id != tenant }) || len(d.Tenants) > 0 {
					t.Errorf("%s is told that %s is shared with %v %v", tenant, d.Name, d.TenantIDs, d.Tenants)
				}
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s sees %v, want %v", tenant, names, want)
			}
		}
		if d := must[factory.Deployment](t)(s.Deployment(ctx, "d3")); !slices.Equal(d.Tenants, []string{"acme", "globex"}) || !slices.Equal(d.TenantIDs, []string{"t1", "t2"}) {
			t.Errorf("an operator sees %v %v", d.Tenants, d.TenantIDs)
		}
	})
}

func TestADeletedDeploymentStopsAndFreesItsNames(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "spark", "m-a", start)
		w.place(t, "r1", node.ID)
		if specs := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, node.ID)); len(specs) != 1 {
			t.Fatalf("wanted on the node: %+v", specs)
		}
		ok(t, s.DeleteDeployment(ctx, "d1", start.Add(time.Hour)))
		wantKind(t, second(s.DeploymentByName(ctx, "small")), factory.NotFound)
		wantKind(t, second(s.FindDeployment(ctx, "d1")), factory.NotFound)
		wantKind(t, s.SaveDeployment(ctx, w.deployment), factory.NotFound)
		wantKind(t, s.DeleteDeployment(ctx, "d1", start.Add(time.Hour)), factory.NotFound)
		if specs := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, node.ID)); len(specs) != 0 {
			t.Errorf("the node should still run %+v", specs)
		}
		if r := must[[]factory.Replica](t)(s.AllReplicas(ctx)); len(r) != 1 || !r[0].Stopping {
			t.Errorf("replicas %+v", r)
		}
		again := w.newDeployment("d2", "small")
		ok(t, s.CreateDeployment(ctx, again))
		if p := must[map[string]factory.Price](t)(s.Prices(ctx)); len(p) != 2 {
			t.Errorf("prices of the past are gone: %v", p)
		}
		// Deleted twice under one name: history has both.
		ok(t, s.DeleteDeployment(ctx, "d2", start.Add(2*time.Hour)))
		if names := must[map[string]string](t)(s.DeploymentNames(ctx)); !reflect.DeepEqual(names, map[string]string{"d1": "small", "d2": "small"}) {
			t.Errorf("history %v", names)
		}
	})
}

func TestAnAgentIsToldAllThatItNeeds(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "spark", "m-a", start)
		r := w.place(t, "r1", node.ID)
		want := factory.ReplicaSpec{ID: "r1", DeploymentID: "d1", Deployment: "small", Revision: 1, Engine: "vllm", Args: []string{"--max-num-seqs", "8"}, Env: map[string]string{"A": "1"},
			GPUUUIDs: []string{"GPU-x"}, Source: factory.SourceHuggingFace, Location: "Qwen/Qwen2-0.5B-Instruct", ServedName: "public/small",
			ContextLength: 32768, PrefixCaching: true}
		if got := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, node.ID)); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("got %+v", got)
		}
		r.NodeName = "spark"
		if got := must[[]factory.Replica](t)(s.Replicas(ctx, "d1")); len(got) != 1 || !reflect.DeepEqual(got[0], r) {
			t.Errorf("got %+v", got)
		}
		ok(t, s.SetReplicaRevision(ctx, "r1", 2))
		if got := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, node.ID)); got[0].Revision != 2 {
			t.Errorf("got %+v", got)
		}
		ok(t, s.SetReplicaStopping(ctx, "r1"))
		if got := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, node.ID)); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
		ok(t, s.DeleteReplica(ctx, "r1"))
		ok(t, s.DeleteReplica(ctx, "r1"))
		ok(t, s.SetReplicaStopping(ctx, "r1"))
		if got := must[[]factory.Replica](t)(s.AllReplicas(ctx)); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAnEditDoesNotUndoASleep(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		read := func() factory.Deployment { return must[factory.Deployment](t)(s.Deployment(ctx, "d1")) }
		before := read()
		ok(t, s.SleepDeployment(ctx, "d1"))
		ok(t, s.SleepDeployment(ctx, "d1"))
		before.Replicas, before.Revision = 5, 2
		ok(t, s.SaveDeployment(ctx, before))
		if d := read(); !d.Asleep || d.Stopped || d.Replicas != 5 {
			t.Errorf("after an edit %+v", d)
		}
		ok(t, s.WakeDeployment(ctx, "d1"))
		ok(t, s.WakeDeployment(ctx, "d1")) // another gateway
		if read().Asleep {
			t.Error("still asleep")
		}
		wantKind(t, s.SleepDeployment(ctx, "gone"), factory.NotFound)
		ok(t, s.WakeDeployment(ctx, "gone"))
	})
}

func TestNoRequestWakesWhatIsStopped(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		ok(t, s.SleepDeployment(ctx, "d1"))
		ok(t, s.SetDeploymentStopped(ctx, "d1", true))
		ok(t, s.WakeDeployment(ctx, "d1"))
		if d := must[factory.Deployment](t)(s.Deployment(ctx, "d1")); !d.Stopped || d.Asleep {
			t.Errorf("stopped %v, asleep %v", d.Stopped, d.Asleep)
		}
		wantKind(t, s.SleepDeployment(ctx, "d1"), factory.Conflict)
		ok(t, s.SetDeploymentStopped(ctx, "d1", false))
		if d := must[factory.Deployment](t)(s.Deployment(ctx, "d1")); d.Stopped || d.Asleep {
			t.Errorf("started, and yet stopped %v, asleep %v", d.Stopped, d.Asleep)
		}
	})
}

func TestWhatWasLearnedOfAnEngineGoesWithItsRevision(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		d := must[factory.Deployment](t)(s.Deployment(ctx, "d1")) // read before anything was learned
		ok(t, s.SetRunningUsage(ctx, "d1", d.Revision, factory.LearnedNo))
		d.Replicas = 5
		ok(t, s.SaveDeployment(ctx, d))
		if got := must[factory.Deployment](t)(s.Deployment(ctx, "d1")).RunningUsage; got != factory.LearnedNo {
			t.Errorf("an edit that restarts nothing left %q", got)
		}
		d.Revision++
		ok(t, s.SaveDeployment(ctx, d))
		if got := must[factory.Deployment](t)(s.Deployment(ctx, "d1")).RunningUsage; got != "" {
			t.Errorf("the new revision is taken to be %q", got)
		}
		ok(t, s.SetRunningUsage(ctx, "d1", d.Revision-1, factory.LearnedNo)) // told late
		if got := must[factory.Deployment](t)(s.Deployment(ctx, "d1")).RunningUsage; got != "" {
			t.Errorf("what was learned of the old revision is told of the new one: %q", got)
		}
		ok(t, s.SetRunningUsage(ctx, "gone", 1, factory.LearnedYes))
	})
}

func TestAReplicaMayWaitForAMachine(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		waiting := w.place(t, "r1", "")
		if got := must[[]factory.Replica](t)(s.Replicas(ctx, "d1")); len(got) != 1 || !reflect.DeepEqual(got[0], waiting) {
			t.Errorf("got %+v", got)
		}
		waiting.Reason = "No machine has a free GPU."
		ok(t, s.PlaceReplica(ctx, waiting))
		if got := must[[]factory.Replica](t)(s.AllReplicas(ctx)); got[0].NodeID != "" || got[0].Reason != waiting.Reason {
			t.Errorf("got %+v", got)
		}
		a, b := w.join(t, "a", "m-a", start), w.join(t, "b", "m-b", start)
		waiting.NodeID, waiting.GPUUUIDs = a.ID, []string{"GPU-m-a"}
		ok(t, s.PlaceReplica(ctx, waiting))
		waiting.NodeID = b.ID // too late: it has its place
		ok(t, s.PlaceReplica(ctx, waiting))
		if got := must[[]factory.Replica](t)(s.AllReplicas(ctx)); got[0].NodeID != a.ID || got[0].NodeName != "a" || !slices.Equal(got[0].GPUUUIDs, []string{"GPU-m-a"}) {
			t.Errorf("got %+v", got)
		}
		if got := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, a.ID)); len(got) != 1 {
			t.Errorf("wanted on a: %+v", got)
		}
		// One that waits when its deployment is deleted has to go as well.
		w.place(t, "r2", "")
		ok(t, s.DeleteDeployment(ctx, "d1", start))
		for _, r := range must[[]factory.Replica](t)(s.AllReplicas(ctx)) {
			if !r.Stopping {
				t.Errorf("%s goes on", r.ID)
			}
		}
	})
}
