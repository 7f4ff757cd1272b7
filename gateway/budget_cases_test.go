package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/tidwall/gjson"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

const dear = `,"max_tokens":50000` // 0.03 USD, and a little for the prompt

func TestLM03ParallelRequestsDoNotPassABudgetTogether(t *testing.T) {
	forms(t, func(t *testing.T, scope factory.Scope, stream bool) {
		for _, c := range []struct {
			fields, spent         string
			at, admitted, context int
		}{
			{dear, "0.95", 4, 1, 0},
			{`,"max_tokens":25000,"n":2`, "0.95", 4, 1, 0},
			{`,"max_tokens":1000,"max_completion_tokens":50000`, "0.95", 4, 1, 0},
			{dear, "0.90", 64, 3, 0},
			{dear, "0.90", 64, 3, 131072},
			{``, "0.95", 64, 1, 0},            // holds what is left
			{``, "0.90", 64, 5, 39_000},       // holds what the context allows, 0.0234; the last what is left
			{`,"n":2`, "0.90", 64, 3, 39_000}, // twice as much
		} {
			l := factory.Limits{Budget: "1.00"}
			on := make(chan struct{})
			e := counting(t, "4", "8", on)
			b := newLimited(t, scope, l, e.URL, func(b *bench) { b.rows = append(b.rows, earlier("old", time.Now(), c.spent)) },
				withRoute(func(r *factory.Route) { r.Deployment.ContextLength = c.context }))
			most, stop := b.watch(scope, l)
			replies := b.together(with(c.fields, stream), c.at, c.admitted, func() { close(on) })
			if n := outcomes(replies); n[200] != c.admitted || n[429] != c.at-c.admitted || len(e.seen()) != c.admitted {
				t.Errorf("%+v: %v, %d upstream calls", c, n, len(e.seen()))
			}
			for _, r := range replies {
				// The rest is only held: it comes free by itself.
				if r.status == 429 && (r.code() != "insufficient_quota" || r.header.Get("X-Should-Retry") != "" || r.header.Get("Retry-After") == "" || r.header.Get(headerScope) != string(scope)) {
					t.Errorf("%+v: %v %s", c, r.header, r.body)
				}
			}
			b.row(c.admitted + 1)
			stop()
			if m := most(); m.GreaterThan(decimal.NewFromInt(1)) {
				t.Errorf("%+v: %s was booked of 1", c, m)
			}
			want := decimal.RequireFromString(c.spent).Add(decimal.RequireFromString("0.0000054").Mul(decimal.NewFromInt(int64(c.admitted))))
			if spent, held := b.spent(scope, l); spent != billing.Text(want) || held != "0" {
				t.Errorf("%+v: %s spent and %s held, want %s and 0", c, spent, held, want)
			}
			if r := b.chat(with(c.fields, stream)); r.status != 200 {
				t.Errorf("%+v: then %d %s", c, r.status, r.body)
			}
			b.clear()
		}
	})
}

