package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

type login struct{ Email, Password string }

// demo is what `tokenfactory demo --json` says when it is ready.
type demo struct {
	Console, V1      string
	Operator, Tenant login
	Key              string
	Models           []string
	Deployments      []struct{ ID, Model string }

	process *process
}

// startDemo starts a demo of its own for a test.
func startDemo(t *testing.T) *demo {
	t.Helper()
	p := start(t, nil, binary(t, "tokenfactory"), "demo", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--json")
	d := &demo{process: p}
	waitFor(t, 2*time.Minute, "the demo is ready", func() bool {
		select {
		case <-p.done:
			t.Fatalf("the demo ended:\n%s", p.out)
		default:
		}
		for line := range strings.Lines(p.out.String()) {
			if strings.HasPrefix(line, "{") {
				return json.Unmarshal([]byte(line), d) == nil
			}
		}
		return false
	})
	return d
}

func TestDemoSaysWhatScriptsNeedAndStopsCleanly(t *testing.T) {
	d := startDemo(t)
	if d.V1 != d.Console+"/v1" || d.Operator.Password == "" || d.Tenant.Password == "" || len(d.Models) == 0 || len(d.Deployments) < 3 {
		t.Fatalf("incomplete: %+v", d)
	}
	for _, model := range d.Models {
		answer, _, err := chat(t.Context(), d.Console, d.Key, fmt.Sprintf(`{"model":%q,"max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`, model))
		if err != nil {
			t.Errorf("%s: %v %s", model, err, answer)
		}
	}
	began := time.Now()
	if err := d.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.process.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the demo does not stop")
	}
	t.Logf("stopped after %s", time.Since(began).Round(10*time.Millisecond))
	if code := d.process.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if _, err := http.Get(d.Console); err == nil {
		t.Error("something still answers at the demo's address")
	}
}
