package factory

import (
	"regexp"
	"time"
)

// Endpoint is the network front door that clients use to reach the deployments behind it.
type Endpoint struct {
	ID          string
	Name        string
	Hostname    string // empty: reached under the gateway's own address
	ClusterID   string
	ClusterName string // joined
	CreatedAt   time.Time
}

// EndpointSpec is what an operator writes about an endpoint.
type EndpointSpec struct {
	Hostname string `json:"hostname,omitempty"`
	Cluster  string `json:"cluster"`
}

var hostnamePattern = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Validate checks what can be checked without looking anything up.
func (s EndpointSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if s.Hostname != "" && (len(s.Hostname) > 253 || !hostnamePattern.MatchString(s.Hostname)) {
		errs.Add("hostname", "Write a host name such as llm.example.org, without scheme, port or path.")
	}
	if s.Cluster == "" {
		errs.Add("cluster", "Choose the cluster this endpoint leads to.")
	}
	return errs
}
