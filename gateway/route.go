package gateway

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

// routeEvery is how often routes are read. A reading that takes long is not
// repeated at once, or it would keep the store busy for nothing else.
const routeEvery = 500 * time.Millisecond

// routeCache holds the newest picture of what may be asked for.
type routeCache struct {
	now     atomic.Pointer[routeTable]
	reading sync.Mutex
}

// routeTable is one picture; it is never changed.
type routeTable struct {
	byName map[string]*route
	names  []string // sorted
	hosts  map[string]bool
	read   time.Time // monotonic
}

// route leads from a public name to the replicas behind it.
type route struct {
	factory.Route
	name     string
	nameJSON string
	running  string // the option that makes the engine count as it goes
	replicas []*replica
	turn     atomic.Uint32
}

// replica is one engine that can serve now. What is known about its load outlives
// the picture it is in.
type replica struct {
	id     string
	served string // the name the engine answers to
	host   string // for logs; an address may carry a secret
	urls   [len(endpoints)]*url.URL
	*load
}

// run reads routes until ctx ends.
func (c *routeCache) run(ctx context.Context, g *Gateway) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		begun := time.Now()
		err := c.refresh(ctx, g)
		if err != nil && ctx.Err() == nil && !failing {
			g.Log.Warn("read routes; those that are known stay in use", "err", err)
		}
		failing = err != nil
		// Never later than a second after the last reading, unless the store itself is slow.
		wait.Reset(min(max(routeEvery, 4*time.Since(begun)), 2*routeEvery))
	}
}

func (c *routeCache) refresh(ctx context.Context, g *Gateway) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*storePatience)
	defer cancel()
	routes, err := g.Routes.AllRoutes(ctx, g.Now())
	if err != nil {
		return err
	}
	c.now.Store(newTable(routes, c.now.Load(), g))
	return nil
}

// table is the picture to use, or nil with a problem when there is none that may be used.
func (c *routeCache) table(g *Gateway) (*routeTable, *problem) {
	t := c.now.Load()
	if t == nil {
		// Only before the first reading.
		if err := c.refresh(g.running, g); err != nil {
			g.Log.Warn("read routes", "err", err)
			return nil, storeProblem(err)
		}
		t = c.now.Load()
	}
	// Far older than a reading that failed: nobody knows any more what may be served.
	if time.Since(t.read) > outage {
		if err := c.refresh(g.running, g); err != nil {
			return nil, storeProblem(err)
		}
		t = c.now.Load()
	}
	return t, nil
}

func newTable(routes []factory.Route, old *routeTable, g *Gateway) *routeTable {
	loads := map[string]*replica{}
	if old != nil {
		for _, r := range old.byName {
			for _, rep := range r.replicas {
				loads[rep.id] = rep
			}
		}
	}
	t := &routeTable{byName: make(map[string]*route, len(routes)), hosts: map[string]bool{}, read: time.Now()}
	for _, fr := range routes {
		d := &fr.Deployment
		name := d.PublicName
		if name == "" {
			name = d.LLM.Location
		}
		if fr.Hostname != "" {
			t.hosts[fr.Hostname] = true
		}
		if name == "" || t.byName[name] != nil {
			g.Log.Error("two deployments with one public name; the second is not served", "deployment", d.Name, "public_name", name)
			continue
		}
		r := &route{Route: fr, name: name, nameJSON: string(mustJSON(name))}
		if e, ok := engines.Find(d.Engine); ok {
			r.running = e.RunningUsage
		}
		for _, fr := range fr.Replicas {
			rep, err := newReplica(fr, loads[fr.ID])
			if err != nil {
				g.Log.Error("a replica has an address that cannot be used", "replica", fr.ID, "err", err)
				continue
			}
			r.replicas = append(r.replicas, rep)
		}
		t.byName[name] = r
		t.names = append(t.names, name)
	}
	slices.Sort(t.names)
	return t
}

func newReplica(fr factory.Replica, before *replica) (*replica, error) {
	base, err := url.Parse(fr.URL)
	if err != nil {
		return nil, factory.Errorf(factory.Invalid, "the address does not parse") // err would repeat it
	}
	if base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, factory.Errorf(factory.Invalid, "the address is not http://host:port")
	}
	rep := &replica{id: fr.ID, served: fr.ServedName, host: base.Host}
	root := strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/v1")
	for i, e := range endpoints {
		u := *base
		u.Path, u.RawPath = root+e.path, ""
		rep.urls[i] = &u
	}
	// At another address there is another engine: what was learned does not hold there.
	if before != nil && before.urls[0].String() == rep.urls[0].String() {
		rep.load = before.load
	} else {
		rep.load = &load{}
	}
	return rep, nil
}

// find returns the route of a model that a tenant may use under a host name.
func (t *routeTable) find(model, tenantID, host string) (*route, *problem) {
	r := t.byName[model]
	if r == nil || !r.Deployment.SharedWith(tenantID) || !t.reachable(r, host) {
		return nil, &problem{status: 404, kind: typeInvalid, code: codeModel, param: "model",
			message: "The model " + quote(model) + " does not exist, or is not shared with you. GET /v1/models lists what you can use."}
	}
	return r, nil
}

// reachable keeps endpoints apart: under an endpoint's host name there are its own
// deployments only. Under any other name, such as the gateway's address, there are all.
func (t *routeTable) reachable(r *route, host string) bool {
	if len(t.hosts) == 0 {
		return true
	}
	host = hostOf(host)
	return !t.hosts[host] || r.Hostname == host
}

func hostOf(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
