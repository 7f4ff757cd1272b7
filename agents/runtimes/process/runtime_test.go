package process

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tokenfactory/agents/agenttest"
	"tokenfactory/factory"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		// As much of an agent as is needed to be killed.
		rt := &Runtime{Dir: os.Args[2], Host: "127.0.0.1", Log: slog.New(slog.DiscardHandler)}
		go func() {
			for {
				rt.Apply([]factory.ReplicaSpec{spec("a"), spec("b")})
				time.Sleep(50 * time.Millisecond)
			}
		}()
		_ = rt.Run(context.Background())
		return
	}
	agenttest.Main(m)
}

// machine is a runtime that works, as one life of an agent.
type machine struct {
	*Runtime
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, dir string, leave bool, host ...string) *machine {
	t.Helper()
	m := &machine{Runtime: &Runtime{Dir: dir, Host: append(host, "127.0.0.1")[0], Log: slog.New(slog.DiscardHandler), LeaveRunning: leave}, t: t, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-m.done; err != nil {
			t.Errorf("runtime: %v", err)
		}
	})
	go func() { m.done <- m.Run(ctx) }()
	m.eventually("the runtime works", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.running })
	t.Cleanup(m.stop)
	return m
}

func (m *machine) eventually(what string, is func() bool) {
	m.t.Helper()
	for end := time.Now().Add(60 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("gave up waiting until %s; replicas are %+v", what, m.Observe())
		}
	}
}

func (m *machine) status(id string) factory.ReplicaStatus {
	for _, s := range m.Observe() {
		if s.ID == id {
			return s
		}
	}
	return factory.ReplicaStatus{}
}

// reaches waits for a state and gives the status that had it: a later one may be another.
func (m *machine) reaches(id string, state factory.State) (s factory.ReplicaStatus) {
	m.t.Helper()
	m.eventually(id+" is "+string(state), func() bool { s = m.status(id); return s.State == state })
	return s
}

func spec(id string, args ...string) factory.ReplicaSpec {
	return factory.ReplicaSpec{ID: id, DeploymentID: "d-" + id, Deployment: "chat", Revision: 1, Engine: "sim", Location: "org/model", ServedName: "chat", Args: args}
}

func post(t *testing.T, address string) {
	t.Helper()
	resp, err := http.Post(address, "", nil)
	if err == nil { // an engine told to end does not answer
		resp.Body.Close()
	}
}

func gone(pid int) bool { _, err := look(pid); return err != nil }

func TestAnEngineGoesFromStartToReadyToStopped(t *testing.T) {
	agenttest.Install(t)
	t.Setenv("TOKENFACTORY_JOIN_TOKEN", "tfj-not-for-engines")
	m := start(t, t.TempDir(), false)
	s := spec("a", "--loading", "3s")
	s.Env = map[string]string{"TEST_TOKEN": "hf_very_secret"}
	m.Apply([]factory.ReplicaSpec{s})
	m.eventually("it says that it loads", func() bool {
		s := m.status("a")
		return s.State == factory.Loading && strings.Contains(s.Reason, "Loading model")
	})
	got := m.reaches("a", factory.Ready)
	if got.ServedName != "chat" || got.PID == 0 || got.StartedAt == nil || got.ReadyAt == nil || got.Revision != 1 {
		t.Errorf("%+v", got)
	}
	all := strings.Join(got.LastLines, "\n")
	if !strings.Contains(all, "listening on") || strings.Contains(all, "very_secret") || strings.Contains(all, "not-for-engines") {
		t.Errorf("last lines: %q", got.LastLines)
	}
	if targets := m.Targets(); len(targets) != 1 || targets[0].DeploymentID != "d-a" || targets[0].Run == "" || targets[0].URL != got.URL {
		t.Errorf("targets %+v", targets)
	}
	m.Apply(nil)
	m.reaches("a", factory.Stopped)
	if !gone(got.PID) {
		t.Error("its process still runs")
	}
	m.Forget([]string{"a"})
	if len(m.Observe()) != 0 {
		t.Errorf("still there: %+v", m.Observe())
	}
	if _, err := os.Stat(filepath.Join(m.Dir, "replicas", "a")); !os.IsNotExist(err) {
		t.Errorf("its folder stays: %v", err)
	}
}

