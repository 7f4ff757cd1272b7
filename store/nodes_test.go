package store_test

import (
	"maps"
	"testing"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// Tunnels stay open as long as their machine is on this list with their credential.
func TestCredentialsAreListedWhileTheyAreGood(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		is := func(want map[string]string) {
			t.Helper()
			if got := must[map[string]string](t)(s.NodeCredentials(ctx)); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		a, b := w.join(t, "spark", "m-a", start), w.join(t, "spark", "m-b", start)
		is(map[string]string{a.ID: a.CredentialHash, b.ID: b.CredentialHash})
		again := w.join(t, "spark", "m-a", start.Add(2*factory.OfflineAfter))
		is(map[string]string{a.ID: again.CredentialHash, b.ID: b.CredentialHash})
		ok(t, s.DeleteNode(ctx, b.ID))
		is(map[string]string{a.ID: again.CredentialHash})
	})
}
