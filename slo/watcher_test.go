package slo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// watch runs a watcher for a while, and ends it as a stop of the control plane does.
func (m *memory) watch(t *testing.T, length time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	if err := m.watcher().Run(ctx); err != nil {
		t.Error(err)
	}
}

// traffic records what requests of ten seconds were like.
func (m *memory) traffic(t *testing.T, at time.Time, wait float64, good bool) {
	t.Helper()
	var r metrics.Recorder
	for range 10 {
		see := func(name metrics.Name, v float64, n int) { r.Observe(at, "d", "r", name, v, n) }
		verdict := metrics.Bad
		if good {
			verdict = metrics.Good
		}
		see(verdict, 1, 1)
		see(metrics.Requests, 1, 1)
		see(metrics.Queue, wait, 1)
		see(metrics.TTFT, wait+120, 1)
		see(metrics.ITL, 25, 50)
		see(metrics.Running, 4, 1)
	}
	m.keep(t, r.Flush())
}

func chat() factory.Deployment {
	return factory.Deployment{ID: "d", Name: "chat", DeploymentSpec: factory.DeploymentSpec{
		Workload: factory.Interactive, Objectives: factory.Objectives{ObjectivePercent: 99},
	}}
}

func TestBurnFiresWithItsDiagnosisAndIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.deployments = []factory.Deployment{chat()}
		for at := time.Now().Add(-26 * time.Hour); at.Before(time.Now()); at = at.Add(time.Minute) {
			m.traffic(t, at, 2, true)
		}
		minutes := func(n int, wait float64, good bool) {
			for range n * 6 {
				m.traffic(t, time.Now(), wait, good)
				time.Sleep(10 * time.Second)
			}
		}
		const page = "burn/page/1h/"
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.watch(t, 20*time.Minute)
			// The control plane stops in the middle of it, and comes back.
			time.Sleep(2 * time.Minute)
			m.watch(t, 40*time.Minute)
		}()
		minutes(25, 900, false)
		if m.count(factory.ChangeFiring, page) != 1 || m.count(factory.ChangeResolved, page) != 0 {
			t.Fatalf("after 25 bad minutes: %v", m.told)
		}
		minutes(30, 2, true)
		<-done
		if m.count(factory.ChangeFiring, page) != 1 || m.count(factory.ChangeResolved, page) != 1 {
			t.Fatalf("told %v, want one page and its end", m.told)
		}
		var fired, resolved Payload
		for i, x := range m.told {
			switch x {
			case "firing " + page + "d":
				fired = m.payloads[i]
			case "resolved " + page + "d":
				resolved = m.payloads[i]
			}
		}
		if fired.ID == "" || fired.ID != resolved.ID || fired.Version != PayloadVersion || fired.Deployment == nil || fired.Deployment.Name != "chat" {
			t.Errorf("fired %+v, resolved %+v", fired, resolved)
		}
		if fired.PendingAt.Before(began) || fired.FiringAt.Sub(fired.PendingAt) < PendingFor {
			t.Errorf("pending at %v, firing at %v", fired.PendingAt, fired.FiringAt)
		}
		if fired.Diagnosis == nil || fired.Diagnosis.Signature != Upstream || !strings.Contains(fired.Diagnosis.Summary, "gateway") {
			t.Errorf("diagnosis %+v, want %s in the gateway", fired.Diagnosis, Upstream)
		}
		if resolved.Diagnosis == nil || resolved.Diagnosis.Signature != Upstream || resolved.ResolvedAt == nil {
			t.Errorf("resolved %+v has lost its diagnosis or its end", resolved)
		}
		if fired.URL == "" || !strings.Contains(fired.URL, fired.From.Format(time.RFC3339)) {
			t.Errorf("link %q does not lead to the window from %v", fired.URL, fired.From)
		}
		if want := "https://factory.example/alerts/" + fired.ID; fired.AlertURL != want || resolved.AlertURL != want {
			t.Errorf("the alert's page is %q when it fires and %q when it ends", fired.AlertURL, resolved.AlertURL)
		}
		for _, name := range []string{"burn_long", "burn_short", "budget_left"} {
			if fired.Figures[name] == nil {
				t.Errorf("figure %s is missing of %v", name, fired.Figures)
			}
		}
		if *fired.Figures["burn_long"] <= 14.4 || *resolved.Figures["burn_short"] > 14.4 {
			t.Errorf("burn %v when it fired and %v when it ended", *fired.Figures["burn_long"], *resolved.Figures["burn_short"])
		}
		if n := len(m.events); n != len(m.told) || m.events[0].Kind != factory.EventAlert || m.events[0].DeploymentID != "d" {
			t.Errorf("%d marks for %d changes: %+v", n, len(m.told), m.events)
		}
	})
}

