package factory

// Route is what the gateway needs to know about one deployment that may be
// asked for: the deployment with its price and sharing, the endpoint's host
// name, and the replicas that can serve now (ready, not stopping, on a node
// that is online). A route without replicas is kept, so that the answer can be
// "not ready" instead of "unknown".
type Route struct {
	Deployment Deployment
	Hostname   string
	Replicas   []Replica
	// Coming says, when there are no replicas, that one is on its way or would be if it
	// were asked for: requests may wait for it.
	Coming bool
}
