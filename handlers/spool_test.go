package handlers_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tokenfactory/views/layout"
	"tokenfactory/web"
)

func TestOperatorsSeeUsageThatTheLedgerDoesNotHave(t *testing.T) {
	var state atomic.Pointer[layout.Spool]
	s := newSite(t, func(w *web.Site) { w.Spool = func() layout.Spool { return *state.Load() } })
	olga, mia := s.signIn("olga@factory.example"), s.signIn("mia@acme.example")
	calm := layout.Spool{Waiting: 1204, Bytes: 3 << 20, Limit: 1 << 30, Since: s.now.Add(-7 * time.Minute), SetAside: 2}
	for name, x := range map[string]struct {
		state layout.Spool
		alarm string // on every page of the operators; empty for none
	}{
		"calm":    {calm, ""},
		"problem": {layout.Spool{Waiting: 5, Problem: "The database does not answer."}, "The database does not answer."},
		"full":    {layout.Spool{Waiting: 5, Full: true}, "requests are refused"},
		"lost":    {layout.Spool{Lost: 3}, "3 rows of usage could not be kept"},
	} {
		state.Store(&x.state)
		for _, path := range []string{"/clusters", "/deployments", "/tenants", "/aliases", "/account"} {
			text := olga.page(path)
			if x.alarm != "" && !strings.Contains(text, x.alarm) || x.alarm == "" && strings.Contains(text, "waiting") {
				t.Errorf("%s: %s says %s", name, path, text)
			}
		}
		for _, path := range []string{"/t/acme/keys", "/t/acme/usage", "/account"} {
			if text := mia.page(path); strings.Contains(text, "ledger takes") || strings.Contains(text, "On the way to the ledger") || x.alarm != "" && strings.Contains(text, x.alarm) {
				t.Errorf("%s: a member is told on %s: %s", name, path, text)
			}
		}
	}
	state.Store(&calm)
	text := olga.page("/usage")
	for _, want := range []string{"On the way to the ledger", "Rows set aside", "1,204 rows", "3.00 MiB of 1.00 GiB", "7 min ago", "2 rows"} {
		if !strings.Contains(text, want) {
			t.Errorf("the usage page does not say “%s”: %s", want, text)
		}
	}
}