func TestDA07RestartRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for i := range 15 {
			m.nodes = append(m.nodes, factory.Node{ID: fmt.Sprint("n", i), Name: fmt.Sprint("machine-", i), LastSeenAt: time.Now().Add(-time.Hour)})
		}
		m.watch(t, 5*time.Minute)
		if m.count(factory.ChangeFiring, "offline/") != 15 {
			t.Fatalf("told %v, want 15 firing", m.told)
		}
		time.Sleep(10 * time.Minute)
		for i := range 10 { // they have come back, and stay
			m.nodes[i].LastSeenAt = time.Now().Add(24 * time.Hour)
		}
		m.watch(t, 20*time.Minute)
		m.watch(t, 20*time.Minute)
		if m.count(factory.ChangeFiring, "") != 15 || m.count(factory.ChangeResolved, "") != 10 {
			t.Errorf("%d firing and %d resolved, want 15 and 10, once each", m.count(factory.ChangeFiring, ""), m.count(factory.ChangeResolved, ""))
		}
	})
}

func TestEngineThatIsNotMeasuredIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.deployments = []factory.Deployment{chat()}
		ready := time.Now().Add(-time.Hour)
		m.nodes = []factory.Node{{ID: "n", Name: "machine", LastSeenAt: time.Now().Add(24 * time.Hour)}}
		m.replicas = []factory.Replica{
			{ID: "r", DeploymentID: "d", NodeID: "n", NodeName: "machine", State: factory.Ready, ReadyAt: &ready},
			{ID: "silent", DeploymentID: "d", NodeID: "n", NodeName: "machine", State: factory.Ready, ReadyAt: &ready},
			{ID: "loading", DeploymentID: "d", NodeID: "n", NodeName: "machine", State: factory.Loading},
		}
		done := make(chan struct{})
		go func() { defer close(done); m.watch(t, 10*time.Minute) }()
		for range 60 {
			m.traffic(t, time.Now(), 2, true)
			time.Sleep(10 * time.Second)
		}
		<-done
		if len(m.told) != 1 || m.told[0] != "firing absent/silent" {
			t.Fatalf("told %v, want the silent engine alone", m.told)
		}
		// Whoever cannot look does not know that it is over, and not that others are silent.
		m.failing = true
		m.watch(t, 20*time.Minute)
		if len(m.told) != 1 {
			t.Errorf("told %v while nothing could be read", m.told)
		}
		m.failing, m.replicas = false, nil
		m.watch(t, 10*time.Minute)
		if len(m.told) != 2 || m.told[1] != "resolved absent/silent" {
			t.Errorf("told %v after the replica was taken away", m.told)
		}
	})
}

func TestBudgetIsToldAtFourFifthsAndAtItsEnd(t *testing.T) {
	for _, c := range []struct {
		limit, used   string
		unknown       bool
		eighty, whole Finding
	}{
		{"100", "79.999999", false, Right, Right}, {"100", "80", false, Wrong, Right}, {"0.3", "0.24", false, Wrong, Right},
		{"100", "99.999999999", false, Wrong, Right}, {"100", "100", false, Wrong, Wrong}, {"0", "0", false, Right, Right},
		{"0", "0.01", false, Wrong, Wrong}, {"100", "5", true, Unknown, Unknown}, {"", "5", false, Unknown, Unknown},
	} {
		u := BudgetUse{Use: factory.LimitUse{Limit: c.limit, Used: c.used, Unknown: c.unknown}}
		eighty, _ := u.reached(80)
		whole, _ := u.reached(100)
		if eighty != c.eighty || whole != c.whole {
			t.Errorf("%s of %s: %v and %v, want %v and %v", c.used, c.limit, eighty, whole, c.eighty, c.whole)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.watcher()
		w.Budgets = func(context.Context) ([]BudgetUse, error) {
			return []BudgetUse{{Scope: factory.ScopeTenant, ID: "t", TenantID: "t", Tenant: "acme", Name: "Acme",
				Use: factory.LimitUse{Kind: factory.LimitBudget, Limit: "50", Used: "45", Currency: "USD"}}}, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(m.told) != 1 || m.told[0] != "firing budget/80/tenant/t" {
			t.Fatalf("told %v", m.told)
		}
		if p := m.payloads[0]; p.Severity != factory.Ticket || *p.Figures["budget_used"] != 0.9 || p.Tenant.Name != "acme" {
			t.Errorf("%+v", p)
		}
	})
}

func TestDriftIsToldOfTheReplicaThatDrifts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.deployments = []factory.Deployment{chat()}
		m.replicas = []factory.Replica{{ID: "even", DeploymentID: "d"}, {ID: "odd", DeploymentID: "d"}}
		var r metrics.Recorder
		for _, replica := range []string{"even", "odd"} {
			for name, v := range map[metrics.Name]float64{metrics.Requests: 1000, metrics.InputTokens: 800_000, metrics.OutputTokens: 200_000, metrics.PromptTokens: 800_000, metrics.Running: 1} {
				r.Observe(time.Now(), "d", replica, name, v, 1)
			}
			made := 200_000.0
			if replica == "odd" {
				made = 230_000
			}
			r.Observe(time.Now(), "d", replica, metrics.GenerationTokens, made, 1)
		}
		m.keep(t, r.Flush())
		m.watch(t, 5*time.Minute)
		if len(m.told) != 1 || m.told[0] != "firing drift/odd" {
			t.Fatalf("told %v, want the odd replica alone", m.told)
		}
		if drift := m.payloads[0].Figures["drift"]; drift == nil || !near(*drift, 0.03) {
			t.Errorf("drift %v, want 0.03", show(drift))
		}
	})
}
