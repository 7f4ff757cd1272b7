package agents

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tokenfactory/factory"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// stage is a fleet to plan for, changed by each test.
type stage struct {
	deployments []factory.Deployment
	replicas    []factory.Replica
	nodes       []factory.Node
	made        int
}

func (s *stage) node(name string, gpus ...string) *factory.Node {
	n := factory.Node{ID: "n-" + name, ClusterID: "c", Name: name, Runtime: "process", LastSeenAt: noon}
	n.Hardware = factory.Hardware{Arch: "amd64", CUDA: "13.0", Engines: []factory.EngineCheck{{Engine: "vllm", OK: true}, {Engine: "sim", OK: true}}}
	for i, product := range gpus {
		memory := int64(80 << 30)
		n.Hardware.GPUs = append(n.Hardware.GPUs, factory.GPU{UUID: fmt.Sprintf("GPU-%s-%d", name, i), Index: i, Name: product, ComputeCap: "9.0", MemoryBytes: &memory})
	}
	s.nodes = append(s.nodes, n)
	return &s.nodes[len(s.nodes)-1]
}

func (s *stage) deployment(name string, replicas, gpus int) *factory.Deployment {
	d := factory.Deployment{ID: "d-" + name, Name: name, ClusterID: "c", Revision: 1, CreatedAt: noon.Add(time.Duration(len(s.deployments)) * time.Minute)}
	d.Cluster, d.Engine, d.Replicas, d.GPUCount = "rack", "vllm", replicas, gpus
	if gpus == 0 {
		d.Engine = "sim"
	}
	s.deployments = append(s.deployments, d)
	return &s.deployments[len(s.deployments)-1]
}

// apply does to the stage what the controller would do to the store.
func (s *stage) apply(t *testing.T) []string {
	t.Helper()
	var did []string
	for _, st := range plan(s.deployments, s.replicas, s.nodes, noon) {
		r := st.replica
		i := slices.IndexFunc(s.replicas, func(x factory.Replica) bool { return x.ID == r.ID })
		switch st.do {
		case create:
			r.ID, r.CreatedAt = fmt.Sprint("r", s.made, "-", strings.TrimPrefix(r.DeploymentID, "d-")), noon.Add(time.Duration(s.made)*time.Second)
			s.made++
			s.replicas = append(s.replicas, r)
			did = append(did, "create "+r.ID+" on "+r.NodeName)
		case place:
			s.replicas[i] = r
			did = append(did, "place "+r.ID+" on "+r.NodeName)
		case revise:
			s.replicas[i].Revision, s.replicas[i].State = r.Revision, factory.Starting
			did = append(did, "revise "+r.ID)
		case stop:
			s.replicas[i].Stopping = true
			did = append(did, "stop "+r.ID)
		case forget:
			s.replicas = slices.Delete(s.replicas, i, i+1)
			did = append(did, "forget "+r.ID)
		}
	}
	return did
}

// agents lets every agent do its part: what stops is gone, the rest serves.
func (s *stage) agents() {
	s.replicas = slices.DeleteFunc(s.replicas, func(r factory.Replica) bool { return r.Stopping && r.NodeID != "" })
	for i := range s.replicas {
		if s.replicas[i].NodeID != "" {
			s.replicas[i].State = factory.Ready
		}
	}
}

func (s *stage) ids(keep func(factory.Replica) bool) []string {
	var out []string
	for _, r := range s.replicas {
		if keep(r) {
			out = append(out, r.ID)
		}
	}
	return out
}

func live(r factory.Replica) bool { return !r.Stopping }

// rests fails when there is still something to do; nothing may be done for ever.
func (s *stage) rests(t *testing.T) {
	t.Helper()
	if did := s.apply(t); did != nil {
		t.Errorf("did %v again", did)
	}
}

const h100 = "NVIDIA H100 80GB HBM3"

func TestReplicasAreSpreadAndGetDevicesOfTheirOwn(t *testing.T) {
	var s stage
	s.node("a", h100, h100, h100, h100)
	s.node("b", h100, h100, h100, h100)
	s.deployment("chat", 2, 2)
	s.deployment("code", 2, 2)
	s.apply(t)
	held := map[string]string{}
	on := map[string]int{}
	for _, r := range s.replicas {
		on[r.DeploymentID+r.NodeName]++
		if len(r.GPUUUIDs) != 2 || r.State != factory.Pending || !strings.Contains(r.Reason, r.NodeName) {
			t.Errorf("%+v", r)
		}
		for _, uuid := range r.GPUUUIDs {
			if held[uuid] != "" {
				t.Errorf("%s is given to %s and %s", uuid, held[uuid], r.ID)
			}
			held[uuid] = r.ID
		}
	}
	if len(held) != 8 || len(on) != 4 {
		t.Errorf("devices %v, replicas %v", held, on)
	}
	s.agents()
	s.rests(t)
}

