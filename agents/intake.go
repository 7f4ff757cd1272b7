package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Fleet is what the intake needs of the store.
type Fleet interface {
	RedeemJoinToken(ctx context.Context, hash string, node factory.Node, now time.Time) (factory.Node, error)
	NodeByCredential(ctx context.Context, hash string) (factory.Node, error)
	DesiredReplicas(ctx context.Context, nodeID string) ([]factory.ReplicaSpec, error)
	AllReplicas(ctx context.Context) ([]factory.Replica, error)
	SaveReport(ctx context.Context, nodeID string, report factory.NodeReport, buckets []metrics.Bucket) error
}

// maxBody bounds what an agent may send: the largest report that ours makes is a
// quarter of it.
const maxBody = 4 << 20

// Intake is the server's side of the agents' contract.
type Intake struct {
	Fleet   Fleet
	Tunnels *Tunnels // nil: none are taken
	Log     *slog.Logger
	Now     func() time.Time

	crowd crowd
}

func (in *Intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == PathTunnel {
		in.tunnel(w, r)
		return
	}
	received := in.Now()
	var answer any
	var err error
	switch {
	case r.URL.Path != PathJoin && r.URL.Path != PathReport:
		err = factory.Errorf(factory.NotFound, "Agents call %s, %s and %s only.", PathJoin, PathReport, PathTunnel)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		in.refuse(w, r, http.StatusMethodNotAllowed, factory.Errorf(factory.Invalid, "Agents call this address with POST."))
		return
	case r.URL.Path == PathJoin:
		answer, err = in.join(w, r, received)
	default:
		answer, err = in.report(w, r, received)
	}
	if err != nil {
		in.refuse(w, r, factory.KindOf(err).Status(), err)
		return
	}
	reply(w, http.StatusOK, answer)
}

func (in *Intake) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	level := slog.LevelWarn
	switch {
	case r.Context().Err() != nil:
		level = slog.LevelDebug // the agent hung up; it will send again
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	in.Log.Log(r.Context(), level, "an agent was refused", "path", r.URL.Path, "from", r.RemoteAddr, "status", status, "err", err)
	reply(w, status, Problem{Kind: factory.KindOf(err), Message: factory.MessageOf(err)})
}

func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"kind":"internal","message":"The answer could not be written."}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b) // an agent that has gone asks again
}

// read decodes a request of this protocol version. The version is looked at before
// anything else: of another one nothing else need be readable.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return factory.Errorf(factory.TooLarge, "The request is larger than %d MiB, the most that is taken from an agent.", maxBody>>20)
	case err != nil:
		return &factory.Error{Kind: factory.Invalid, Message: "The request ended before it was complete.", Err: err}
	}
	var says struct {
		Protocol *int `json:"protocol"`
	}
	if err := json.Unmarshal(body, &says); err != nil {
		return &factory.Error{Kind: factory.Invalid, Message: "The request is not the JSON of an agent.", Err: err}
	}
	if says.Protocol == nil {
		return factory.Errorf(factory.Invalid, "The request does not say which protocol version it is of.")
	}
	if *says.Protocol != Protocol {
		return incompatible(*says.Protocol)
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(into); err != nil {
		return &factory.Error{Kind: factory.Invalid, Message: "The request is not the JSON of an agent.", Err: err}
	}
	return nil
}

func incompatible(theirs int) error {
	what := "Update the agent."
	if theirs > Protocol {
		what = "Update the server, or use an older agent."
	}
	return factory.Errorf(factory.Incompatible, "The agent speaks protocol version %d and this server speaks version %d. %s", theirs, Protocol, what)
}

// nodeOf is the machine whose agent has a credential.
func nodeOf(ctx context.Context, nodes interface {
	NodeByCredential(ctx context.Context, hash string) (factory.Node, error)
}, credential string) (factory.Node, error) {
	node, err := nodes.NodeByCredential(ctx, factory.HashSecret(credential))
	if factory.KindOf(err) == factory.NotFound {
		return factory.Node{}, factory.Errorf(factory.Unauthenticated,
			"This agent's credential is not known here: its machine was removed, or joined again. Join with a new token from the cluster's page.")
	}
	return node, err
}

// bearer is the credential of a request.
func bearer(r *http.Request) (string, error) {
	scheme, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if credential = strings.TrimSpace(credential); !strings.EqualFold(scheme, "bearer") || credential == "" {
		return "", factory.Errorf(factory.Unauthenticated, "The request carries no credential. Join with a token from the cluster's page first.")
	}
	return credential, nil
}
