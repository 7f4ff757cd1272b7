package factory

import (
	"encoding/json"
	"time"
)

// Rule is a reason for an alert.
type Rule string

const (
	RuleBurn    Rule = "burn"    // the error budget of an objective burns too fast
	RuleAbsent  Rule = "absent"  // an engine that serves is not measured
	RuleOffline Rule = "offline" // a machine has gone quiet
	RuleDrift   Rule = "drift"   // gateway and engine count different tokens
	RuleBudget  Rule = "budget"  // a tenant's or key's money is nearly or all used up
)

// Severity says whether somebody is woken up.
type Severity string

const (
	Page   Severity = "page"
	Ticket Severity = "ticket"
)

// AlertState is where an alert stands.
type AlertState string

const (
	AlertPending  AlertState = "pending" // wrong, but not for long yet; nobody is told
	AlertFiring   AlertState = "firing"
	AlertResolved AlertState = "resolved"
)

// Alert is one time that something was wrong.
type Alert struct {
	ID           string
	Subject      string // what is wrong, such as burn/page/1h/<deployment>; one open alert each
	Rule         Rule
	Severity     Severity
	DeploymentID string // where it is about one
	NodeID       string
	TenantID     string
	State        AlertState
	Title        string // a sentence
	// Detail is what was seen: figures, diagnosis, links; JSON as the webhook sends it.
	Detail     json.RawMessage
	PendingAt  time.Time
	FiringAt   *time.Time
	BelowAt    *time.Time // since when it is not wrong any more, while it is still firing
	ResolvedAt *time.Time
	UpdatedAt  time.Time
}

// ChannelKind is a way to tell people.
type ChannelKind string

const (
	ChannelWebhook   ChannelKind = "webhook" // our own signed JSON
	ChannelSlack     ChannelKind = "slack"
	ChannelEmail     ChannelKind = "email"
	ChannelPagerDuty ChannelKind = "pagerduty"
	ChannelOther     ChannelKind = "other" // any address that the delivery library knows
)

// Channel is where alerts are delivered.
type Channel struct {
	ID       string
	Name     string
	Kind     ChannelKind
	Settings ChannelSettings
	// Unreadable settings were sealed with a key that we do not have; they are empty, and
	// have to be written anew.
	Unreadable bool
	Severities []Severity
	Enabled    bool
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// ChannelSettings has secrets in it: it is sealed where it is kept, and shown masked.
type ChannelSettings struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // signs webhooks
	// Private allows an address inside private networks, which is refused otherwise.
	Private bool `json:"private,omitempty"`
}

// DeliveryState is where a delivery stands.
type DeliveryState string

const (
	DeliveryWaiting  DeliveryState = "waiting" // to be tried, or tried again
	DeliveryDone     DeliveryState = "done"
	DeliveryFailed   DeliveryState = "failed"   // given up
	DeliverySilenced DeliveryState = "silenced" // not told, because somebody said so
	// DeliverySuperseded was not told in time: what came after it is told instead.
	DeliverySuperseded DeliveryState = "superseded"
)

// Change is what a delivery tells.
type Change string

const (
	ChangeFiring   Change = "firing"
	ChangeResolved Change = "resolved"
	ChangeTest     Change = "test"
)

// Delivery is one thing to be told to one channel.
type Delivery struct {
	ID        string
	AlertID   string // of a test: its own id
	ChannelID string
	Change    Change
	Payload   json.RawMessage // the webhook's body
	State     DeliveryState
	Attempts  int
	NextAt    time.Time
	Answer    string // of the last attempt
	CreatedAt time.Time
	DoneAt    *time.Time
}

// Silence keeps alerts from being delivered for a while. Empty fields mean all.
type Silence struct {
	ID           string
	Rule         Rule
	DeploymentID string
	Reason       string
	CreatedBy    string
	CreatedAt    time.Time
	Until        time.Time
}

// Covers reports whether the silence holds for an alert at a time.
func (s Silence) Covers(a Alert, now time.Time) bool {
	return now.Before(s.Until) && (s.Rule == "" || s.Rule == a.Rule) && (s.DeploymentID == "" || s.DeploymentID == a.DeploymentID)
}