func TestWhatFindsNoRoomWaitsAndSaysWhyForEveryMachine(t *testing.T) {
	for what, c := range map[string]struct {
		set  func(s *stage, d *factory.Deployment)
		want []string
	}{
		"no machine": {func(s *stage, d *factory.Deployment) {}, []string{"Cluster rack has no machine yet."}},
		"silent":     {func(s *stage, d *factory.Deployment) { s.node("a", h100).LastSeenAt = noon.Add(-time.Hour) }, []string{"a: it is silent."}},
		"no GPU":     {func(s *stage, d *factory.Deployment) { s.node("a") }, []string{"a: ", "GPU"}},
		"another product": {func(s *stage, d *factory.Deployment) { s.node("a", "NVIDIA L4"); d.GPU = h100 },
			[]string{"a: it has no " + h100 + " that can be used."}},
		"too few": {func(s *stage, d *factory.Deployment) { s.node("a", h100); s.node("b"); d.GPUCount = 2 },
			[]string{"a: it has 1 GPU, and 2 are wanted.", "b: "}},
		"taken": {func(s *stage, d *factory.Deployment) {
			n := s.node("a", h100, h100)
			s.replicas = append(s.replicas, factory.Replica{ID: "x", DeploymentID: "gone", NodeID: n.ID, Stopping: true, GPUUUIDs: []string{"GPU-a-0"}})
			d.GPUCount = 2
		}, []string{"1 of 2 GPU are free, and 2 are wanted; 1 more become free when what is stopping has stopped."}},
		"unhealthy": {func(s *stage, d *factory.Deployment) { s.node("a", h100).Hardware.GPUs[0].Unhealthy = "broken" }, []string{"a: ", "broken"}},
		"cut":       {func(s *stage, d *factory.Deployment) { s.node("a", h100).Hardware.GPUs[0].Partitioned = true }, []string{"a: "}},
		"not installed": {func(s *stage, d *factory.Deployment) {
			s.node("a", h100).Hardware.Engines[0] = factory.EngineCheck{Engine: "vllm", Reason: "vLLM is not installed here."}
		}, []string{"a: vLLM is not installed here."}},
		"two slices": {func(s *stage, d *factory.Deployment) {
			n := s.node("a", h100, h100)
			for i := range n.Hardware.GPUs {
				n.Hardware.GPUs[i].MIGProfile = "3g.40gb"
			}
			d.GPUCount = 2
		}, []string{"one MIG slice only"}},
		"another cluster": {func(s *stage, d *factory.Deployment) { s.node("a", h100).ClusterID = "other" }, []string{"has no machine yet"}},
	} {
		var s stage
		d := s.deployment("chat", 1, 1)
		c.set(&s, d)
		s.apply(t)
		waiting := slices.DeleteFunc(slices.Clone(s.replicas), func(r factory.Replica) bool { return r.DeploymentID != d.ID })
		if len(waiting) != 1 || waiting[0].NodeID != "" || waiting[0].State != factory.Pending {
			t.Errorf("%s: %+v", what, waiting)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(waiting[0].Reason, want) {
				t.Errorf("%s: the reason is %q, without %q", what, waiting[0].Reason, want)
			}
		}
		s.rests(t)
	}
}

func TestAWaitingReplicaIsPlacedWhenThereIsRoom(t *testing.T) {
	var s stage
	s.deployment("chat", 1, 1)
	s.apply(t)
	s.node("a", h100).LastSeenAt = noon.Add(-time.Hour)
	if did := s.apply(t); len(did) != 1 || !strings.Contains(s.replicas[0].Reason, "silent") {
		t.Errorf("did %v; %+v", did, s.replicas)
	}
	s.nodes[0].LastSeenAt = noon
	s.apply(t)
	if r := s.replicas[0]; len(s.replicas) != 1 || r.NodeName != "a" || !slices.Equal(r.GPUUUIDs, []string{"GPU-a-0"}) {
		t.Errorf("%+v", s.replicas)
	}
}