func TestOnlyStoppedReplicasAreForgotten(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	pid := m.reaches("a", factory.Ready).PID
	m.Forget([]string{"a", "b"})
	if m.status("a").PID != pid || gone(pid) {
		t.Error("a running replica was forgotten")
	}
}

func TestACrashedEngineIsStartedAgainAndSaysWhy(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	before := m.reaches("a", factory.Ready)
	post(t, before.URL+"/exit?status=3")
	failed := m.reaches("a", factory.Failed)
	if !strings.HasPrefix(failed.Reason, "The engine exited with status 3 after ") || !strings.HasSuffix(failed.Reason, "Next try in 1 s.") {
		t.Errorf("reason %q", failed.Reason)
	}
	if !strings.Contains(failed.Reason, "GPU's memory is too small") {
		t.Errorf("the known cause is not explained: %q", failed.Reason)
	}
	if !slices.ContainsFunc(failed.LastLines, func(l string) bool { return strings.Contains(l, "CUDA out of memory") }) {
		t.Errorf("last lines %q", failed.LastLines)
	}
	after := m.reaches("a", factory.Ready)
	if after.PID == before.PID || after.Restarts != 1 || after.URL != before.URL {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestTriesGetFurtherApart(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a", "--fail", "no such option")})
	var s factory.ReplicaStatus
	m.eventually("it failed twice", func() bool { s = m.status("a"); return strings.Contains(s.Reason, "Next try in 2 s.") })
	if s.State != factory.Failed || !slices.Contains(s.LastLines, "no such option") {
		t.Errorf("%+v", s)
	}
	// A failing replica is stopped without waiting for its next try.
	m.Apply(nil)
	m.reaches("a", factory.Stopped)
}

func TestAnEngineFinishesItsAnswersBeforeItIsTold(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	got := m.reaches("a", factory.Ready)
	post(t, got.URL+"/running?n=1")
	m.Apply(nil)
	m.reaches("a", factory.Stopping)
	time.Sleep(settle + 4*drainEvery)
	if gone(got.PID) {
		t.Fatal("it was told to end in the middle of an answer")
	}
	post(t, got.URL+"/running?n=0")
	m.reaches("a", factory.Stopped)
}

func TestAnotherRevisionStopsTheOldEngineFirst(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	before := m.reaches("a", factory.Ready)
	next := spec("a")
	next.Revision, next.ServedName = 2, "other"
	m.Apply([]factory.ReplicaSpec{next})
	m.eventually("the new revision serves", func() bool { s := m.status("a"); return s.Revision == 2 && s.State == factory.Ready })
	after := m.status("a")
	if after.ServedName != "other" || after.PID == before.PID || !gone(before.PID) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestAnEngineThatMakesNoTokenIsNotReady(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	renamed := spec("b", "--model", "renamed")
	m.Apply([]factory.ReplicaSpec{spec("a", "--mute"), renamed})
	m.eventually("reasons are known", func() bool {
		return strings.Contains(m.status("a").Reason, "without a token") && strings.Contains(m.status("b").Reason, "it serves renamed and not chat")
	})
	for _, id := range []string{"a", "b"} {
		if s := m.status(id); s.State != factory.Loading {
			t.Errorf("%s is %s", id, s.State)
		}
	}
}

func TestAnEngineThatLosesItsHealthIsNotReadyAnyMore(t *testing.T) {
	if testing.Short() {
		t.Skip("health checks are seconds apart")
	}
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	s := m.reaches("a", factory.Ready)
	post(t, s.URL+"/break?on=1")
	lost := m.reaches("a", factory.Loading)
	if !strings.Contains(lost.Reason, "does no more") && !strings.Contains(lost.Reason, "does not serve yet") || lost.PID != s.PID {
		t.Errorf("%+v", lost)
	}
	post(t, s.URL+"/break")
	m.reaches("a", factory.Ready)
}

func TestAStubbornEngineIsKilledWhenTheAgentGoes(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a", "--stubborn")})
	pid := m.reaches("a", factory.Ready).PID
	m.stop()
	if !gone(pid) {
		t.Error("it still runs")
	}
	if s := m.status("a"); s.State != factory.Stopped || !strings.Contains(s.Reason, "agent was stopped") {
		t.Errorf("%+v", s)
	}
	// Nothing is lost: the next life starts it again.
	m2 := start(t, m.Dir, false)
	m2.Apply([]factory.ReplicaSpec{spec("a")})
	m2.reaches("a", factory.Ready)
}

func TestEnginesLeftRunningAreAdopted(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), true)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	before := m.reaches("a", factory.Ready)
	m.stop()
	if gone(before.PID) {
		t.Fatal("it was stopped")
	}
	m2 := start(t, m.Dir, false)
	// Before the server has spoken: no request has to wait for it.
	after := m2.reaches("a", factory.Ready)
	if after.PID != before.PID || after.URL != before.URL || after.Restarts != 0 || after.ServedName != "chat" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if m2.Targets()[0].Run != m.Targets()[0].Run {
		t.Error("its counters would be taken for those of another process")
	}
	// The end of an adopted engine is noticed although it is not our child.
	post(t, after.URL+"/exit?status=1")
	m2.reaches("a", factory.Failed)
	m2.Apply([]factory.ReplicaSpec{spec("a")})
	again := m2.reaches("a", factory.Ready)
	m2.stop()
	if !gone(again.PID) {
		t.Error("it still runs")
	}
}

func TestAnEngineStartedButNotYetRecordedIsFound(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), true)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	before := m.reaches("a", factory.Ready)
	m.stop()
	rec := m.replicas["a"].rec
	rec.PID, rec.StartTicks, rec.Launching = 0, 0, true // killed between start and record
	if err := rec.save(filepath.Join(m.Dir, "replicas", "a")); err != nil {
		t.Fatal(err)
	}
	m2 := start(t, m.Dir, false)
	m2.Apply([]factory.ReplicaSpec{spec("a")})
	if after := m2.reaches("a", factory.Ready); after.PID != before.PID {
		t.Errorf("started twice: %d and %d", before.PID, after.PID)
	}
}

