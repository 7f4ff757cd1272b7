package store_test

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func alias(id, name string, targets ...factory.AliasTarget) factory.Alias {
	return factory.Alias{ID: id, Name: name, Targets: targets, CreatedAt: start, UpdatedAt: start}
}

func TestAnAliasIsKeptWithItsTargetsInOrder(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		for id, name := range map[string]string{"d2": "large", "d3": "canary", "d4": "spare"} {
			ok(t, s.CreateDeployment(ctx, w.newDeployment(id, name)))
		}
		a := alias("a1", "fast", factory.AliasTarget{DeploymentID: "d3", Deployment: "canary", Weight: 5}, factory.AliasTarget{DeploymentID: "d1", Deployment: "small", Weight: 95})
		a.Fallbacks = []factory.AliasTarget{{DeploymentID: "d4", Deployment: "spare"}, {DeploymentID: "d2", Deployment: "large"}}
		ok(t, s.CreateAlias(ctx, a))
		ok(t, s.CreateAlias(ctx, alias("a0", "best", factory.AliasTarget{DeploymentID: "d2", Deployment: "large", Weight: 1})))
		for how, got := range map[string]factory.Alias{
			"by id":   must[factory.Alias](t)(s.Alias(ctx, "a1")),
			"by name": must[factory.Alias](t)(s.AliasByName(ctx, "fast")),
			"in all":  must[[]factory.Alias](t)(s.AllAliases(ctx))[1],
		} {
			if !reflect.DeepEqual(got, a) {
				t.Errorf("%s: %+v", how, got)
			}
		}

		a.Name, a.UpdatedAt = "quick", start.Add(time.Hour)
		a.Targets, a.Fallbacks = []factory.AliasTarget{{DeploymentID: "d4", Deployment: "spare", Weight: 1}}, []factory.AliasTarget{{DeploymentID: "d1", Deployment: "small"}}
		ok(t, s.UpdateAlias(ctx, a))
		if got := must[factory.Alias](t)(s.Alias(ctx, "a1")); !reflect.DeepEqual(got, a) {
			t.Errorf("after the change: %+v", got)
		}
		if list := must[[]factory.Alias](t)(s.AllAliases(ctx)); len(list) != 2 || list[0].Name != "best" || list[1].Name != "quick" {
			t.Errorf("all: %+v", list)
		}
		wantKind(t, second(s.AliasByName(ctx, "fast")), factory.NotFound)
		wantKind(t, second(s.Alias(ctx, "gone")), factory.NotFound)
		wantKind(t, s.UpdateAlias(ctx, alias("gone", "x")), factory.NotFound)
		ok(t, s.DeleteAlias(ctx, "a1"))
		wantKind(t, s.DeleteAlias(ctx, "a1"), factory.NotFound)
		if list := must[[]factory.Alias](t)(s.AllAliases(ctx)); len(list) != 1 {
			t.Errorf("left: %+v", list)
		}
	})
}

func TestATenantSeesAliasesThatLeadItSomewhere(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s) // d1 is shared with t1
		ctx := t.Context()
		other := w.newDeployment("d2", "other")
		other.TenantIDs = []string{"t2"}
		ok(t, s.CreateDeployment(ctx, other))
		everybody := w.newDeployment("d3", "everybody")
		everybody.TenantIDs, everybody.SharedWithAll = nil, true
		ok(t, s.CreateDeployment(ctx, everybody))
		both := alias("a1", "both", factory.AliasTarget{DeploymentID: "d1", Weight: 1}, factory.AliasTarget{DeploymentID: "d2", Weight: 1})
		both.Fallbacks = []factory.AliasTarget{{DeploymentID: "d3"}}
		ok(t, s.CreateAlias(ctx, both))
		ok(t, s.CreateAlias(ctx, alias("a2", "theirs", factory.AliasTarget{DeploymentID: "d2", Weight: 1})))
		got := must[[]factory.Alias](t)(s.Aliases(ctx, "t1"))
		want := alias("a1", "both", factory.AliasTarget{DeploymentID: "d1", Deployment: "small", Weight: 1})
		want.Fallbacks = []factory.AliasTarget{{DeploymentID: "d3", Deployment: "everybody"}}
		if !reflect.DeepEqual(got, []factory.Alias{want}) {
			t.Errorf("t1 sees %+v", got)
		}
		if got := must[[]factory.Alias](t)(s.Aliases(ctx, "t2")); len(got) != 2 {
			t.Errorf("t2 sees %+v", got)
		}
	})
}

func wantField(t *testing.T, err error, field, text string) {
	t.Helper()
	var errs factory.FieldErrors
	if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(errs[field], text) {
		t.Errorf("got %v, want %q at %s", err, text, field)
	}
}

