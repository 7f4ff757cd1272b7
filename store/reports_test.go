package store_test

import (
	"reflect"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func gauge(value float64, at time.Time) metrics.Bucket {
	return metrics.Bucket{DeploymentID: "d1", ReplicaID: "r1", Name: metrics.KVCache, Step: 10 * time.Second, Start: at, Count: 1, Sum: value, Max: value}
}

func TestAReportIsTakenInWhole(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node, other := w.join(t, "a", "m-a", start), w.join(t, "b", "m-b", start)
		mine, foreign := w.place(t, "r1", node.ID), w.place(t, "r2", other.ID)
		at := start.Add(2 * time.Second)
		hardware := node.Hardware
		hardware.Warnings = []string{"The clock is slow."}
		status := factory.ReplicaStatus{ID: "r1", Revision: 1, State: factory.Ready, Reason: "Serving.", LastLines: []string{"up", "ready"}, URL: "http://192.0.2.9:8000",
			ServedName: "public/small", PID: 42, Restarts: 3, Progress: "", StartedAt: &start, ReadyAt: &at}
		claimed := status
		claimed.ID = foreign.ID // a node speaks for its own replicas only
		ok(t, s.SaveReport(ctx, node.ID, factory.NodeReport{Address: "192.0.2.9", Version: "2", Hardware: hardware, Skew: -600 * time.Second, ReceivedAt: at,
			Replicas: []factory.ReplicaStatus{status, claimed, {ID: "nobody's", State: factory.Ready}}, AckSeq: 3}, []metrics.Bucket{gauge(0.5, start)}))

		got := must[factory.Node](t)(s.Node(ctx, node.ID))
		want := node
		want.Address, want.AgentVersion, want.Hardware, want.Skew, want.LastSeenAt, want.ReportSeq = "192.0.2.9", "2", hardware, -600*time.Second, at, 3
		if !reflect.DeepEqual(got, want) {
			t.Errorf("node\n got %+v\nwant %+v", got, want)
		}
		mine.NodeName, mine.State, mine.Reason, mine.LastLines, mine.URL, mine.ServedName = "a", status.State, status.Reason, status.LastLines, status.URL, status.ServedName
		mine.PID, mine.Restarts, mine.StartedAt, mine.ReadyAt, mine.UpdatedAt = 42, 3, &start, &at, at
		foreign.NodeName = "b"
		if replicas := must[[]factory.Replica](t)(s.AllReplicas(ctx)); !reflect.DeepEqual(replicas, []factory.Replica{mine, foreign}) {
			t.Errorf("replicas %+v", replicas)
		}
		if b := kept(t, s, metrics.KVCache, 10*time.Second); len(b) != 1 || b[0].Sum != 0.5 {
			t.Errorf("buckets %+v", b)
		}
	})
}

func TestAReportDeliveredTwiceMeasuresOnce(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "a", "m-a", start)
		report := factory.NodeReport{ReceivedAt: start, PriorSeq: 0, AckSeq: 2}
		buckets := []metrics.Bucket{gauge(0.5, start), gauge(0.25, start)}
		ok(t, s.SaveReport(ctx, node.ID, report, buckets))
		ok(t, s.SaveReport(ctx, node.ID, report, buckets)) // its answer was lost
		if b := kept(t, s, metrics.KVCache, 10*time.Second); len(b) != 1 || b[0].Count != 2 || b[0].Sum != 0.75 || b[0].Max != 0.5 {
			t.Errorf("buckets %+v", b)
		}
		// One that was filtered by numbers that have moved on could hold measurements twice.
		overlapping := factory.NodeReport{Address: "new", ReceivedAt: start, PriorSeq: 1, AckSeq: 3}
		wantKind(t, s.SaveReport(ctx, node.ID, overlapping, buckets), factory.Conflict)
		if n := must[factory.Node](t)(s.Node(ctx, node.ID)); n.ReportSeq != 2 || n.Address == "new" {
			t.Errorf("a refused report left %+v", n)
		}
		overlapping.PriorSeq = 2
		ok(t, s.SaveReport(ctx, node.ID, overlapping, buckets[:1]))
		if b := kept(t, s, metrics.KVCache, time.Hour); len(b) != 1 || b[0].Count != 3 || b[0].Sum != 1.25 {
			t.Errorf("buckets %+v", b)
		}
		// Numbers from before the machine joined anew do not come back.
		ok(t, s.SaveReport(ctx, node.ID, factory.NodeReport{ReceivedAt: start, PriorSeq: 99, AckSeq: 99}, nil))
		// Without measurements there is nothing to count twice.
		ok(t, s.SaveReport(ctx, node.ID, factory.NodeReport{ReceivedAt: start.Add(time.Hour)}, nil))
		if n := must[factory.Node](t)(s.Node(ctx, node.ID)); n.ReportSeq != 3 || !n.LastSeenAt.Equal(start.Add(time.Hour)) {
			t.Errorf("got %+v", n)
		}
	})
}

func TestABadByteHoldsNothingUp(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "a", "m-a", start)
		w.place(t, "r1", node.ID)
		ok(t, s.SaveReport(ctx, node.ID, factory.NodeReport{ReceivedAt: start, Version: "1\x00", Replicas: []factory.ReplicaStatus{
			{ID: "r1", State: factory.Failed, Reason: "It said \x00\xff.", LastLines: []string{"\x00"}}}}, nil))
		if r := must[[]factory.Replica](t)(s.AllReplicas(ctx)); r[0].Reason != "It said \uFFFD." {
			t.Errorf("reason %q", r[0].Reason)
		}
		u := request("r1", start, 1, 1)
		u.ModelServed = "x\x00"
		ok(t, s.AppendUsage(ctx, []factory.Usage{u}))
		for _, err := range []error{second(s.FindDeployment(ctx, "small\x00")), second(s.UserByEmail(ctx, "\xff"))} {
			wantKind(t, err, factory.NotFound)
		}
	})
}

func TestAStoppingReplicaGoesWhenItHasStopped(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "a", "m-a", start)
		for _, id := range []string{"r-running", "r-draining", "r-stopped", "r-unlisted", "r-wanted-unlisted"} {
			w.place(t, id, node.ID)
		}
		for _, id := range []string{"r-draining", "r-stopped", "r-unlisted"} {
			ok(t, s.SetReplicaStopping(ctx, id))
		}
		ok(t, s.SaveReport(ctx, node.ID, factory.NodeReport{ReceivedAt: start, Replicas: []factory.ReplicaStatus{
			{ID: "r-running", State: factory.Stopped}, // not asked for: it stays to be started again
			{ID: "r-draining", State: factory.Stopping},
			{ID: "r-stopped", State: factory.Stopped},
		}}, nil))
		left := map[string]factory.State{}
		for _, r := range must[[]factory.Replica](t)(s.AllReplicas(ctx)) {
			left[r.ID] = r.State
		}
		if want := map[string]factory.State{"r-running": factory.Stopped, "r-draining": factory.Stopping, "r-wanted-unlisted": factory.Pending}; !reflect.DeepEqual(left, want) {
			t.Errorf("left are %v", left)
		}
	})
}

func kept(t *testing.T, s *store.Store, name metrics.Name, step time.Duration) []metrics.Bucket {
	t.Helper()
	return must[[]metrics.Bucket](t)(s.Buckets(t.Context(), "d1", step, []metrics.Name{name}, start.Add(-24*time.Hour), start.Add(24*time.Hour)))
}