func TestEnginesOfAKilledAgentAreAdoptedAndNeverDoubled(t *testing.T) {
	agenttest.Install(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// Killed at different moments: before, while and after its engines are recorded.
	for i := range 12 {
		agent := exec.Command(self, "agent", dir)
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 15 * time.Millisecond)
		_ = agent.Process.Kill()
		_ = agent.Wait()
	}
	m := start(t, dir, false)
	m.Apply([]factory.ReplicaSpec{spec("a"), spec("b")})
	for _, id := range []string{"a", "b"} {
		s := m.reaches(id, factory.Ready)
		if pids := marked(m.replicas[id].mark()); len(pids) != 1 || pids[0] != s.PID {
			t.Errorf("replica %s is process %d, and these run: %v", id, s.PID, pids)
		}
	}
}

func TestAnEngineThatListensElsewhereIsStartedAnew(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), true)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	before := m.reaches("a", factory.Ready)
	m.stop()
	m2 := start(t, m.Dir, false, "127.0.0.2")
	m2.Apply([]factory.ReplicaSpec{spec("a")})
	m2.eventually("it serves where the machine is now", func() bool {
		s := m2.status("a")
		return s.State == factory.Ready && strings.HasPrefix(s.URL, "http://127.0.0.2:")
	})
	if !gone(before.PID) {
		t.Error("the old one still runs")
	}
}

func TestAProcessWithAUsedNumberIsNotAdopted(t *testing.T) {
	rec := record{PID: os.Getpid(), Boot: bootID()}
	self, err := look(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	rec.StartTicks = self.ticks
	if !rec.alive() {
		t.Error("this process is not found alive")
	}
	rec.StartTicks--
	if rec.alive() {
		t.Error("a process that was started at another time is taken for ours")
	}
	rec.StartTicks++
	rec.Boot = "another"
	if rec.alive() {
		t.Error("a process of another boot is taken for ours")
	}
}

func TestWhatIsNotWantedAnyMoreIsStoppedAfterAKill(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), true)
	m.Apply([]factory.ReplicaSpec{spec("a"), spec("b")})
	a, b := m.reaches("a", factory.Ready), m.reaches("b", factory.Ready)
	m.stop()
	m2 := start(t, m.Dir, false)
	m2.Apply([]factory.ReplicaSpec{spec("b")})
	m2.reaches("a", factory.Stopped)
	if !gone(a.PID) || gone(b.PID) {
		t.Error("the wrong engine was stopped")
	}
}