func TestANameLeadsToOneThingOnly(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		target := factory.AliasTarget{DeploymentID: "d1", Deployment: "small", Weight: 1}
		ok(t, s.CreateAlias(ctx, alias("a1", "fast", target)))

		err := s.CreateAlias(ctx, alias("a2", "fast", target))
		wantKind(t, err, factory.Conflict)
		if m := factory.MessageOf(err); m != "An alias named fast exists already. Choose another name." {
			t.Errorf("got %q", m)
		}
		wantField(t, s.CreateAlias(ctx, alias("a2", "public/small", target)), "name", "deployment small")
		wantField(t, s.UpdateAlias(ctx, alias("a1", "public/small", target)), "name", "deployment small")
		d := w.newDeployment("d2", "other")
		d.PublicName = "fast"
		wantField(t, s.CreateDeployment(ctx, d), "public_name", "alias")
		edited := must[factory.Deployment](t)(s.Deployment(ctx, "d1"))
		edited.PublicName = "fast"
		wantField(t, s.SaveDeployment(ctx, edited), "public_name", "alias")

		// The name of a deployment is nothing that clients send, and a deleted one's is free.
		ok(t, s.CreateAlias(ctx, alias("a2", "small", target)))
		d.PublicName = "public/other"
		ok(t, s.CreateDeployment(ctx, d))
		ok(t, s.DeleteDeployment(ctx, "d2", start))
		ok(t, s.CreateAlias(ctx, alias("a3", "public/other", target)))
		ok(t, s.DeleteAlias(ctx, "a1"))
		ok(t, s.SaveDeployment(ctx, edited))
	})
}

func TestANameIsGivenOnceByManyAtOnce(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		for round := range 8 {
			name := "contested-" + string(rune('a'+round))
			d := w.newDeployment("d-"+name, name)
			d.PublicName = name
			d.Price.ID = "price-" + name
			var results [2]error
			var wg sync.WaitGroup
			wg.Go(func() { results[0] = s.CreateDeployment(ctx, d) })
			wg.Go(func() {
				results[1] = s.CreateAlias(ctx, alias("a-"+name, name, factory.AliasTarget{DeploymentID: "d1", Weight: 1}))
			})
			wg.Wait()
			if (results[0] == nil) == (results[1] == nil) {
				t.Fatalf("round %d: %v and %v", round, results[0], results[1])
			}
		}
	})
}

func TestADeploymentBehindAnAliasIsNotDeleted(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		ok(t, s.CreateDeployment(ctx, w.newDeployment("d2", "other")))
		ok(t, s.CreateAlias(ctx, alias("a1", "fast", factory.AliasTarget{DeploymentID: "d1", Weight: 1})))
		refused := func(want string) {
			t.Helper()
			err := s.DeleteDeployment(ctx, "d1", start)
			wantKind(t, err, factory.Conflict)
			if m := factory.MessageOf(err); !strings.Contains(m, want) {
				t.Errorf("%q does not name %s", m, want)
			}
		}
		refused("alias fast ")
		best := alias("a2", "best", factory.AliasTarget{DeploymentID: "d2", Weight: 1})
		best.Fallbacks = []factory.AliasTarget{{DeploymentID: "d1"}}
		ok(t, s.CreateAlias(ctx, best))
		refused("aliases best, fast ")
		if _, err := s.Deployment(ctx, "d1"); err != nil {
			t.Errorf("refused, and yet: %v", err)
		}
		ok(t, s.DeleteAlias(ctx, "a1"))
		best.Fallbacks = nil
		ok(t, s.UpdateAlias(ctx, best))
		ok(t, s.DeleteDeployment(ctx, "d1", start))

		// Its row stays for history, and yet no alias may lead there.
		best.Targets[0] = factory.AliasTarget{DeploymentID: "d1", Deployment: "small", Weight: 1}
		wantField(t, s.UpdateAlias(ctx, best), "targets", "small")
		fallback := alias("a9", "x", factory.AliasTarget{DeploymentID: "d2", Weight: 1})
		fallback.Fallbacks = []factory.AliasTarget{{DeploymentID: "never-was"}}
		wantField(t, s.CreateAlias(ctx, fallback), "fallbacks", "never-was")
		wantKind(t, second(s.Alias(ctx, "a9")), factory.NotFound)
	})
}

func TestAnAliasAndADeletionAtOnceLeaveNoAliasToNothing(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		for round := range 8 {
			id := "x" + string(rune('a'+round))
			ok(t, s.CreateDeployment(ctx, w.newDeployment(id, id)))
			var deleted, aliased error
			var wg sync.WaitGroup
			wg.Go(func() { deleted = s.DeleteDeployment(ctx, id, start) })
			wg.Go(func() {
				aliased = s.CreateAlias(ctx, alias("a"+id, "alias-"+id, factory.AliasTarget{DeploymentID: id, Weight: 1}))
			})
			wg.Wait()
			if (deleted == nil) == (aliased == nil) {
				t.Fatalf("round %d: deletion %v, alias %v", round, deleted, aliased)
			}
		}
	})
}