func TestTheOldestWaitingDeploymentGetsTheRoom(t *testing.T) {
	var s stage
	s.deployment("zz", 1, 1)
	s.deployment("aa", 1, 1)
	s.node("a", h100)
	s.apply(t)
	for _, r := range s.replicas {
		if (r.NodeID != "") != (r.DeploymentID == "d-zz") {
			t.Errorf("%+v", r)
		}
	}
}

func TestGapsStayWhole(t *testing.T) {
	var s stage
	s.node("big", h100, h100, h100, h100)
	s.node("small", h100)
	s.deployment("one", 1, 1)
	s.apply(t)
	if s.replicas[0].NodeName != "small" {
		t.Errorf("placed on %s", s.replicas[0].NodeName)
	}
}

func TestAReplicaWithoutGPUsGetsNone(t *testing.T) {
	var s stage
	s.node("a", h100)
	s.deployment("cpu", 3, 0)
	s.apply(t)
	for _, r := range s.replicas {
		if r.NodeName != "a" || len(r.GPUUUIDs) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestAnEngineThatRunsAlreadyNeedsNoInstalledEngineAndOneWatcher(t *testing.T) {
	var s stage
	s.node("a").Hardware.Engines = nil
	d := s.deployment("theirs", 3, 0)
	d.Address, d.Engine = "http://127.0.0.1:8000", "vllm"
	s.apply(t)
	if len(s.replicas) != 1 || s.replicas[0].NodeName != "a" {
		t.Errorf("%+v", s.replicas)
	}
	s.agents()
	s.rests(t)
}

func TestFewerReplicasStopTheNewestAndThoseThatDoNotServe(t *testing.T) {
	var s stage
	s.node("a", h100, h100, h100, h100)
	d := s.deployment("chat", 4, 1)
	s.apply(t)
	s.agents()
	s.replicas[1].State = factory.Failed
	d.Replicas = 2
	s.apply(t)
	if got := s.ids(live); !slices.Equal(got, []string{"r0-chat", "r2-chat"}) {
		t.Errorf("live are %v", got)
	}
	s.rests(t)
}

func TestStoppedAndDeletedDeploymentsLoseAllReplicas(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		var s stage
		s.node("a", h100)
		d := s.deployment("chat", 2, 1)
		s.apply(t) // one runs, one waits
		s.agents()
		if deleted {
			s.deployments = nil
		} else {
			d.Stopped = true
		}
		s.apply(t)
		if len(s.replicas) != 1 || !s.replicas[0].Stopping {
			t.Errorf("deleted %v: %+v", deleted, s.replicas)
		}
		s.rests(t)
		if !settled(s.deployments, s.replicas) {
			t.Errorf("deleted %v: not settled", deleted)
		}
	}
}

func TestASleepingDeploymentHoldsNothingUntilItWakes(t *testing.T) {
	var s stage
	s.node("a", h100)
	d := s.deployment("chat", 2, 1)
	s.apply(t) // one runs, one waits
	s.agents()
	d.Asleep = true
	s.apply(t)
	if len(s.replicas) != 1 || !s.replicas[0].Stopping {
		t.Errorf("going to sleep: %+v", s.replicas)
	}
	s.rests(t)
	s.agents()
	s.rests(t)
	if len(s.replicas) != 0 || !settled(s.deployments, s.replicas) {
		t.Errorf("asleep: %+v", s.replicas)
	}
	d.Asleep = false
	if settled(s.deployments, s.replicas) {
		t.Error("awake, and the controller sees nothing to do")
	}
	s.apply(t)
	if placed := s.ids(func(r factory.Replica) bool { return r.NodeID != "" }); len(s.replicas) != 2 || len(placed) != 1 {
		t.Errorf("awake: %+v", s.replicas)
	}
}

func TestWokenWhileItGoesToSleepItStartsWhenThereIsRoom(t *testing.T) {
	var s stage
	s.node("a", h100)
	d := s.deployment("chat", 1, 1)
	s.apply(t)
	s.agents()
	d.Asleep = true
	s.apply(t)
	d.Asleep = false
	s.apply(t) // the old one still holds the device
	s.agents()
	s.apply(t)
	if len(s.replicas) != 1 || s.replicas[0].Stopping || s.replicas[0].NodeID == "" {
		t.Errorf("%+v", s.replicas)
	}
}

func TestReplicasOfARemovedMachineMoveOn(t *testing.T) {
	var s stage
	s.node("a", h100)
	s.deployment("chat", 1, 1)
	s.apply(t)
	s.agents()
	s.nodes = nil
	s.node("b", h100)
	did := s.apply(t)
	if !slices.Contains(did, "forget r0-chat") || len(s.replicas) != 1 || s.replicas[0].NodeName != "b" {
		t.Errorf("did %v: %+v", did, s.replicas)
	}
}

func TestASilentMachineKeepsItsReplicas(t *testing.T) {
	var s stage
	s.node("a", h100).LastSeenAt = noon.Add(-time.Hour)
	s.node("b", h100)
	s.deployment("chat", 1, 1)
	s.replicas = []factory.Replica{{ID: "r0", DeploymentID: "d-chat", NodeID: "n-a", Revision: 1, State: factory.Ready, GPUUUIDs: []string{"GPU-a-0"}}}
	s.rests(t)
}

func TestAnEditTakesOneReplicaAwayAtATime(t *testing.T) {
	var s stage
	s.node("a", h100, h100, h100)
	d := s.deployment("chat", 3, 1)
	s.apply(t)
	s.agents()
	d.Revision = 2
	for round := range 3 {
		if did := s.apply(t); len(did) != 1 || !strings.HasPrefix(did[0], "revise ") {
			t.Errorf("round %d: did %v", round, did)
		}
		s.rests(t) // until the one that was changed serves
		s.agents()
	}
	s.rests(t)
	if !settled(s.deployments, s.replicas) {
		t.Error("not settled")
	}
}

func TestARevisionThatDoesNotComeUpTakesOneReplica(t *testing.T) {
	var s stage
	s.node("a", h100, h100, h100)
	d := s.deployment("chat", 3, 1)
	s.apply(t)
	s.agents()
	d.Revision = 2
	s.apply(t)
	broken := slices.IndexFunc(s.replicas, func(r factory.Replica) bool { return r.Revision == 2 })
	s.replicas[broken].State = factory.Failed
	s.rests(t)
	// The repair goes to the broken one first, and then on.
	d.Revision = 3
	if did := s.apply(t); !slices.Equal(did, []string{"revise " + s.replicas[broken].ID}) {
		t.Errorf("did %v", did)
	}
	s.agents()
	if did := s.apply(t); len(did) != 1 {
		t.Errorf("did %v", did)
	}
}

func TestAnEditThatNeedsOtherDevicesReplacesReplicas(t *testing.T) {
	var s stage
	s.node("a", h100, h100)
	d := s.deployment("chat", 2, 1)
	s.apply(t)
	s.agents()
	d.Revision, d.GPUCount, d.Replicas = 2, 2, 1
	for range 6 {
		s.apply(t)
		s.agents()
	}
	if len(s.replicas) != 1 || len(s.replicas[0].GPUUUIDs) != 2 || s.replicas[0].Revision != 2 {
		t.Errorf("%+v", s.replicas)
	}
	s.rests(t)
}

func TestTwoLargerReplicasDoNotWaitForEachOther(t *testing.T) {
	var s stage
	s.node("a", h100, h100)
	d := s.deployment("chat", 2, 1)
	s.apply(t)
	s.agents()
	// Each wants both devices: one can run, and it must not wait for the other's.
	d.Revision, d.GPUCount = 2, 2
	for range 8 {
		s.apply(t)
		s.agents()
	}
	placed := s.ids(func(r factory.Replica) bool { return r.NodeID != "" })
	if len(s.replicas) != 2 || len(placed) != 1 {
		t.Errorf("%+v", s.replicas)
	}
}

func TestAFailedReplicaLeavesABrokenCard(t *testing.T) {
	var s stage
	n := s.node("a", h100, h100)
	s.deployment("chat", 1, 1)
	s.apply(t)
	s.agents()
	n.Hardware.GPUs[0].Unhealthy = "broken"
	s.rests(t) // as long as it serves it stays
	s.replicas[0].State = factory.Failed
	for range 4 {
		s.apply(t)
		s.agents()
	}
	if len(s.replicas) != 1 || !slices.Equal(s.replicas[0].GPUUUIDs, []string{"GPU-a-1"}) {
		t.Errorf("%+v", s.replicas)
	}
}
