package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// marks are a deployment's events, oldest first: "config: …".
func marks(t *testing.T, s *store.Store, deploymentID string) []string {
	t.Helper()
	var out []string
	for _, e := range must[[]factory.Event](t)(s.Events(t.Context(), deploymentID, time.Time{}, time.Now().AddDate(10, 0, 0))) {
		out = append(out, string(e.Kind)+": "+e.Text)
	}
	slices.Reverse(out)
	return out
}

func TestWhatHappensToADeploymentLeavesAMark(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		var want []string
		expect := func(texts ...string) {
			t.Helper()
			want = append(want, texts...)
			if got := marks(t, s, "d1"); !slices.Equal(got, want) {
				t.Fatalf("marks\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		}
		d := w.deployment
		save := func(at time.Duration, change func(d *factory.Deployment)) {
			t.Helper()
			d.UpdatedAt = start.Add(at)
			change(&d)
			ok(t, s.SaveDeployment(ctx, d))
		}
		expect("deploy: Deployed with vllm.")
		save(time.Second, func(*factory.Deployment) {})
		save(2*time.Second, func(d *factory.Deployment) { d.TenantIDs = nil; d.SharedWithAll = true })
		expect() // no chart shows with whom it is shared
		save(3*time.Second, func(d *factory.Deployment) { d.Replicas = 3 })
		expect("scale: Replicas changed from 2 to 3.")
		save(4*time.Second, func(d *factory.Deployment) { d.TTFTTargetMS = 0; d.ObjectivePercent = 99.9 })
		expect("config: TTFT target changed from 300 ms to 500 ms. Objective changed from 95 % to 99.9 %.")
		save(5*time.Second, func(d *factory.Deployment) { d.Revision++ })
		expect("restart: Every engine was told to start anew.")
		save(6*time.Second, func(d *factory.Deployment) {
			d.Revision++
			d.EngineArgs, d.EngineEnv = []string{"--api-key=secret", "--max-num-seqs", "8"}, map[string]string{"A": "secret"}
		})
		expect("config: Engine arguments changed from --max-num-seqs to --api-key --max-num-seqs. Environment variables of the engine changed. Every engine starts anew.")
		save(7*time.Second, func(d *factory.Deployment) {
			d.EngineArgs = []string{"--api-key=other", "--max-num-seqs", "8"}
			p := factory.DeploymentSpec{Free: true}.Price()
			d.Price = &p
		})
		expect("config: Values of engine arguments changed. Price changed from 0.15 / 0.03 / 0.60 USD (input / cached / output) to free.")
		ok(t, s.SetDeploymentStopped(ctx, "d1", true))
		ok(t, s.SetDeploymentStopped(ctx, "d1", true))
		expect("deploy: Stopped.")
		wantKind(t, s.SleepDeployment(ctx, "d1"), factory.Conflict)
		ok(t, s.SetDeploymentStopped(ctx, "d1", false))
		for range 2 {
			ok(t, s.SleepDeployment(ctx, "d1"))
		}
		for range 2 {
			ok(t, s.WakeDeployment(ctx, "d1"))
		}
		ok(t, s.WakeDeployment(ctx, "gone"))
		expect("deploy: Started.", "deploy: Put to sleep.", "deploy: Woken.")
		ok(t, s.DeleteDeployment(ctx, "d1", time.Now().Add(time.Hour)))
		expect("deploy: Deleted.")
		// What fails leaves none.
		wantKind(t, s.SaveDeployment(ctx, d), factory.NotFound)
		expect()
	})
}

func TestARestartOfAnEngineLeavesAMark(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		node := w.join(t, "a", "m-a", start)
		w.place(t, "r1", node.ID)
		w.place(t, "r2", node.ID)
		ok(t, s.SetReplicaStopping(ctx, "r2"))
		report := func(at time.Duration, state factory.State, restarts int, reason string) {
			t.Helper()
			status := factory.ReplicaStatus{ID: "r1", State: state, Restarts: restarts, Reason: reason}
			other := status
			other.ID = "r2" // told to stop: what it does on its way is no news
			ok(t, s.SaveReport(ctx, node.ID, factory.NodeReport{ReceivedAt: start.Add(at), Replicas: []factory.ReplicaStatus{status, other}}, nil))
		}
		report(time.Second, factory.Ready, 0, "")
		report(2*time.Second, factory.Starting, 1, "Out of memory.")
		report(3*time.Second, factory.Starting, 1, "Out of memory.")
		report(4*time.Second, factory.Failed, 1, "Still no memory.")
		report(5*time.Second, factory.Ready, 0, "") // it has served for long: the count begins anew
		report(6*time.Second, factory.Failed, 0, "It said "+strings.Repeat("é", 1000)+"\x00")
		got := must[[]factory.Event](t)(s.Events(ctx, "d1", start.Add(time.Second), start.Add(time.Minute)))
		if len(got) != 2 || got[0].Kind != factory.EventRestart || !got[0].At.Equal(start.Add(6*time.Second)) ||
			!strings.HasPrefix(got[0].Text, "The engine on a failed. It said é") || len([]rune(got[0].Text)) != 400 ||
			got[1].Text != "The engine on a began anew. Out of memory." || !got[1].At.Equal(start.Add(2*time.Second)) {
			t.Errorf("events %+v", got)
		}
	})
}

func TestEventsAreReadByRange(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		event := func(id string, at time.Time) factory.Event {
			return factory.Event{ID: id, DeploymentID: "d1", Kind: factory.EventAlert, Text: "Alert firing: it burns.", Actor: "ada@example.org", At: at}
		}
		var all []factory.Event
		for i := range 600 {
			e := event(fmt.Sprintf("e%03d", i), start.Add(time.Duration(i)*time.Second))
			all = append(all, e)
			ok(t, s.RecordEvent(ctx, e))
		}
		other := event("x", start)
		other.DeploymentID = "d2"
		ok(t, s.RecordEvent(ctx, other))
		slices.Reverse(all)
		if got := must[[]factory.Event](t)(s.Events(ctx, "d1", start, start.Add(time.Hour))); !reflect.DeepEqual(got, all[:500]) {
			t.Errorf("%d events, from %+v", len(got), got[0])
		}
		if got := must[[]factory.Event](t)(s.Events(ctx, "d1", start.Add(time.Second), start.Add(3*time.Second))); !reflect.DeepEqual(got, all[597:599]) {
			t.Errorf("events %+v", got)
		}
		ok(t, s.SweepEvents(ctx, start.Add(400*24*time.Hour+time.Second)))
		if got := must[[]factory.Event](t)(s.Events(ctx, "d1", start, start.Add(2*time.Second))); !reflect.DeepEqual(got, all[598:599]) {
			t.Errorf("after a sweep: %+v", got)
		}
	})
}
