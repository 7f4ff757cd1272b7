package store_test

import (
	"reflect"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestSessionsEndWhenTheyShould(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		session := func(hash, user string, life time.Duration) store.SessionRow {
			return store.SessionRow{IDHash: hash, UserID: user, Data: []byte{0, 1, 255}, CreatedAt: start, ExpiresAt: start.Add(life)}
		}
		for _, x := range []store.SessionRow{session("h1", "u1", time.Hour), session("h2", "u1", 2*time.Hour), session("h3", "u1", 3*time.Hour), session("anonymous", "", time.Hour)} {
			ok(t, s.SaveSession(ctx, x))
		}
		if got := must[store.SessionRow](t)(s.Session(ctx, "h1")); !reflect.DeepEqual(got, session("h1", "u1", time.Hour)) {
			t.Errorf("got %+v", got)
		}
		renewed := session("h1", "u1", 4*time.Hour)
		renewed.Data = []byte("new")
		ok(t, s.SaveSession(ctx, renewed))
		if got := must[store.SessionRow](t)(s.Session(ctx, "h1")); !reflect.DeepEqual(got, renewed) {
			t.Errorf("got %+v", got)
		}
		ok(t, s.SweepSessions(ctx, start.Add(2*time.Hour)))
		wantKind(t, second(s.Session(ctx, "h2")), factory.NotFound)
		wantKind(t, second(s.Session(ctx, "anonymous")), factory.NotFound)
		ok(t, s.DeleteSessionsOf(ctx, "u1", "h3"))
		wantKind(t, second(s.Session(ctx, "h1")), factory.NotFound)
		must[store.SessionRow](t)(s.Session(ctx, "h3"))
		ok(t, s.DeleteSession(ctx, "h3"))
		ok(t, s.DeleteSession(ctx, "h3"))
		ok(t, s.SaveSession(ctx, session("h4", "u1", time.Hour)))
		ok(t, s.DeleteUser(ctx, "u1"))
		wantKind(t, second(s.Session(ctx, "h4")), factory.NotFound)
	})
}

func TestFailuresToSignInAreCountedByKey(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for i := range 5 {
			ok(t, s.RecordLoginFailure(ctx, "a", start.Add(time.Duration(i)*time.Minute)))
		}
		ok(t, s.RecordLoginFailure(ctx, "b", start))
		count := func(key string, since time.Duration) int {
			t.Helper()
			return must[int](t)(s.LoginFailures(ctx, key, start.Add(since)))
		}
		if a, late, b := count("a", 0), count("a", 3*time.Minute), count("b", 0); a != 5 || late != 2 || b != 1 {
			t.Errorf("counted %d, %d, %d", a, late, b)
		}
		ok(t, s.ClearLoginFailures(ctx, "a"))
		if a, b := count("a", 0), count("b", 0); a != 0 || b != 1 {
			t.Errorf("after clearing %d, %d", a, b)
		}
		ok(t, s.SweepSessions(ctx, start.Add(48*time.Hour)))
		if b := count("b", 0); b != 0 {
			t.Errorf("%d old failures are left", b)
		}
	})
}

func TestMembersBelongToTheirTenant(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		ok(t, s.SaveMembership(ctx, factory.Membership{TenantID: "t1", UserID: "u1", Role: factory.Member, CreatedAt: start}))
		ok(t, s.SaveMembership(ctx, factory.Membership{TenantID: "t1", UserID: "u1", Role: factory.Admin, CreatedAt: start.Add(time.Hour)}))
		want := factory.Membership{TenantID: "t1", TenantName: "acme", TenantTitle: "Acme", UserID: "u1", Email: "ada@example.org", Name: "Ada", Role: factory.Admin, CreatedAt: start}
		if m := must[factory.Membership](t)(s.Membership(ctx, "t1", "u1")); m != want {
			t.Errorf("got %+v", m)
		}
		if m := must[[]factory.Membership](t)(s.Memberships(ctx, "u1")); len(m) != 1 || m[0] != want {
			t.Errorf("got %+v", m)
		}
		if m := must[[]factory.Membership](t)(s.Members(ctx, "t1")); len(m) != 1 || m[0] != want {
			t.Errorf("got %+v", m)
		}
		if m := must[[]factory.Membership](t)(s.Members(ctx, "t2")); len(m) != 0 {
			t.Errorf("another tenant sees %+v", m)
		}
		wantKind(t, second(s.Membership(ctx, "t2", "u1")), factory.NotFound)
		wantKind(t, s.DeleteMembership(ctx, "t2", "u1"), factory.NotFound)
		wantKind(t, s.SaveMembership(ctx, factory.Membership{TenantID: "t1", UserID: "gone", Role: factory.Member}), factory.Conflict)
		ok(t, s.DeleteMembership(ctx, "t1", "u1"))
		wantKind(t, second(s.Membership(ctx, "t1", "u1")), factory.NotFound)
	})
}

