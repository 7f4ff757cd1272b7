package factory

import "time"

// How a request ended, as kept in the ledger. The empty flag is a request that
// completed as it should.
const (
	FlagFailed         = "failed"          // the engine failed before its first token
	FlagAbortedQueue   = "aborted_queue"   // the client left while it was queued
	FlagAbortedPrefill = "aborted_prefill" // the client left before the first token
	FlagAborted        = "aborted"         // the client left mid-stream
	FlagTruncated      = "truncated"       // the engine died mid-stream
	FlagEstimated      = "estimated"       // the engine gave no usage; events were counted
)

// Usage is one row of the ledger: what one request consumed, and under which
// price version. It is written once per request id and never changed.
type Usage struct {
	ID           string `json:"id"` // the request id
	TenantID     string `json:"tenant_id"`
	KeyID        string `json:"key_id"`
	DeploymentID string `json:"deployment_id"`
	ReplicaID    string `json:"replica_id"`
	PriceID      string `json:"price_id"`
	Endpoint     string `json:"endpoint"` // chat.completions, completions, embeddings, responses, rerank
	ModelAsked   string `json:"model_asked"`
	ModelServed  string `json:"model_served"`
	Status       int    `json:"status"` // HTTP status the client got; 499 when it left
	Flags        string `json:"flags"`  // comma-separated, sorted
	Stream       bool   `json:"stream"`
	Attempts     int    `json:"attempts"`

	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"` // part of PromptTokens
	CompletionTokens int64 `json:"completion_tokens"`

	StartedAt time.Time `json:"started_at"`
	// QueueMS is our own waiting; TTFTMS is nil without a token, E2EMS unless completed.
	QueueMS *float64 `json:"queue_ms"`
	TTFTMS  *float64 `json:"ttft_ms"`
	E2EMS   *float64 `json:"e2e_ms"`
}

// Tokens is a sum of usage rows.
type Tokens struct {
	Requests         int64
	PromptTokens     int64
	CachedTokens     int64
	CompletionTokens int64
}

// PricedTokens are tokens that were used under one version of a price.
type PricedTokens struct {
	Price Price
	Tokens
}
