package process

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
)

// How often an engine is asked how it is.
const (
	askSoon  = 500 * time.Millisecond // while it comes up
	askLater = 2 * time.Second        // when that takes long
	askReady = 5 * time.Second
	// missesAllowed is how many health checks in a row a serving engine may leave
	// unanswered: one that is very busy is not one that is gone.
	missesAllowed = 2
)

// opinion is the outcome of asking an engine.
type opinion struct {
	err    error
	served string // the name it answers to, when a token was made
}

// tend asks the engine how it is until it ends (true) or something else is wanted
// (false). exited is nil for an engine that was not started here; ready says that
// it served when it was last looked at.
func (r *replica) tend(p probe, exited <-chan struct{}, ready bool) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opinions := make(chan opinion, 1)
	next := time.NewTimer(0)
	defer next.Stop()
	began := time.Now()
	misses := 0
	for {
		select {
		case <-exited:
			return true
		case <-r.wake:
			if !r.current() {
				return false
			}
		case <-next.C:
			go func(full bool) { opinions <- r.ask(ctx, p, full) }(!ready)
			if err := r.log.rotate(maxLog); err != nil {
				r.rt.Log.Warn("an engine's log could not be cut", "replica", r.id, "err", err)
			}
		case o := <-opinions:
			var gone silence
			refused := errors.As(o.err, &gone) && strings.Contains(gone.Error(), "refused")
			switch {
			case o.err == nil:
				misses = 0
				if !ready {
					ready = true
					r.serves(o.served)
				}
			case ready && misses < missesAllowed && !refused:
				misses++
			default:
				if ready {
					r.rt.Log.Warn("an engine serves no more", "replica", r.id, "deployment", r.rec.Spec.Deployment, "why", o.err)
					began = time.Now()
				}
				r.notReady(p, o.err, ready)
				ready, misses = false, 0
			}
			wait := askSoon
			if ready {
				wait = askReady
			} else if time.Since(began) > 20*time.Second {
				wait = askLater
			}
			next.Reset(wait)
		}
	}
}

// ask looks at the engine's health and, as long as it has not served, for a token.
func (r *replica) ask(ctx context.Context, p probe, full bool) opinion {
	if err := p.health(ctx); err != nil {
		return opinion{err: r.unreachable(ctx, p, err)}
	}
	if !full {
		return opinion{}
	}
	served, err := p.token(ctx)
	return opinion{err, served}
}

// unreachable says more about an engine that answers its own machine alone.
func (r *replica) unreachable(ctx context.Context, p probe, err error) error {
	var gone silence
	if p.spec.Address == "" || !errors.As(err, &gone) {
		return err
	}
	near := p
	if near.base = baseOf(p.spec.Address); near.base == p.base || near.health(ctx) != nil {
		return err
	}
	return errors.New("it answers at " + near.base + " and not at " + p.base + ", where the gateway reaches this machine: let it listen on all addresses")
}

func (r *replica) serves(name string) {
	now := time.Now().UTC()
	r.rec.ReadyAt, r.rec.ServedName = now, name
	r.saveRecord()
	r.mu.Lock()
	r.shown.serves = true
	r.mu.Unlock()
	r.update(func(s *factory.ReplicaStatus) {
		s.State, s.Reason, s.ServedName, s.ReadyAt, s.Progress = factory.Ready, "Serving.", name, &now, ""
	})
	r.rt.Log.Info("an engine serves", "replica", r.id, "deployment", r.rec.Spec.Deployment, "as", name)
}

func (r *replica) notReady(p probe, err error, was bool) {
	if was {
		r.rec.ReadyAt = time.Time{}
		r.saveRecord()
	}
	state, reason := factory.Loading, ""
	why := strings.TrimSuffix(err.Error(), ".")
	var gone silence
	silent := errors.As(err, &gone)
	switch {
	case p.spec.Address != "" && silent:
		state, reason = factory.Failed, "Nothing answers at "+p.base+": "+why+". Start the engine, or correct the address. It is never started from here."
	case p.spec.Address != "":
		reason = "The engine at " + p.base + " does not serve: " + why + "."
	case was:
		reason = "It served, and does no more: " + why + "."
	case silent && len(r.log.tail(r.rec.LogFrom, nil)) == 0:
		state, reason = factory.Starting, "The engine is coming up."
	case silent:
		reason = "The engine is loading the model and does not answer yet."
	default:
		reason = "The engine does not serve yet: " + why + "."
	}
	r.update(func(s *factory.ReplicaStatus) {
		if s.State == factory.Starting && state == factory.Starting {
			return // it may say that this is not the first try
		}
		s.State, s.Reason, s.ReadyAt = state, reason, nil
	})
}

// watch looks after an engine that runs already: it is asked and measured, and
// never started or stopped.
func (r *replica) watch() {
	e, known := engines.Find(r.rec.Spec.Engine)
	if !known {
		r.fail("This agent does not know the engine "+r.rec.Spec.Engine+". Update the agent.", "")
		return
	}
	if r.rec.PID != 0 || r.rec.Revision != r.rec.Spec.Revision {
		r.rec.ReadyAt = time.Time{}
	}
	r.rec.PID, r.rec.Port, r.rec.StartedAt, r.rec.Revision = 0, 0, time.Time{}, r.rec.Spec.Revision
	r.saveRecord()
	near := baseOf(r.rec.Spec.Address)
	far := seenFromGateway(near, r.rt.Host)
	r.begin(e, near, far)
	r.tend(probe{engine: e, base: far, spec: r.rec.Spec}, nil, !r.rec.ReadyAt.IsZero())
}

// baseOf is an engine's address without the API's own path.
func baseOf(address string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1"), "/")
}

// seenFromGateway replaces a loopback address, which means another machine there,
// by the address that this machine is reached at.
func seenFromGateway(base, host string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	name := u.Hostname()
	ip := net.ParseIP(name)
	if name != "localhost" && (ip == nil || !(ip.IsLoopback() || ip.IsUnspecified())) {
		return base
	}
	if own := net.ParseIP(host); host == "localhost" || (own != nil && own.IsLoopback()) {
		return base
	}
	port := u.Port()
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	return u.String()
}
