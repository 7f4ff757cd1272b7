package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tokenfactory/factory"
)

// How long an answer of the store about a key is used. A revocation has to work
// within two seconds, so an answer older than keyStale is waited for.
const (
	keyFresh = time.Second
	keyStale = 1500 * time.Millisecond
	// outage is how long keys and routes that are known keep working while the
	// store cannot be asked.
	outage = 5 * time.Minute
	// storePatience bounds one question to the store, keyPatience how long a request
	// with a known key waits for it.
	storePatience = 2 * time.Second
	keyPatience   = 400 * time.Millisecond
	touchEvery    = 10 * time.Second
)

// keyCache remembers keys by hash, so that a request costs no question to the store.
type keyCache struct {
	mu      sync.Mutex
	entries map[string]*keyEntry
}

type keyEntry struct {
	key     factory.Key
	known   bool
	checked time.Time     // when the store last answered; monotonic
	failed  time.Time     // when it last failed to
	asking  chan struct{} // closed when the running question is answered
	err     error
	used    atomic.Int64 // unix microseconds
	touched int64        // the value of used that was saved
}

// secretOf is the key that a request carries; the scheme's case does not matter.
func secretOf(h http.Header) string {
	if a := h.Get("Authorization"); a != "" {
		scheme, secret, ok := strings.Cut(a, " ")
		if ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(secret)
		}
		return ""
	}
	if k := h.Get("Api-Key"); k != "" {
		return k
	}
	return h.Get("X-Api-Key")
}

func unauthenticated(message string) *problem {
	return &problem{status: http.StatusUnauthorized, kind: typeInvalid, code: codeKey, message: message}
}

// authenticate finds the key of a request. A passing condition is never 401:
// clients drop the whole provider on it.
func (g *Gateway) authenticate(ctx context.Context, h http.Header) (factory.Key, *problem) {
	secret := secretOf(h)
	if secret == "" {
		return factory.Key{}, unauthenticated("This request carries no API key. Send one as `Authorization: Bearer " + factory.PrefixKey + "…`.")
	}
	key, known, err := g.keys.find(ctx, g, factory.HashSecret(secret))
	if err != nil {
		return factory.Key{}, storeProblem(err)
	}
	if !known {
		return factory.Key{}, unauthenticated("This API key is not known here. Check that it was copied whole, or make a new one on your tenant's Keys page.")
	}
	now := g.Now()
	switch {
	case key.RevokedAt != nil:
		return factory.Key{}, unauthenticated("This API key was revoked. Make a new one on your tenant's Keys page.")
	case !key.Live(now):
		return factory.Key{}, unauthenticated("This API key expired on " + key.ExpiresAt.UTC().Format(time.DateOnly) + ". Make a new one on your tenant's Keys page.")
	case key.Scope != factory.ScopeInference:
		return factory.Key{}, &problem{status: http.StatusForbidden, kind: typePermission, code: codeScope,
			message: "This API key has the scope " + key.Scope + ". Models are used with a key of the scope inference."}
	}
	return key, nil
}

// find answers from the cache where it may. One question about a key runs at a
// time, apart from any request, so that a client that leaves spoils it for nobody.
func (c *keyCache) find(ctx context.Context, g *Gateway, hash string) (factory.Key, bool, error) {
	now := time.Now()
	c.mu.Lock()
	e := c.entries[hash]
	if e == nil {
		e = &keyEntry{}
		if c.entries == nil {
			c.entries = map[string]*keyEntry{}
		}
		c.entries[hash] = e
	}
	age := now.Sub(e.checked)
	if e.known && age < keyFresh {
		e.used.Store(g.Now().UnixMicro())
		key := e.key
		c.mu.Unlock()
		return key, true, nil
	}
	if e.asking == nil && now.Sub(e.failed) >= keyFresh {
		e.asking = make(chan struct{})
		go c.ask(g, hash, e)
	}
	asking := e.asking
	patience := storePatience + keyFresh
	if e.known {
		patience = keyPatience
		// Fresh enough; or the store failed to answer since, and to wait for it with
		// every request would only make all of them slow.
		if age < keyStale || e.failed.After(e.checked) {
			asking = nil
		}
	}
	c.mu.Unlock()
	if asking != nil {
		give := time.NewTimer(patience)
		defer give.Stop()
		select {
		case <-asking:
		case <-give.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.known && time.Since(e.checked) < outage:
		e.used.Store(g.Now().UnixMicro())
		return e.key, true, nil
	case e.err != nil:
		return factory.Key{}, false, e.err
	case e.checked.IsZero():
		return factory.Key{}, false, context.DeadlineExceeded
	}
	return factory.Key{}, false, nil
}

func (c *keyCache) ask(g *Gateway, hash string, e *keyEntry) {
	ctx, cancel := context.WithTimeout(g.running, storePatience)
	defer cancel()
	key, err := g.Keys.KeyByHash(ctx, hash)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		close(e.asking)
		e.asking = nil
	}()
	switch {
	case err == nil:
		e.key, e.known, e.err, e.checked = key, true, nil, time.Now()
	case factory.KindOf(err) == factory.NotFound:
		// Not kept: guesses would fill the memory.
		e.key, e.known, e.err, e.checked = factory.Key{}, false, nil, time.Now()
		delete(c.entries, hash)
	default:
		g.Log.Warn("look up a key", "err", err)
		e.err, e.failed = err, time.Now()
		if !e.known {
			delete(c.entries, hash)
		}
	}
}

// touchKeys saves when keys were used, and forgets keys that no longer are.
func (g *Gateway) touchKeys(ctx context.Context) {
	tick := time.NewTicker(touchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.saveTouched(ctx)
			if m, ok := g.Limits.(*memoryLimits); ok {
				m.sweep(g.limitClock())
			}
		}
	}
}

func (g *Gateway) saveTouched(ctx context.Context) {
	used := map[string]time.Time{}
	saved := map[*keyEntry]int64{}
	c := &g.keys
	c.mu.Lock()
	for hash, e := range c.entries {
		at := e.used.Load()
		switch {
		case e.known && at > e.touched:
			used[e.key.ID] = time.UnixMicro(at).UTC()
			saved[e] = at
		case e.asking == nil && time.Since(e.checked) > 2*outage:
			delete(c.entries, hash)
		}
	}
	c.mu.Unlock()
	if len(used) == 0 {
		return
	}
	if err := g.Keys.TouchKeys(ctx, used); err != nil {
		g.Log.Warn("save when keys were used", "err", err)
		return
	}
	c.mu.Lock()
	for e, at := range saved {
		e.touched = at
	}
	c.mu.Unlock()
}
