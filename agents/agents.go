// Package agents is everything between the factory and its machines. This file
// is the wire contract, which both ends compile from; fields are only ever
// added. The intake takes reports in, the controller decides which replica runs
// where; the node side lives in agents/node, and how engines are started in
// agents/runtimes.
package agents

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Protocol is the version of this contract. Both sides refuse any other with a
// message that names both, so that nobody debugs half-understood reports.
const Protocol = 1

// Where agents call. A join carries the join token in its body; a report carries
// the agent's own credential as a bearer token.
const (
	PathJoin   = "/agent/v1/join"
	PathReport = "/agent/v1/report"
)

// JoinRequest exchanges a join token for a credential.
type JoinRequest struct {
	Protocol int              `json:"protocol"`
	Token    string           `json:"token"`
	Identity string           `json:"identity"` // of the machine, not of its name
	Version  string           `json:"version"`
	Runtime  string           `json:"runtime"`
	Address  string           `json:"address"` // host that the gateway reaches engines at; empty: the agent's tunnel
	Hardware factory.Hardware `json:"hardware"`
}

// JoinResponse is the agent's own identity here. The credential is shown once.
type JoinResponse struct {
	NodeID     string `json:"node_id"`
	NodeName   string `json:"node_name"`
	Cluster    string `json:"cluster"`
	Credential string `json:"credential"`
}

// Report says how a machine is now, and carries the measurements that have not
// been acknowledged yet.
type Report struct {
	Protocol int                     `json:"protocol"`
	SentAt   time.Time               `json:"sent_at"` // the agent's clock; the intake measures skew by it
	Version  string                  `json:"version"`
	Address  string                  `json:"address"`
	Hardware factory.Hardware        `json:"hardware"`
	Replicas []factory.ReplicaStatus `json:"replicas"`
	Batches  []Batch                 `json:"batches,omitempty"`
}

// Batch is a numbered set of measurements. Numbers only grow, also over restarts
// of the agent; the intake takes each in once.
type Batch struct {
	Seq     int64            `json:"seq"`
	Buckets []metrics.Bucket `json:"buckets"`
}

// ReportResponse tells the agent what should run, and what it may forget.
type ReportResponse struct {
	Protocol   int                   `json:"protocol"`
	ServerTime time.Time             `json:"server_time"`
	AckSeq     int64                 `json:"ack_seq"` // batches up to here are kept for good
	Replicas   []factory.ReplicaSpec `json:"replicas"`
	// SpreadMS is over how many milliseconds agents spread their first attempt to
	// reconnect after they lost the server: the more agents, the longer.
	SpreadMS int64 `json:"spread_ms"`
	// SeenFrom is the address that the report came from, as the server sees it: another
	// one than the agent's own when something on the way translates addresses.
	SeenFrom string `json:"seen_from,omitempty"`
}

// Problem is the body of every refusal.
type Problem struct {
	Kind    factory.Kind `json:"kind"`
	Message string       `json:"message"`
}
