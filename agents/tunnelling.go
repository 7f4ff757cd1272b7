package agents

import (
	"net/http"
	"strconv"

	"github.com/coder/websocket"

	"tokenfactory/factory"
)

// tunnel turns an agent's request into a tunnel. A refusal is answered like those
// of reports.
func (in *Intake) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		in.refuse(w, r, http.StatusMethodNotAllowed, factory.Errorf(factory.Invalid, "Agents open a tunnel with GET."))
		return
	}
	n, err := in.tunnelOf(r)
	if err != nil {
		in.refuse(w, r, factory.KindOf(err).Status(), err)
		return
	}
	// Compression would cost both ends time at every token for a few hundred bytes.
	// Origins were looked at already.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, InsecureSkipVerify: true})
	if err != nil { // answered already
		in.Log.Warn("a tunnel did not come about", "node", n.Name, "from", r.RemoteAddr, "err", err)
		return
	}
	if err := in.Tunnels.add(ws, n); err != nil {
		in.Log.Error("a tunnel could not be used", "node", n.Name, "err", err)
	}
}

// tunnelOf is the node that may open a tunnel with a request.
func (in *Intake) tunnelOf(r *http.Request) (factory.Node, error) {
	if in.Tunnels == nil {
		return factory.Node{}, factory.Errorf(factory.NotFound, "This server takes no tunnels.")
	}
	// No browser has business here, whichever page it shows.
	if r.Header.Get("Origin") != "" {
		return factory.Node{}, factory.Errorf(factory.Forbidden, "Tunnels are for agents, and this request comes from a browser.")
	}
	credential, err := bearer(r)
	if err != nil {
		return factory.Node{}, err
	}
	switch theirs, err := strconv.Atoi(r.Header.Get(HeaderProtocol)); {
	case err != nil:
		return factory.Node{}, factory.Errorf(factory.Invalid, "The request does not say which protocol version it is of.")
	case theirs != Protocol:
		return factory.Node{}, incompatible(theirs)
	}
	return nodeOf(r.Context(), in.Tunnels.Fleet, credential)
}