// watch looks all the time at what is spent and held together, and tells the most.
func (l *limited) watch(scope factory.Scope, limits factory.Limits) (most func() decimal.Decimal, stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan struct{})
	var top decimal.Decimal
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, u := range l.g.Use(ctx, scope, l.id(scope), limits) {
				if u.Kind == factory.LimitBudget && !u.Unknown {
					top = decimal.Max(top, decimal.RequireFromString(u.Used).Add(decimal.RequireFromString(u.Held)))
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	return func() decimal.Decimal { return top }, func() { cancel(); <-done }
}

func TestLM06AUsedUpBudgetIsNotAShortWait(t *testing.T) {
	forms(t, func(t *testing.T, scope factory.Scope, stream bool) {
		for _, c := range []struct{ budget, spent string }{{"1", "1"}, {"1", "1.5"}, {"0", "0"}, {"1", "0.99999"}} {
			e := counting(t, "4", "8", nil)
			l := factory.Limits{Budget: c.budget}
			b := newLimited(t, scope, l, e.URL, func(b *bench) { b.rows = append(b.rows, earlier("old", time.Now(), c.spent)) })
			r := b.chat(with(dear, stream))
			h := r.header
			if r.status != 429 || r.code() != "insufficient_quota" || gjson.Get(r.body, "error.type").String() != "insufficient_quota" ||
				h.Get("X-Should-Retry") != "false" || h.Get("Retry-After")+h.Get("Retry-After-Ms") != "" || h.Get(headerScope) != string(scope) {
				t.Errorf("%+v: %d %v %s", c, r.status, h, r.body)
			}
			if message := gjson.Get(r.body, "error.message").String(); !strings.Contains(message, "begins anew on ") || scope == factory.ScopeDeployment && strings.Contains(message, "USD") {
				t.Errorf("%+v: %s", c, message)
			}
			if len(e.seen()) != 0 {
				t.Errorf("%+v: %d upstream calls", c, len(e.seen()))
			}
			b.clear()
		}
	})
}

// obedient makes as many tokens as it may, and a million when nobody says how many.
func obedient(t testing.TB) *engine {
	var e *engine
	e = newEngine(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		body := e.seen()[n-1].body
		most := int64(1_000_000)
		for _, f := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
			if v := gjson.Get(body, f); v.Type == gjson.Number {
				most = v.Int()
			}
		}
		most *= max(1, gjson.Get(body, "n").Int())
		_, _ = w.Write([]byte(`{"choices":[{"index":0}],"usage":{"prompt_tokens":20,"completion_tokens":` + strconv.FormatInt(most, 10) + `}}`))
	})
	return e
}

func TestRequestsWithoutABoundCannotOverspend(t *testing.T) {
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", plainly},
		{"/v1/chat/completions", with(`,"max_tokens":null`, false)},
		{"/v1/chat/completions", with(`,"max_completion_tokens":-1,"max_tokens":null`, false)},
		{"/v1/chat/completions", with(`,"n":3`, false)},
		{"/v1/completions", `{"model":"demo-small","prompt":"hi"}`},
		{"/v1/responses", `{"model":"demo-small","input":"hi"}`},
	} {
		e := obedient(t)
		l := factory.Limits{Budget: "0.01"}
		b := newLimited(t, factory.ScopeKey, l, e.URL)
		r := b.post(c.path, c.body)
		if r.status != 200 {
			t.Fatalf("%s: %d %s", c.body, r.status, r.body)
		}
		b.row(1)
		spent, _ := b.spent(factory.ScopeKey, l)
		// Nearly all of it: what is held back is for a prompt of up to 2,200 tokens.
		if d := decimal.RequireFromString(spent); d.GreaterThan(decimal.RequireFromString("0.01")) || d.LessThan(decimal.RequireFromString("0.0096")) {
			t.Errorf("%s: %s is spent of 0.01; the engine got %s", c.body, spent, e.seen()[0].body)
		}
		if r = b.post(c.path, c.body); r.status != 429 || r.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: then %d", c.body, r.status)
		}
		b.clear()
	}
	// With plenty of money the request stays as it is.
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{Budget: "1000"}, e.URL, withRoute(func(r *factory.Route) { r.Deployment.ContextLength = 8192 }))
	if b.chat(plainly); e.seen()[0].body != plainly {
		t.Errorf("the engine got %s", e.seen()[0].body)
	}
}

