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

	"tokenfactory/billing"
	"tokenfactory/engines"
	"tokenfactory/factory"
)

// routeEvery is how often routes are read. A reading that takes long is not
// repeated at once, or it would keep the store busy for nothing else.
const routeEvery = 500 * time.Millisecond

// routeCache holds the newest picture of what may be asked for.
type routeCache struct {
	now  atomic.Pointer[routeTable]
	poke chan struct{}
	// asking is set while a request reads routes because they are too old.
	asking atomic.Bool

	reading sync.Mutex // guards what follows
	ears    listening
	pools   map[string]*pool
	loads   map[string]*replica // every replica that is in a picture or has something in flight
	said    map[string]bool     // what is wrong with the newest picture and was logged
}

// routeTable is one picture; it is never changed.
type routeTable struct {
	byName  map[string]*route
	aliases map[string]*alias
	names   []string // of both, sorted
	hosts   map[string]bool
	read    time.Time // monotonic
}

// route leads from a public name to the replicas behind it.
type route struct {
	factory.Route
	name     string
	nameJSON string
	running  string             // the option that makes the engine count as it goes
	rates    *billing.CashRates // nil when the price cannot be read
	health   string             // where the engine says that it lives
	offers   [len(endpoints)]bool
	hash     uint64
	replicas []*replica
	pool     *pool
}

// replica is one engine that can serve now. What is known about its load outlives
// the picture it is in.
type replica struct {
	id       string
	served   string // the name the engine answers to
	host     string // for logs; an address may carry a secret
	revision int
	hash     uint64
	urls     [len(endpoints)]*url.URL
	health   *url.URL
	*load
}

// Poke has routes read at once. Call it after a change that requests should not
// wait for; many calls in a row cost one reading or two.
func (g *Gateway) Poke() {
	select {
	case g.routes.poke <- struct{}{}:
	default: // one is due already
	}
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
		case <-c.poke:
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
	routes, err := g.Routes.AllRoutes(ctx, c.ears.asOf(time.Now(), g.Now()))
	if err != nil {
		return err
	}
	c.ears.heard(time.Now())
	aliases, err := g.Routes.AllAliases(ctx)
	if err != nil {
		return err
	}
	t := c.newTable(routes, aliases, g)
	c.fill(t, g) // first: who finds a route finds its replicas
	c.now.Store(t)
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
		if !c.asking.CompareAndSwap(false, true) {
			return nil, unavailable("The gateway cannot reach its store. Try again in a moment.") // somebody asks already
		}
		defer c.asking.Store(false)
		if err := c.refresh(g.running, g); err != nil {
			return nil, storeProblem(err)
		}
		t = c.now.Load()
	}
	return t, nil
}

// newTable makes a picture of what was read. The pools behind it are the ones of
// the picture before; fill brings them up to date.
func (c *routeCache) newTable(routes []factory.Route, aliases []factory.Alias, g *Gateway) *routeTable {
	t := &routeTable{
		byName: make(map[string]*route, len(routes)), aliases: make(map[string]*alias, len(aliases)),
		hosts: map[string]bool{}, read: time.Now(),
	}
	wrong := map[string]bool{}
	report := func(key, message string, args ...any) {
		if wrong[key] = true; !c.said[key] {
			g.Log.Error(message, args...)
		}
	}
	byID := make(map[string]*route, len(routes))
	for _, fr := range routes {
		if fr.Hostname != "" {
			t.hosts[fr.Hostname] = true
		}
		d := &fr.Deployment
		r := newRoute(fr)
		if r.name == "" || t.byName[r.name] != nil {
			report("name/"+d.ID, "two deployments with one public name; the second is not served", "deployment", d.Name, "public_name", r.name)
			continue
		}
		for _, fr := range fr.Replicas {
			if !serves(fr) || d.Stopped {
				continue
			}
			rep, err := c.newReplica(fr, r)
			if err != nil {
				report("address/"+fr.ID, "a replica has an address that cannot be used", "replica", fr.ID, "err", err)
				continue
			}
			r.replicas = append(r.replicas, rep)
		}
		if r.pool = c.pools[d.ID]; r.pool == nil {
			r.pool = &pool{g: g, deployment: d.ID}
		}
		byID[d.ID] = r
		t.byName[r.name] = r
		t.names = append(t.names, r.name)
	}
	for _, fa := range aliases {
		if t.byName[fa.Name] != nil || t.aliases[fa.Name] != nil || fa.Name == "" {
			report("alias/"+fa.ID, "an alias has the name of a deployment or of another alias; it is not served", "alias", fa.Name)
			continue
		}
		t.aliases[fa.Name] = newAlias(fa, byID)
		t.names = append(t.names, fa.Name)
	}
	slices.Sort(t.names)
	c.said = wrong
	return t
}