func TestWorkersOfADeadEngineAreKilled(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "worker")
	// An engine whose worker has a group of its own and outlives it.
	script := "#!/bin/sh\nsetsid sleep 300 & echo $! > " + file + "\nsleep 0.2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "tokenfactory"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m := start(t, t.TempDir(), false)
	m.Apply([]factory.ReplicaSpec{spec("a")})
	m.reaches("a", factory.Failed)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil {
		t.Fatal(err)
	}
	m.eventually("the worker is gone", func() bool { return gone(pid) })
}

func TestAMissingProgramSaysHowToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	m := start(t, t.TempDir(), false)
	s := spec("a")
	s.Engine = "vllm"
	m.Apply([]factory.ReplicaSpec{s})
	if got := m.reaches("a", factory.Failed); !strings.Contains(got.Reason, "pip install vllm") || !strings.Contains(got.Reason, "Next try in") {
		t.Errorf("reason %q", got.Reason)
	}
}

func TestAWatchedEngineIsServedAndNeverStopped(t *testing.T) {
	theirs := httptest.NewServer(agenttest.Handler("their/model", time.Now(), false))
	defer theirs.Close()
	m := start(t, t.TempDir(), false)
	s := spec("a")
	s.Engine, s.Address = "vllm", theirs.URL+"/v1/"
	m.Apply([]factory.ReplicaSpec{s})
	got := m.reaches("a", factory.Ready)
	if got.ServedName != "their/model" || got.URL != theirs.URL || got.PID != 0 {
		t.Errorf("%+v", got)
	}
	if targets := m.Targets(); len(targets) != 1 || targets[0].Run != "" || targets[0].URL != theirs.URL {
		t.Errorf("targets %+v", targets)
	}
	m.Apply(nil)
	m.reaches("a", factory.Stopped)
	if resp, err := http.Get(theirs.URL + "/health"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("it was stopped: %v", err)
	}
}

func TestAWatchedEngineThatIsAwaySaysSo(t *testing.T) {
	m := start(t, t.TempDir(), false)
	s := spec("a")
	s.Address = "http://127.0.0.1:1"
	m.Apply([]factory.ReplicaSpec{s})
	if got := m.reaches("a", factory.Failed); !strings.Contains(got.Reason, "Nothing answers at http://127.0.0.1:1: connection refused") {
		t.Errorf("reason %q", got.Reason)
	}
}

func TestLoopbackIsTranslatedForTheGateway(t *testing.T) {
	for _, c := range []struct{ base, host, want string }{
		{"http://127.0.0.1:8000", "10.0.0.5", "http://10.0.0.5:8000"},
		{"http://localhost:8000", "10.0.0.5", "http://10.0.0.5:8000"},
		{"http://0.0.0.0:8000/x", "gpu1.lan", "http://gpu1.lan:8000/x"},
		{"http://[::1]:8000", "fd00::5", "http://[fd00::5]:8000"},
		{"https://localhost", "fd00::5", "https://[fd00::5]"},
		{"http://127.0.0.1:8000", "127.0.0.1", "http://127.0.0.1:8000"},
		{"http://192.168.1.2:8000", "10.0.0.5", "http://192.168.1.2:8000"},
	} {
		if got := seenFromGateway(c.base, c.host); got != c.want {
			t.Errorf("%s from %s is %s, want %s", c.base, c.host, got, c.want)
		}
		if _, err := url.Parse(c.want); err != nil {
			t.Error(err)
		}
	}
}

func TestReplicasWithTheSameMomentGetDifferentPorts(t *testing.T) {
	agenttest.Install(t)
	m := start(t, t.TempDir(), false)
	var specs []factory.ReplicaSpec
	for i := range 4 {
		specs = append(specs, spec(fmt.Sprint("r", i)))
	}
	m.Apply(specs)
	urls := map[string]bool{}
	for _, s := range specs {
		urls[m.reaches(s.ID, factory.Ready).URL] = true
	}
	if len(urls) != len(specs) {
		t.Errorf("addresses %v", urls)
	}
	_ = syscall.Kill(m.status("r0").PID, syscall.SIGKILL)
	if s := m.reaches("r0", factory.Failed); !strings.Contains(s.Reason, "was killed") {
		t.Errorf("reason %q", s.Reason)
	}
}
