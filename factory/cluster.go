package factory

import "time"

// OfflineAfter is how long a node may be silent before it counts as gone. Agents
// report every two seconds, so this is many missed reports, not one.
const OfflineAfter = 20 * time.Second

// Cluster is a named group of machines that deployments are placed on.
type Cluster struct {
	ID          string
	Name        string
	Description string
	CreatedAt   time.Time
}

// ClusterSpec is what an operator writes about a cluster.
type ClusterSpec struct {
	Description string `json:"description,omitempty"`
}

// JoinToken lets agents of one cluster exchange it for credentials of their own,
// a limited number of times and until it expires. Only its hash is kept.
type JoinToken struct {
	ID        string
	ClusterID string
	Hash      string
	MaxUses   int
	Uses      int
	ExpiresAt time.Time
	CreatedAt time.Time
}

// Node is one machine with an agent on it. Its identity is the machine's, not
// its host name: two machines may share a name.
type Node struct {
	ID             string
	ClusterID      string
	ClusterName    string // joined
	Name           string // shown: the host name, made distinct when taken
	Identity       string // hash over machine id and hardware, made by the agent
	CredentialHash string
	Address        string // where the gateway reaches engines of this node; empty: through its agent's tunnel
	AgentVersion   string
	Runtime        string // process, container or kubernetes
	Hardware       Hardware
	// Skew is the agent's clock minus ours, by our receive time.
	Skew       time.Duration
	ReportSeq  int64 // the newest report taken in
	JoinedAt   time.Time
	LastSeenAt time.Time // our clock, never the agent's
}

// Online reports whether the node has been heard of recently enough.
func (n Node) Online(now time.Time) bool { return now.Sub(n.LastSeenAt) <= OfflineAfter }

// Where says for people how the gateway reaches the node's engines.
func (n Node) Where() string {
	if n.Address == "" {
		return "through its tunnel"
	}
	return n.Address
}
