// Package endpoints is how endpoints look: the addresses that clients use.
package endpoints

import (
	"strings"

	"tokenfactory/factory"
)

// Form is an endpoint as typed.
type Form struct {
	Name     string `form:"name"`
	Hostname string `form:"hostname"`
	Cluster  string `form:"cluster" query:"cluster"`

	Errors factory.FieldErrors `form:"-" query:"-"`
}

// Spec reads what was typed.
func (f Form) Spec() factory.EndpointSpec {
	return factory.EndpointSpec{Hostname: strings.ToLower(strings.TrimSpace(f.Hostname)), Cluster: f.Cluster}
}

// Row is an endpoint in the list.
type Row struct {
	factory.Endpoint
	BaseURL string
	Behind  []Behind
}

// Behind is a deployment that clients reach through an endpoint.
type Behind struct {
	factory.Deployment
	State  factory.State
	Reason string
	Ready  int
}

func (r Row) ready() int {
	n := 0
	for _, b := range r.Behind {
		if b.State == factory.Ready || b.State == factory.Degraded {
			n++
		}
	}
	return n
}

// sample is a request that lists what the endpoint serves.
func (r Row) sample() string {
	return "curl " + r.BaseURL + "/models \\\n  -H \"Authorization: Bearer $TOKEN_FACTORY_KEY\""
}
