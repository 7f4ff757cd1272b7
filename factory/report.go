package factory

import "time"

// NodeReport is what a node's agent said of itself, as the store takes it in.
type NodeReport struct {
	Address    string
	Version    string
	Hardware   Hardware
	Skew       time.Duration // the agent's clock minus ours
	ReceivedAt time.Time     // our clock
	Replicas   []ReplicaStatus
	// PriorSeq is the node's newest report number that the measurements were
	// filtered by, and AckSeq the newest number in them. Measurements are taken in
	// only while PriorSeq is still what is kept, so never twice.
	PriorSeq, AckSeq int64
}
