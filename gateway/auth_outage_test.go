package gateway

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tokenfactory/factory"
)

// moodyKeys knows one key, and hangs when told to.
type moodyKeys struct {
	mu    sync.Mutex
	key   factory.Key
	hangs bool
}

// is changes what the store says from now on; a question may be under way.
func (k *moodyKeys) is(hangs bool, revoked *time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hangs, k.key.RevokedAt = hangs, revoked
}

func (k *moodyKeys) KeyByHash(ctx context.Context, _ string) (factory.Key, error) {
	k.mu.Lock()
	key, hangs := k.key, k.hangs
	k.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return factory.Key{}, ctx.Err()
	}
	return key, nil
}

func (k *moodyKeys) TouchKeys(context.Context, map[string]time.Time) error { return nil }

// A store that hangs makes the first requests wait for a moment, in which it may yet
// answer, and not every request for as long as it hangs.
func TestKnownKeysDoNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &moodyKeys{key: factory.Key{ID: "k"}}
		g := &Gateway{Keys: store, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		g.running, g.cut = context.WithCancel(t.Context())
		defer g.cut()
		waits := func() time.Duration {
			t.Helper()
			began := time.Now()
			if k, known, err := g.keys.find(t.Context(), g, "hash"); err != nil || !known || k.ID != "k" {
				t.Fatalf("%+v %t %v", k, known, err)
			}
			return time.Since(began)
		}
		waits()
		store.is(true, nil)
		time.Sleep(2 * time.Second)
		if w := waits(); w != keyPatience {
			t.Errorf("the first request waits %s", w)
		}
		time.Sleep(storePatience)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if w := waits(); w != 0 {
				t.Fatalf("a later request waits %s", w)
			}
		}
		// Back again, a change is known as soon as a question is answered.
		now := time.Now()
		store.is(false, &now)
		time.Sleep(storePatience + keyFresh)
		waits()
		synctest.Wait()
		if k, _, _ := g.keys.find(t.Context(), g, "hash"); k.RevokedAt == nil {
			t.Error("the key's revocation is not known")
		}
	})
}