func TestABudgetInAnotherCurrencyPaysNothing(t *testing.T) {
	for _, scope := range scopes {
		e := counting(t, "4", "8", nil)
		b := newLimited(t, scope, factory.Limits{Budget: "1000", BudgetCurrency: "EUR"}, e.URL)
		r := b.chat(plainly)
		message := gjson.Get(r.body, "error.message").String()
		if r.status != 429 || r.code() != "insufficient_quota" || r.header.Get("X-Should-Retry") != "false" || r.header.Get(headerScope) != string(scope) ||
			!strings.Contains(message, "EUR") || !strings.Contains(message, "USD") || len(e.seen()) != 0 {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
}

func TestWhatIsFreeNeedsNoBudget(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{Budget: "0", BudgetCurrency: "EUR"}, e.URL,
		withRoute(func(r *factory.Route) { r.Deployment.Price = &factory.Price{ID: "free", Free: true, Currency: "USD"} }))
	b.purser.set(func(p *purser) { p.away = true })
	if r := b.chat(plainly); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestAPriceThatCannotBeReadIsNotFree(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeKey, factory.Limits{Budget: "10"}, e.URL,
		withRoute(func(r *factory.Route) { r.Deployment.Price = &factory.Price{ID: "odd", Input: "a lot"} }))
	if r := b.chat(plainly); r.status != 503 || len(e.seen()) != 0 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestUnknownSpendingIsNotZero(t *testing.T) {
	forms(t, func(t *testing.T, scope factory.Scope, stream bool) {
		e := counting(t, "4", "8", nil)
		l := factory.Limits{Budget: "1"}
		b := newLimited(t, scope, l, e.URL, func(b *bench) { b.rows = append(b.rows, earlier("old", time.Now(), "0.5")) })
		b.purser.set(func(p *purser) { p.away = true })
		for range 3 {
			r := b.chat(with(dear, stream))
			if r.status != 503 || r.code() != "service_unavailable" || r.header.Get("Retry-After") == "" || len(e.seen()) != 0 {
				t.Fatalf("while nobody knows: %d %v %s", r.status, r.header, r.body)
			}
		}
		if use := b.g.Use(t.Context(), scope, b.id(scope), l); !use[0].Unknown {
			t.Errorf("%+v", use)
		}
		b.purser.set(func(p *purser) { p.away = false })
		b.until("it is known", func() bool { return b.chat(with(dear, stream)).status == 200 })
		b.row(2)
		// From now on nobody need be asked.
		b.purser.set(func(p *purser) { p.away, p.reads = true, 0 })
		b.set(func(w *world) { w.away = true })
		for range 5 {
			if r := b.chat(with(dear, stream)); r.status != 200 {
				t.Errorf("with the store away: %d %s", r.status, r.body)
			}
		}
		b.idle()
		if spent, held := b.spent(scope, l); spent != "0.5000324" || held != "0" {
			t.Errorf("%s spent, %s held", spent, held)
		}
		b.purser.set(func(p *purser) {
			if p.reads != 0 {
				t.Errorf("%d readings", p.reads)
			}
		})
		b.clear()
	})
}

func TestABudgetBeginsAnewAtMidnightOfTheBillingZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range scopes {
		for _, period := range []factory.Period{factory.Day, factory.Week, factory.Month, ""} {
			clock := newClock()
			// The night to Monday, 1 June 2026: a day, a week and a month begin.
			midnight := time.Date(2026, 6, 1, 0, 0, 0, 0, berlin)
			clock.set(midnight.Add(-time.Minute))
			on := make(chan struct{})
			e := counting(t, "400000", "0", on)
			l := factory.Limits{Budget: "0.1", BudgetPeriod: period}
			b := newLimited(t, scope, l, e.URL, func(b *bench) {
				b.g.Now, b.g.BillingZone = clock.now, berlin
				b.rows = append(b.rows, earlier("old", midnight.Add(-2*time.Minute), "0.02"))
			})
			late := make(chan reply)
			go func() { late <- b.chat(with(`,"max_tokens":1`, false)) }()
			b.until("it began before midnight", func() bool { return len(e.seen()) == 1 })
			clock.set(midnight)
			b.purser.set(func(p *purser) { p.away = true }) // nobody need be asked
			if spent, held := b.spent(scope, l); spent != "0" || held != "0" {
				t.Errorf("%s: %s spent and %s held at midnight", period, spent, held)
			}
			close(on)
			if r := <-late; r.status != 200 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			b.row(2)
			if spent, _ := b.spent(scope, l); spent != "0" {
				t.Errorf("%s: %s spent in the new period by a request of the old one", period, spent)
			}
			clock.add(-time.Second)
			if spent, _ := b.spent(scope, l); spent != "0.08" {
				t.Errorf("%s: %s spent in the old period, want 0.08", period, spent)
			}
			if r := b.chat(with(dear, false)); r.status != 429 || r.header.Get("X-Should-Retry") != "false" ||
				!strings.Contains(r.body, "2026-06-01 00:00 CEST") {
				t.Errorf("%s: in the old period %d %s", period, r.status, r.body)
			}
			clock.add(2 * time.Second)
			if r := b.chat(with(dear, false)); r.status != 200 {
				t.Errorf("%s: in the new period %d %s", period, r.status, r.body)
			}
			use := b.g.Use(t.Context(), scope, b.id(scope), l)[0]
			if _, to := billing.PeriodOf(period, midnight, berlin); use.Used != "0.06" || !use.ResetsAt.Equal(to) {
				t.Errorf("%s: %+v", period, use)
			}
			b.clear()
		}
	}
}

// A request without a budget that ends in a new period opens its account too.
func TestTheFirstSpendingOfANewPeriodNeedNotBeClaimed(t *testing.T) {
	clock := newClock()
	clock.set(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).Add(-time.Minute))
	e := counting(t, "4", "8", nil)
	l := factory.Limits{Budget: "1", BudgetPeriod: factory.Day}
	b := newLimited(t, factory.ScopeKey, l, e.URL, func(b *bench) { b.g.Now = clock.now })
	b.chat(with(dear, false))
	b.limit(factory.ScopeKey, factory.Limits{})
	b.forgetKeys()
	clock.add(24*time.Hour + 2*time.Minute)
	b.chat(with(dear, false))
	b.row(2)
	if spent, _ := b.spent(factory.ScopeKey, l); spent != "0.0000054" {
		t.Errorf("%s spent", spent)
	}
}

