package store_test

import (
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestRoutesLeadToReplicasThatServe(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		now := start.Add(time.Minute)
		online, silent := w.join(t, "a", "m-a", now), w.join(t, "b", "m-b", start)
		for id, node := range map[string]string{"r-ready": online.ID, "r-loading": online.ID, "r-stopping": online.ID, "r-nowhere": online.ID, "r-silent": silent.ID} {
			w.place(t, id, node)
		}
		report := func(node string, at time.Time, statuses ...factory.ReplicaStatus) {
			t.Helper()
			ok(t, s.SaveReport(ctx, node, factory.NodeReport{ReceivedAt: at, Replicas: statuses}, nil))
		}
		status := func(id string, state factory.State, url string) factory.ReplicaStatus {
			return factory.ReplicaStatus{ID: id, Revision: 1, State: state, URL: url, ServedName: "public/small"}
		}
		report(online.ID, now, status("r-ready", factory.Ready, "http://a:1"), status("r-loading", factory.Loading, "http://a:2"),
			status("r-stopping", factory.Ready, "http://a:3"), status("r-nowhere", factory.Ready, ""))
		report(silent.ID, start, status("r-silent", factory.Ready, "http://b:1"))
		ok(t, s.SetReplicaStopping(ctx, "r-stopping"))
		other := w.newDeployment("d2", "other")
		ok(t, s.CreateDeployment(ctx, other))

		routes := must[[]factory.Route](t)(s.AllRoutes(ctx, now))
		if len(routes) != 2 || routes[0].Deployment.ID != "d2" || routes[1].Deployment.ID != "d1" {
			t.Fatalf("routes %+v", routes)
		}
		if r := routes[1]; len(r.Replicas) != 1 || r.Replicas[0].ID != "r-ready" || r.Replicas[0].URL != "http://a:1" || r.Hostname != "llm.example.org" ||
			r.Deployment.Price.ID != "price-d1" || !r.Deployment.SharedWith("t1") || r.Deployment.SharedWith("t2") {
			t.Errorf("route %+v", r)
		}
		if len(routes[0].Replicas) != 0 {
			t.Errorf("a deployment without replicas has %+v", routes[0].Replicas)
		}
		ok(t, s.SetDeploymentStopped(ctx, "d1", true))
		if routes := must[[]factory.Route](t)(s.AllRoutes(ctx, now)); len(routes) != 2 || len(routes[1].Replicas) != 0 {
			t.Errorf("a stopped deployment is served by %+v", routes[1].Replicas)
		}
	})
}

// says takes in a report of a node about one of its replicas.
func says(t *testing.T, s *store.Store, nodeID string, at time.Time, id string, state factory.State, url string) {
	t.Helper()
	status := factory.ReplicaStatus{ID: id, Revision: 1, State: state, URL: url, ServedName: "public/small"}
	ok(t, s.SaveReport(t.Context(), nodeID, factory.NodeReport{ReceivedAt: at, Replicas: []factory.ReplicaStatus{status}}, nil))
}

func TestRR01StoreDropsEvictedReplica(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "a", "m-a", start)
		w.place(t, "e1", node.ID)
		route := func(now time.Time) factory.Route { return must[[]factory.Route](t)(s.AllRoutes(ctx, now))[0] }
		for _, c := range []struct {
			state  factory.State
			url    string
			coming bool
		}{
			{factory.Failed, "", false},
			{factory.Failed, "http://10.0.0.5:8000", false},
			{factory.Ready, "", false}, // the address went first; the state lags behind
			{factory.Stopped, "http://10.0.0.5:8000", false},
			{factory.Pending, "", true}, // it is started again
		} {
			says(t, s, node.ID, start, "e1", factory.Ready, "http://10.0.0.5:8000")
			if r := route(start); len(r.Replicas) != 1 || r.Coming {
				t.Fatalf("before: %+v", r)
			}
			says(t, s, node.ID, start, "e1", c.state, c.url)
			if r := route(start); len(r.Replicas) != 0 || r.Coming != c.coming {
				t.Errorf("%s at %q: %d targets, coming %v", c.state, c.url, len(r.Replicas), r.Coming)
			}
		}
		// Nor is one a target whose machine has gone quiet, whatever it said last.
		says(t, s, node.ID, start, "e1", factory.Ready, "http://10.0.0.5:8000")
		if r := route(start.Add(time.Hour)); len(r.Replicas) != 0 || r.Coming {
			t.Errorf("on a silent machine: %d targets, coming %v", len(r.Replicas), r.Coming)
		}
	})
}

func TestARouteSaysWhetherAReplicaIsComing(t *testing.T) {
	const serves, comes, neither = "serves", "comes", "neither"
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node, silent := w.join(t, "a", "m-a", start.Add(time.Hour)), w.join(t, "b", "m-b", start)
		expect := func(when, want string) {
			t.Helper()
			r := must[[]factory.Route](t)(s.AllRoutes(ctx, start.Add(time.Hour)))[0]
			got := neither
			switch {
			case len(r.Replicas) > 0 && !r.Coming:
				got = serves
			case len(r.Replicas) == 0 && r.Coming:
				got = comes
			case r.Coming:
				got = "both"
			}
			if got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		report := func(id string, state factory.State) {
			t.Helper()
			says(t, s, node.ID, start.Add(time.Hour), id, state, "http://a:1")
		}
		expect("nothing is planned yet", comes)
		w.place(t, "waiting", "")
		expect("one waits for room that nobody can promise", neither)
		ok(t, s.DeleteReplica(ctx, "waiting"))
		w.place(t, "lost", silent.ID)
		expect("one is on a silent machine", neither)
		ok(t, s.SleepDeployment(ctx, "d1"))
		expect("asleep, one on a silent machine", comes)
		ok(t, s.WakeDeployment(ctx, "d1"))
		ok(t, s.DeleteReplica(ctx, "lost"))
		w.place(t, "r1", node.ID)
		for _, state := range []factory.State{factory.Pending, factory.Starting, factory.Loading} {
			report("r1", state)
			expect("one is "+string(state), comes)
		}
		report("r1", factory.Failed)
		expect("all have failed", neither)
		w.place(t, "r2", node.ID)
		expect("one has failed and one comes", comes)
		report("r2", factory.Ready)
		expect("one has failed and one serves", serves)
		ok(t, s.SleepDeployment(ctx, "d1"))
		expect("asleep, and one serves still", serves)
		ok(t, s.SetReplicaStopping(ctx, "r2"))
		expect("asleep, and one stops", comes)
		ok(t, s.SetDeploymentStopped(ctx, "d1", true))
		expect("stopped", neither)
		ok(t, s.SetDeploymentStopped(ctx, "d1", false))
		ok(t, s.SetReplicaStopping(ctx, "r1"))
		expect("started, and the old ones stop", comes)
	})
}
