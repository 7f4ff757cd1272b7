package gateway

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/tidwall/gjson"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// p1 is the price of the field reports.
var p1 = factory.Price{ID: "p1", Currency: "USD", Input: "0.15", CachedInput: "0.03", Output: "0.60"}

// round is a price at which any amount is a whole number of tokens.
var round = factory.Price{ID: "round", Currency: "USD", Input: "1", CachedInput: "1", Output: "1"}

// purser is the store's side of limits: it adds up the world's ledger, and keeps
// counts of refusals.
type purser struct {
	*world
	mu      sync.Mutex
	prices  map[string]factory.Price
	reads   int
	away    bool // of what was spent, not of the ledger
	deaf    bool // to refusals
	refused map[factory.Refusals]int64
}

func (p *purser) Spent(_ context.Context, scope factory.Scope, id string, from, to time.Time) ([]factory.PricedTokens, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	p.world.mu.Lock()
	away := p.away || p.world.away
	p.world.mu.Unlock()
	if away {
		return nil, errAway
	}
	var out []factory.PricedTokens
	for _, u := range p.ledger() {
		owner := map[factory.Scope]string{factory.ScopeKey: u.KeyID, factory.ScopeTenant: u.TenantID, factory.ScopeDeployment: u.DeploymentID}[scope]
		if owner != id || u.StartedAt.Before(from) || !u.StartedAt.Before(to) {
			continue
		}
		out = append(out, factory.PricedTokens{Price: p.prices[u.PriceID], Tokens: factory.Tokens{Requests: 1,
			PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens}})
	}
	return out, nil
}

func (p *purser) AddRefusals(_ context.Context, rows []factory.Refusals) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf {
		return errAway
	}
	if p.refused == nil {
		p.refused = map[factory.Refusals]int64{}
	}
	for _, r := range rows {
		n := r.Count
		r.Count = 0
		p.refused[r] += n
	}
	return nil
}

func (p *purser) set(f func(*purser)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// limited is a bench whose only deployment costs p1 and where limits hold for one scope.
type limited struct {
	*bench
	purser *purser
}

// scopes are where a limit may hold; every case is tried with each.
var scopes = []factory.Scope{factory.ScopeKey, factory.ScopeTenant, factory.ScopeDeployment}

func newLimited(t testing.TB, scope factory.Scope, l factory.Limits, engine string, setups ...func(*bench)) *limited {
	t.Helper()
	out := &limited{}
	price := p1
	all := []func(*bench){func(b *bench) {
		out.purser = &purser{world: b.world, prices: map[string]factory.Price{p1.ID: p1, round.ID: round}}
		b.g.Spending, b.g.RefusalCounts = out.purser, out.purser
		b.routes[0].Deployment.Price = &price
		b.limit(scope, l)
	}}
	out.bench = newBench(t, []string{engine}, append(all, setups...)...)
	t.Cleanup(func() { out.purser.set(func(p *purser) { p.away, p.deaf = false, false }) })
	out.until("routes are read", func() bool { return out.g.routes.now.Load() != nil })
	return out
}

// limit sets the limits of a scope.
func (b *bench) limit(scope factory.Scope, l factory.Limits) {
	b.set(func(w *world) {
		if scope == factory.ScopeDeployment {
			w.routes[0].Deployment.Limits = l
			return
		}
		for hash, k := range w.keys {
			if scope == factory.ScopeKey {
				k.Limits = l
			} else {
				k.TenantLimits = l
			}
			w.keys[hash] = k
		}
	})
}

// forgetKeys makes the gateway ask for keys anew.
func (b *bench) forgetKeys() {
	b.g.keys.mu.Lock()
	defer b.g.keys.mu.Unlock()
	b.g.keys.entries = nil
}

// id is the id of the only thing of a scope.
func (b *bench) id(scope factory.Scope) string {
	switch scope {
	case factory.ScopeKey:
		return "key1"
	case factory.ScopeTenant:
		return "tenant1"
	}
	return "dep-" + asked
}

func (l *limited) memory() *memoryLimits { return l.g.Limits.(*memoryLimits) }

// clear checks that nothing is held or open any more.
func (l *limited) clear() {
	l.Helper()
	l.idle()
	m := l.memory()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.open) != 0 {
		l.Errorf("%d reservations are open after all requests have ended", len(m.open))
	}
	for key, lane := range m.lanes {
		if lane.open != 0 {
			l.Errorf("%d requests of %v are open after all have ended", lane.open, key)
		}
	}
	for key, w := range m.windows {
		if w.held != 0 || w.users != 0 {
			l.Errorf("%d are held in %v after all requests have ended", w.held, key)
		}
	}
	for of, accounts := range m.budgets.holders {
		for _, a := range accounts {
			for _, p := range a.purses {
				if !p.held.IsZero() || a.holds != 0 {
					l.Errorf("%s is held of %v after all requests have ended", p.held, of)
				}
			}
		}
	}
}

