package store_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestAJoinTokenWorksUntilItIsUsedUpOrExpires(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		redeem := func(hash, identity string, at time.Time) error {
			_, err := s.RedeemJoinToken(ctx, hash, factory.Node{Name: "n", Identity: identity, CredentialHash: "cred-" + identity}, at)
			return err
		}
		expires := start.Add(time.Hour)
		ok(t, s.CreateJoinToken(ctx, factory.JoinToken{ID: "j2", ClusterID: "c1", Hash: "h2", MaxUses: 2, ExpiresAt: expires, CreatedAt: start.Add(time.Second)}))
		ok(t, redeem("h2", "a", start))
		ok(t, redeem("h2", "b", expires.Add(-time.Microsecond)))
		for _, c := range []struct {
			err  error
			want string
		}{
			{redeem("h2", "c", start), "has been used 2 of 2 times"},
			{redeem("h2", "c", expires), "expired at 2026-11-30 13:00 UTC"},
			{redeem("no-such-token", "c", start), "unknown"},
		} {
			wantKind(t, c.err, factory.Unauthenticated)
			if m := factory.MessageOf(c.err); !strings.Contains(m, c.want) || !strings.Contains(m, "Make a new one on the cluster's page.") {
				t.Errorf("%q does not say %q and what to do", m, c.want)
			}
		}
		want := factory.JoinToken{ID: "j2", ClusterID: "c1", Hash: "h2", MaxUses: 2, Uses: 2, ExpiresAt: expires, CreatedAt: start.Add(time.Second)}
		if tokens := must[[]factory.JoinToken](t)(s.JoinTokens(ctx, "c1")); len(tokens) != 2 || tokens[0] != want {
			t.Errorf("tokens %+v", tokens)
		}
		if nodes := must[[]factory.Node](t)(s.Nodes(ctx, "c1")); len(nodes) != 2 || nodes[0].Name != "n" || nodes[1].Name != "n-2" {
			t.Errorf("nodes %+v", nodes)
		}
		ok(t, s.DeleteJoinToken(ctx, "j2"))
		wantKind(t, redeem("h2", "c", start), factory.Unauthenticated)
	})
}

func TestATokenIsNotUsedMoreOftenThanAllowed(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		ok(t, s.CreateJoinToken(ctx, factory.JoinToken{ID: "j2", ClusterID: "c1", Hash: "h2", MaxUses: 1, ExpiresAt: start.Add(time.Hour), CreatedAt: start}))
		redeem := func(s *store.Store, hash, identity string) error {
			_, err := s.RedeemJoinToken(ctx, hash, factory.Node{Name: "rack", Identity: identity, CredentialHash: identity}, start)
			return err
		}
		wantKind(t, overlap(t, s, func(tx *store.Store) error { return redeem(tx, "h2", "a") }, func() error { return redeem(s, "h2", "b") }), factory.Unauthenticated)

		// With a token each, two machines of one name at once still get names of their own.
		for _, id := range []string{"j3", "j4"} {
			ok(t, s.CreateJoinToken(ctx, factory.JoinToken{ID: id, ClusterID: "c1", Hash: id, MaxUses: 1, ExpiresAt: start.Add(time.Hour), CreatedAt: start}))
		}
		ok(t, overlap(t, s, func(tx *store.Store) error { return redeem(tx, "j3", "c") }, func() error { return redeem(s, "j4", "d") }))
		names := map[string]string{}
		for _, n := range must[[]factory.Node](t)(s.Nodes(ctx, "c1")) {
			names[n.Identity] = n.Name
		}
		if want := map[string]string{"a": "rack", "c": "rack-2", "d": "rack-3"}; !reflect.DeepEqual(names, want) {
			t.Errorf("joined as %v", names)
		}
	})
}

