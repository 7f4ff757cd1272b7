package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"tokenfactory/factory"
)

// replicaPID is the process of the deployment's only replica, and its state.
func (h *house) replicaPID(deployment string) (pid int, state string) {
	h.t.Helper()
	d := h.deployment(deployment)
	if len(d.Copies) != 1 {
		return 0, ""
	}
	return d.Copies[0].PID, d.Copies[0].State
}

const hello = `{"model":"` + smallModel + `","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`

// Whatever is killed, the system comes back without hands: an agent adopts its
// engine instead of loading the model again, and a killed engine is started anew.
func TestKilledAgentsAndEnginesComeBackWithoutHands(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "")
	made := h.apply(oneEngine)
	key := secret(t, made, "key", "app", "key")
	data := t.TempDir()
	args := []string{"--server", h.base, "--data", data, "--runtime", "process"}
	agent := start(t, nil, binary(t, "tokenfactory-agent"), append(args, "--token", secret(t, made, "cluster", "bench", "join_token"))...)
	serves := func() bool {
		_, _, err := chat(context.Background(), h.base, key, hello)
		return err == nil
	}
	h.wait("the engine serves", serves)
	before, _ := h.replicaPID("small")
	if before == 0 {
		t.Fatal("the replica has no process")
	}

	agent.kill()
	if !serves() {
		t.Error("the engine went with its agent")
	}
	// The credential is in the data folder; no token is needed again.
	agent = start(t, nil, binary(t, "tokenfactory-agent"), args...)
	h.wait("the agent has taken its engine over", func() bool { return strings.Contains(agent.out.String(), "adopt") })
	// The replica is not ready while its adopted engine is looked at again, so state and process are one question.
	h.wait("the replica is ready with the same process", func() bool { pid, state := h.replicaPID("small"); return state == "ready" && pid == before })
	if strings.Contains(agent.out.String(), "an engine is started") {
		t.Error("an engine was started beside the one that was adopted")
	}

	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.wait("another engine serves", func() bool { pid, state := h.replicaPID("small"); return state == "ready" && pid != before && pid != 0 })
	h.wait("requests are answered", serves)

	// An agent that is told to stop takes its engines along, and says so.
	agent.stop()
	h.wait("the deployment is not ready any more", func() bool { _, state := h.replicaPID("small"); return state != "ready" })
}

// A server that was away for longer than a machine may be silent serves from its
// first moment on: nobody could report to it, and agents come back one by one.
func TestServerThatWasAwayServesAtOnce(t *testing.T) {
	t.Parallel()
	h, key, _ := serving(t, "")
	h.serve.kill()
	time.Sleep(factory.OfflineAfter + 5*time.Second)
	h.startServe()
	if _, _, err := chat(context.Background(), h.base, key, hello); err != nil {
		t.Errorf("the first request is answered: %v", err)
	}
	if _, state := h.replicaPID("small"); state != "ready" {
		t.Errorf("the replica is %s", state)
	}
}