// spent is what the account in force says, and what is held.
func (l *limited) spent(scope factory.Scope, limits factory.Limits) (spent, held string) {
	l.Helper()
	for _, u := range l.g.Use(l.Context(), scope, l.id(scope), limits) {
		if u.Kind == factory.LimitBudget && !u.Unknown {
			return u.Used, u.Held
		}
	}
	l.Fatal("what is spent is not known")
	return "", ""
}

// billed is what the ledger comes to.
func (l *limited) billed() string {
	sum := decimal.Zero
	for _, u := range l.ledger() {
		cost, err := billing.Rate(p1, factory.Tokens{PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens})
		if err != nil {
			l.Fatal(err)
		}
		sum = sum.Add(cost)
	}
	return billing.Text(sum)
}

// earlier is a row that was in the ledger before.
func earlier(id string, at time.Time, dollars string) factory.Usage {
	return factory.Usage{ID: id, TenantID: "tenant1", KeyID: "key1", DeploymentID: "dep-" + asked, PriceID: round.ID,
		PromptTokens: decimal.RequireFromString(dollars).Shift(6).IntPart(), StartedAt: at.UTC()}
}

// counting answers with usage, streamed or not, once it is let on.
func counting(t testing.TB, prompt, completion string, on <-chan struct{}) *engine {
	var e *engine
	e = newEngine(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if on != nil {
			select {
			case <-on:
			case <-r.Context().Done():
				return
			}
		}
		usage := `"usage":{"prompt_tokens":` + prompt + `,"completion_tokens":` + completion + `}`
		if gjson.Get(e.seen()[n-1].body, "stream").Bool() {
			sse(w, delta("a"), `data: {"id":"c1","model":"demo-small","choices":[],`+usage+"}\n\n", done)
			return
		}
		_, _ = io.WriteString(w, `{"id":"c1","model":"demo-small","choices":[{"index":0,"message":{"role":"assistant","content":"ok"}}],`+usage+`}`)
	})
	return e
}

// code is the error code of an answer.
func (r reply) code() string { return gjson.Get(r.body, "error.code").String() }

// outcomes counts answers by status.
func outcomes(replies []reply) map[int]int {
	out := map[int]int{}
	for _, r := range replies {
		out[r.status]++
	}
	return out
}

// together sends requests at the same moment and waits for their answers. As soon as
// all but a few are in, it calls then: those few are held up until that.
func (b *bench) together(body string, n, few int, then func()) []reply {
	b.Helper()
	replies := make([]reply, n)
	answers := make(chan struct{}, n)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		req := b.request("POST", "/v1/chat/completions", body)
		all.Go(func() {
			defer func() { answers <- struct{}{} }()
			<-start
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				replies[i].err = err
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			replies[i] = reply{resp.StatusCode, resp.Header, string(text), err}
		})
	}
	close(start)
	patience := time.After(10 * time.Second)
	for range n - few {
		select {
		case <-answers:
		case <-patience:
			b.Error("too few requests are answered while others are held up")
			then()
			all.Wait()
			return replies
		}
	}
	then()
	all.Wait()
	return replies
}