func TestAI03TwoMachinesWithOneNameAreTwoNodes(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		a := must[factory.Node](t)(w.tryJoin(ctx, "spark", "m-a", "192.0.2.96", start))
		b := must[factory.Node](t)(w.tryJoin(ctx, "spark", "m-b", "192.0.2.93", start))
		if a.ID == b.ID || a.Name != "spark" || b.Name != "spark-2" {
			t.Fatalf("a is %s %s, b is %s %s", a.ID, a.Name, b.ID, b.Name)
		}
		for i := range 30 { // reports of both, every two seconds for a minute
			at := start.Add(time.Duration(i) * 2 * time.Second)
			for _, n := range []factory.Node{a, b} {
				ok(t, s.SaveReport(ctx, n.ID, factory.NodeReport{Address: n.Address, Version: "1", Hardware: n.Hardware, ReceivedAt: at}, nil))
			}
			if got := must[factory.Node](t)(s.Node(ctx, a.ID)); got.Address != "192.0.2.96" || got.Name != "spark" || !reflect.DeepEqual(got.Hardware, a.Hardware) {
				t.Fatalf("a has become %+v", got)
			}
		}
		// The cloned case: b's machine comes with a's identity while a is online.
		at := start.Add(time.Minute)
		before := must[factory.Node](t)(s.Node(ctx, a.ID))
		_, err := w.tryJoin(ctx, "spark", "m-a", "192.0.2.93", at)
		wantKind(t, err, factory.Conflict)
		for _, word := range []string{"spark", "192.0.2.96", "desk", "identity"} {
			if m := factory.MessageOf(err); !strings.Contains(m, word) {
				t.Errorf("%q does not name %s", m, word)
			}
		}
		if got := must[factory.Node](t)(s.Node(ctx, a.ID)); !reflect.DeepEqual(got, before) {
			t.Errorf("the refused machine changed a into %+v", got)
		}
		if nodes := must[[]factory.Node](t)(s.AllNodes(ctx)); len(nodes) != 2 {
			t.Errorf("%d nodes", len(nodes))
		}
		uses := must[[]factory.JoinToken](t)(s.JoinTokens(ctx, "c1"))[0].Uses
		if uses != 2 {
			t.Errorf("the refused join took a use: %d", uses)
		}
	})
}

func TestASilentMachineComesBackAsItself(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		old := w.join(t, "spark", "m-a", start)
		w.place(t, "r1", old.ID)
		ok(t, s.SaveReport(ctx, old.ID, factory.NodeReport{ReceivedAt: start, AckSeq: 7}, nil))
		at := start.Add(factory.OfflineAfter + time.Second)
		back := must[factory.Node](t)(w.tryJoin(ctx, "spark", "m-a", "192.0.2.7", at))
		if back.ID != old.ID || back.Name != "spark" || back.Address != "192.0.2.7" || !back.LastSeenAt.Equal(at) || !back.JoinedAt.Equal(start) {
			t.Errorf("came back as %+v", back)
		}
		if back.CredentialHash == old.CredentialHash || back.ReportSeq != 0 {
			t.Errorf("the old credential or its numbers go on: %+v", back)
		}
		wantKind(t, second(s.NodeByCredential(ctx, old.CredentialHash)), factory.NotFound)
		must[factory.Node](t)(s.NodeByCredential(ctx, back.CredentialHash))
		if r := must[[]factory.ReplicaSpec](t)(s.DesiredReplicas(ctx, back.ID)); len(r) != 1 {
			t.Errorf("its replicas are gone: %v", r)
		}
		// The same machine may be in another cluster as well.
		ok(t, s.CreateCluster(ctx, factory.Cluster{ID: "c2", Name: "rack", CreatedAt: start}))
		ok(t, s.CreateJoinToken(ctx, factory.JoinToken{ID: "j2", ClusterID: "c2", Hash: "h2", MaxUses: 1, ExpiresAt: at.Add(time.Hour), CreatedAt: start}))
		n, err := s.RedeemJoinToken(ctx, "h2", factory.Node{Name: "spark", Identity: "m-a", CredentialHash: "x"}, at)
		if err != nil || n.ID == back.ID || n.Name != "spark" || n.ClusterName != "rack" {
			t.Errorf("joined as %+v: %v", n, err)
		}
		ok(t, s.DeleteNode(ctx, back.ID))
		if r := must[[]factory.Replica](t)(s.AllReplicas(ctx)); len(r) != 0 {
			t.Errorf("replicas outlived their node: %+v", r)
		}
		var e *factory.Error
		if err := s.SaveReport(ctx, back.ID, factory.NodeReport{ReceivedAt: at}, nil); !errors.As(err, &e) || !strings.Contains(e.Message, "Join it again") {
			t.Errorf("a removed machine is told %v", err)
		}
	})
}