// fill brings pools and loads up to date with the newest picture. Who waits for a
// replica is served here when one has come.
func (c *routeCache) fill(t *routeTable, g *Gateway) {
	pools := make(map[string]*pool, len(t.byName))
	loads := make(map[string]*replica)
	for _, r := range t.byName {
		pools[r.Deployment.ID] = r.pool
		for _, rep := range r.replicas {
			rep.gone.Store(false)
			loads[rep.id] = rep
		}
	}
	for id, rep := range c.loads {
		if now := loads[id]; now != nil {
			// Another engine has taken its place: nobody has to find the old one well.
			if now.load != rep.load {
				rep.gone.Store(true)
			}
			continue
		}
		// Its streams run on; should it come back meanwhile, they count.
		if rep.gone.Store(true); rep.inFlight.Load() > 0 {
			loads[id] = rep
		}
	}
	removed := c.pools
	c.pools, c.loads = pools, loads
	for _, r := range t.byName {
		r.pool.update(r)
	}
	for id, p := range removed {
		if pools[id] == nil {
			p.close()
		}
	}
}

func newRoute(fr factory.Route) *route {
	d := &fr.Deployment
	name := d.PublicName
	if name == "" {
		name = d.LLM.Location
	}
	r := &route{Route: fr, name: name, nameJSON: string(mustJSON(name)), rates: ratesOf(d.Price), hash: hashText(d.ID), health: "/v1/models"}
	e, known := engines.Find(d.Engine)
	if known {
		r.health = e.HealthPath
		if d.RunningUsage != factory.LearnedNo {
			r.running = e.RunningUsage
		}
	}
	for i, at := range endpoints {
		r.offers[i] = !known || e.Offers(at.path)
	}
	return r
}

// serves reports whether new requests may go to a replica. One that is on its way
// out finishes what it has.
func serves(fr factory.Replica) bool {
	return !fr.Stopping && fr.URL != "" && (fr.State == "" || fr.State == factory.Ready)
}

func (c *routeCache) newReplica(fr factory.Replica, of *route) (*replica, error) {
	base, err := engineURL(fr.URL)
	if err != nil {
		return nil, &factory.Error{Kind: factory.Invalid, Message: err.Error()}
	}
	rep := &replica{id: fr.ID, served: fr.ServedName, host: base.Host, revision: fr.Revision, hash: hashText(fr.ID)}
	if rep.served == "" {
		rep.served = of.name
	}
	root := strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/v1")
	at := func(path string) *url.URL {
		u := *base
		u.Path, u.RawPath = root+path, ""
		return &u
	}
	for i, e := range endpoints {
		rep.urls[i] = at(e.path)
	}
	rep.health = at(of.health)
	// At another address, or of another revision, there is another engine: what was
	// learned does not hold there.
	before := c.loads[fr.ID]
	if before != nil && before.revision == rep.revision && before.urls[0].String() == rep.urls[0].String() {
		rep.load = before.load
	} else {
		rep.load = &load{}
	}
	return rep, nil
}

// find returns the route of a deployment that a tenant may use under a host name;
// nil when there is none.
func (t *routeTable) find(model, tenantID, host string) *route {
	if r := t.byName[model]; r != nil && t.usable(r, tenantID, host) {
		return r
	}
	return nil
}

func (t *routeTable) usable(r *route, tenantID, host string) bool {
	return r.Deployment.SharedWith(tenantID) && t.reachable(r, host)
}

func unknownModel(model string) *problem {
	return &problem{status: 404, kind: typeInvalid, code: codeModel, param: "model",
		message: "The model " + quote(model) + " does not exist, or is not shared with you. GET /v1/models lists what you can use."}
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