func TestKeysAreSeenByTheirTenantOnly(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		expiry := start.Add(time.Hour)
		k := factory.Key{ID: "k1", TenantID: "t1", TenantName: "acme", Name: "ci", Prefix: "sk-tf-abc", Hash: "h1", Scope: factory.ScopeInference,
			Limits: factory.Limits{RequestsPerMinute: 7}, CreatedBy: "ada@example.org", CreatedAt: start, ExpiresAt: &expiry}
		ok(t, s.CreateKey(ctx, k))
		for name, got := range map[string]factory.Key{
			"by id":   must[factory.Key](t)(s.Key(ctx, "t1", "k1")),
			"by name": must[factory.Key](t)(s.KeyByName(ctx, "t1", "ci")),
			"by hash": must[factory.Key](t)(s.KeyByHash(ctx, "h1")),
			"in list": must[[]factory.Key](t)(s.Keys(ctx, "t1"))[0],
			"in all":  must[[]factory.Key](t)(s.AllKeys(ctx))[0],
		} {
			if !reflect.DeepEqual(got, k) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		wantKind(t, second(s.Key(ctx, "t2", "k1")), factory.NotFound)
		wantKind(t, second(s.KeyByName(ctx, "t2", "ci")), factory.NotFound)
		wantKind(t, s.RevokeKey(ctx, "t2", "k1", start), factory.NotFound)
		wantKind(t, s.SetKeyLimits(ctx, "t2", "k1", factory.Limits{}), factory.NotFound)
		if keys := must[[]factory.Key](t)(s.Keys(ctx, "t2")); len(keys) != 0 {
			t.Errorf("another tenant sees %+v", keys)
		}

		ok(t, s.RevokeKey(ctx, "t1", "k1", start.Add(time.Minute)))
		ok(t, s.RevokeKey(ctx, "t1", "k1", start.Add(time.Hour))) // the first moment stays
		if k := must[factory.Key](t)(s.KeyByHash(ctx, "h1")); k.RevokedAt == nil || !k.RevokedAt.Equal(start.Add(time.Minute)) || k.Live(start) {
			t.Errorf("revoked at %v", k.RevokedAt)
		}

		ok(t, s.TouchKeys(ctx, map[string]time.Time{"k1": start.Add(time.Hour), "gone": start}))
		ok(t, s.TouchKeys(ctx, map[string]time.Time{"k1": start})) // a slower gateway's older news
		if k := must[factory.Key](t)(s.Key(ctx, "t1", "k1")); k.LastUsedAt == nil || !k.LastUsedAt.Equal(start.Add(time.Hour)) {
			t.Errorf("last used at %v", k.LastUsedAt)
		}
		if names := must[map[string]string](t)(s.KeyNames(ctx)); !reflect.DeepEqual(names, map[string]string{"k1": "ci"}) {
			t.Errorf("names %v", names)
		}
	})
}

func TestADeletedTenantLosesItsAccessAndKeepsItsHistory(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		seed(t, s)
		ctx := t.Context()
		ok(t, s.CreateKey(ctx, factory.Key{ID: "k1", TenantID: "t1", Name: "ci", Hash: "h1", CreatedAt: start}))
		ok(t, s.SaveMembership(ctx, factory.Membership{TenantID: "t1", UserID: "u1", Role: factory.Admin, CreatedAt: start}))
		ok(t, s.DeleteTenant(ctx, "t1"))
		wantKind(t, second(s.Tenant(ctx, "t1")), factory.NotFound)
		wantKind(t, second(s.TenantByName(ctx, "acme")), factory.NotFound)
		wantKind(t, s.DeleteTenant(ctx, "t1"), factory.NotFound)
		if k := must[factory.Key](t)(s.KeyByHash(ctx, "h1")); k.Live(factory.Now().Add(time.Second)) {
			t.Error("its key still opens the door")
		}
		if m := must[[]factory.Membership](t)(s.Memberships(ctx, "u1")); len(m) != 0 {
			t.Errorf("its member still has %+v", m)
		}
		if d := must[factory.Deployment](t)(s.Deployment(ctx, "d1")); d.SharedWith("t1") || len(d.Tenants) != 0 {
			t.Errorf("a deployment is still shared with %v", d.Tenants)
		}
		if names := must[map[string]string](t)(s.TenantNames(ctx)); names["t1"] != "acme" {
			t.Errorf("history lost the name: %v", names)
		}
		ok(t, s.CreateTenant(ctx, factory.Tenant{ID: "t9", Name: "acme", CreatedAt: start}))
	})
}
