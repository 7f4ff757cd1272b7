package factory

import "time"

// State is where a deployment or a replica stands. It always comes with a reason.
type State string

const (
	Pending  State = "pending"  // nothing has been started: no room, or no machine yet
	Starting State = "starting" // the engine process is coming up
	Loading  State = "loading"  // it answers, or logs, but cannot serve a token yet
	Ready    State = "ready"    // a real token was produced under the expected name
	Degraded State = "degraded" // some replicas serve, others do not
	Failed   State = "failed"   // it does not come up; the reason says what the engine said
	Stopping State = "stopping"
	Stopped  State = "stopped"
	Asleep   State = "asleep" // a deployment only: it holds no machine until a request comes
)

// Replica is one running copy of a deployment's engine, on one node.
type Replica struct {
	ID           string
	DeploymentID string
	NodeID       string
	NodeName     string // joined
	GPUUUIDs     []string
	Revision     int  // of the deployment, that it should run
	Stopping     bool // the controller wants it gone
	State        State
	Reason       string   // why it is in this state; what to do
	LastLines    []string // the engine's last log lines
	URL          string   // where the gateway reaches it; empty until known
	ServedName   string   // the model name the engine answers to
	PID          int
	Restarts     int
	Progress     string // for long work: "downloading 3.2 of 15.1 GB"
	StartedAt    *time.Time
	ReadyAt      *time.Time
	UpdatedAt    time.Time
	CreatedAt    time.Time
}

// ReplicaSpec is what an agent needs to know to run one replica.
type ReplicaSpec struct {
	ID            string            `json:"id"`
	DeploymentID  string            `json:"deployment_id"`
	Deployment    string            `json:"deployment"` // name, for people reading logs
	Revision      int               `json:"revision"`
	Engine        string            `json:"engine"`
	Address       string            `json:"address,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	GPUUUIDs      []string          `json:"gpu_uuids,omitempty"`
	Source        string            `json:"source"`
	Location      string            `json:"location"`
	ServedName    string            `json:"served_name"`
	ContextLength int               `json:"context_length,omitempty"`
	PrefixCaching bool              `json:"prefix_caching"`
	Embedding     bool              `json:"embedding,omitempty"`
	// Unified is set by the agent, from its own hardware, before it starts the
	// engine: the assigned GPU shares the machine's memory, which default memory
	// fractions do not fit.
	Unified bool `json:"unified,omitempty"`
}

// ReplicaStatus is what an agent says about one replica.
type ReplicaStatus struct {
	ID         string     `json:"id"`
	Revision   int        `json:"revision"`
	State      State      `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	LastLines  []string   `json:"last_lines,omitempty"`
	URL        string     `json:"url,omitempty"`
	ServedName string     `json:"served_name,omitempty"`
	PID        int        `json:"pid,omitempty"`
	Restarts   int        `json:"restarts,omitempty"`
	Progress   string     `json:"progress,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	ReadyAt    *time.Time `json:"ready_at,omitempty"`
}

// Status sums a deployment's replicas up into one state with its reason. Silent
// is the set of nodes that have gone quiet: a replica there serves nobody,
// whatever it said last.
func (d Deployment) Status(replicas []Replica, silent map[string]bool) (State, string) {
	count := map[State]int{}
	reasons := map[State]string{}
	live := 0
	for _, r := range replicas {
		if r.Stopping {
			count[Stopping]++
			continue
		}
		live++
		state, reason := r.State, r.Reason
		if silent[r.NodeID] {
			state, reason = Failed, "Node "+r.NodeName+" has gone quiet."
		}
		count[state]++
		if reasons[state] == "" {
			reasons[state] = reason
		}
	}
	switch {
	case d.Stopped && len(replicas) > 0:
		return Stopping, "Waiting for " + plural(len(replicas), "replica") + " to stop."
	case d.Stopped:
		return Stopped, "Stopped by an operator. Start it to serve again."
	case d.Asleep && len(replicas) > 0:
		return Stopping, "Going to sleep: waiting for " + plural(len(replicas), "replica") + " to stop."
	case d.Asleep:
		return Asleep, "Asleep: holds no machine. The next request wakes it."
	case count[Ready] >= d.Replicas:
		return Ready, plural(count[Ready], "replica") + " serving."
	case count[Ready] > 0:
		why := reasons[Failed]
		for _, s := range []State{Pending, Starting, Loading} {
			if why == "" {
				why = reasons[s]
			}
		}
		return Degraded, itoa(count[Ready]) + " of " + plural(d.Replicas, "replica") + " serving. " + why
	case count[Loading] > 0:
		return Loading, reasons[Loading]
	case count[Starting] > 0:
		return Starting, reasons[Starting]
	case count[Failed] > 0:
		return Failed, reasons[Failed]
	case live == 0 && count[Stopping] > 0:
		return Stopping, "Old replicas are stopping before new ones start."
	}
	if reasons[Pending] != "" {
		return Pending, reasons[Pending]
	}
	return Pending, "Waiting for a machine with room."
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}