func TestABudgetThatIsSetOrChangedKeepsWhatWasSpent(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeTenant, factory.Limits{}, e.URL)
	for range 10 {
		if r := b.chat(plainly); r.status != 200 || r.header.Get(headerScope) != "" {
			t.Fatal(r.status, r.header)
		}
	}
	for _, l := range []factory.Limits{{Budget: "1"}, {Budget: "2"}, {Budget: "2", BudgetPeriod: factory.Day}, {Budget: "0.00006"}} {
		if spent, _ := b.spent(factory.ScopeTenant, l); spent != "0.000054" {
			t.Errorf("%+v: %s spent", l, spent)
		}
	}
	b.limit(factory.ScopeTenant, factory.Limits{Budget: "0.00006"})
	b.forgetKeys()
	if r := b.chat(with(`,"max_tokens":100`, false)); r.status != 429 || r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestRefusalsAreCountedAndKeptWhileTheStoreIsAway(t *testing.T) {
	e := counting(t, "4", "8", nil)
	b := newLimited(t, factory.ScopeTenant, factory.Limits{RequestsPerMinute: 1}, e.URL)
	b.purser.set(func(p *purser) { p.deaf = true })
	for range 4 {
		b.chat(plainly)
	}
	if err := b.g.saveRefusals(t.Context()); err == nil {
		t.Error("saved with the store away")
	}
	b.limit(factory.ScopeKey, factory.Limits{TokensPerMinute: 10})
	b.forgetKeys()
	b.chat(with(`,"max_tokens":50`, false))
	b.purser.set(func(p *purser) { p.deaf = false })
	b.until("the counts are saved", func() bool {
		var n atomic.Int64
		b.purser.set(func(p *purser) {
			for _, c := range p.refused {
				n.Add(c)
			}
		})
		return n.Load() >= 4
	})
	b.purser.set(func(p *purser) {
		for r, n := range p.refused {
			switch {
			case r.TenantID != "tenant1" || r.KeyID != "key1" || r.DeploymentID != "dep-"+asked || !r.QuarterStart.Equal(r.QuarterStart.Truncate(15*time.Minute)):
				t.Errorf("%+v", r)
			case r.Scope == factory.ScopeTenant && r.Kind == factory.LimitRequests && n == 3:
			case r.Scope == factory.ScopeKey && r.Kind == factory.LimitTokens && n == 1:
			default:
				t.Errorf("%+v: %d", r, n)
			}
		}
	})
}

func TestRefusalCountsAreBounded(t *testing.T) {
	var r refusals
	for i := range refusalsMost + 10 {
		r.add(factory.Refusals{KeyID: strconv.Itoa(i), Count: 1})
		r.add(factory.Refusals{KeyID: "0", Count: 1})
	}
	rows, lost := r.take()
	if len(rows) != refusalsMost || lost != 10 {
		t.Errorf("%d rows, %d lost", len(rows), lost)
	}
	if rows, lost = r.take(); len(rows) != 0 || lost != 0 {
		t.Errorf("then %d rows, %d lost", len(rows), lost)
	}
}
