package factory

import (
	"net/url"
	"regexp"
	"strings"
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

// BaseURL is what clients set as the base of the OpenAI API: the endpoint's host
// name under the scheme and port that the gateway is reached at, or the gateway's
// own address when the endpoint has no name.
func (e Endpoint) BaseURL(gateway string) string {
	u, err := url.Parse(gateway)
	if err != nil || u.Host == "" {
		return strings.TrimRight(gateway, "/") + "/v1"
	}
	if port := u.Port(); e.Hostname != "" {
		u.Host = e.Hostname
		if port != "" {
			u.Host += ":" + port
		}
	}
	u.Path, u.RawQuery, u.Fragment = "/v1", "", ""
	return u.String()
}
