package agents

import (
	"net/http"
	"strings"
	"time"
	"unicode"

	"tokenfactory/factory"
)

// The runtimes that an agent of this protocol may have.
var runtimes = map[string]bool{"process": true, "container": true, "kubernetes": true}

// join exchanges a join token for a credential.
func (in *Intake) join(w http.ResponseWriter, r *http.Request, received time.Time) (JoinResponse, error) {
	var req JoinRequest
	if err := read(w, r, &req); err != nil {
		return JoinResponse{}, err
	}
	if err := req.check(); err != nil {
		return JoinResponse{}, err
	}
	credential, hash := factory.NewSecret(factory.PrefixAgent)
	node, err := in.Fleet.RedeemJoinToken(r.Context(), factory.HashSecret(req.Token), factory.Node{
		ID:             factory.NewID(),
		Name:           req.Hardware.Hostname,
		Identity:       req.Identity,
		CredentialHash: hash,
		Address:        req.Address,
		AgentVersion:   req.Version,
		Runtime:        req.Runtime,
		Hardware:       req.Hardware,
	}, received)
	if err != nil {
		return JoinResponse{}, err
	}
	in.Log.Info("a machine joined", "node", node.Name, "cluster", node.ClusterName, "reached", node.Where(), "agent", node.AgentVersion)
	return JoinResponse{NodeID: node.ID, NodeName: node.Name, Cluster: node.ClusterName, Credential: credential}, nil
}

func (req JoinRequest) check() error {
	switch {
	case req.Token == "":
		return factory.Errorf(factory.Unauthenticated, "The agent has no join token. Make one on the cluster's page and give it to the agent with --token.")
	case req.Identity == "" || !plain(req.Identity, 200):
		return factory.Errorf(factory.Invalid, "The agent does not say which machine it is on.")
	case !runtimes[req.Runtime]:
		return factory.Errorf(factory.Invalid, "The runtime %q is not one of process, container and kubernetes.", req.Runtime)
	}
	return checkSelf(req.Address, req.Version, req.Hardware)
}

// checkSelf refuses what an agent says of its machine when pages could not show it.
func checkSelf(address, version string, h factory.Hardware) error {
	switch {
	// Without an address the machine is reached through its tunnel.
	case !plain(address, 253) || strings.ContainsAny(address, "/ @"):
		return factory.Errorf(factory.Invalid, "The agent's address %q is not a host name or an IP address. Give one with --advertise, or use --tunnel.", address)
	case !plain(version, 100):
		return factory.Errorf(factory.Invalid, "The agent's version cannot be read.")
	case !plain(h.Hostname, 253):
		return factory.Errorf(factory.Invalid, "The machine's host name cannot be read.")
	}
	seen := map[string]bool{}
	for _, g := range h.GPUs {
		if g.UUID == "" || seen[g.UUID] {
			return factory.Errorf(factory.Invalid, "The agent lists a GPU without a UUID of its own: %q. GPUs are told apart by it.", g.UUID)
		}
		seen[g.UUID] = true
	}
	return nil
}

// plain reports whether text is short and has nothing in it that is not for reading.
func plain(text string, most int) bool {
	return len(text) <= most && strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) < 0
}
