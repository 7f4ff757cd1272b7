package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

const (
	// heldRetry is what a client is told to wait when only open requests stand between
	// it and its budget: nobody knows when they end.
	heldRetry = time.Second
	// lateMost bounds what is kept of requests that end while an account is not known.
	lateMost = 100_000
)

var errSpendUnknown = factory.Errorf(factory.Unavailable, "It cannot be read at the moment what was used of a limit. Try again in a few seconds.")

// budgets keeps an account of every budget that is in use. The mutex of the limits
// guards it.
type budgets struct {
	zone  *time.Location
	wall  func() time.Time
	last  func() place // of the newest row in the spool
	wake  chan struct{}
	count atomic.Int64 // accounts

	holders map[holder][]*account
	unknown []*account // to be read from the ledger

	// started is when this process began, if it is to know what another served before;
	// before is that, by holder, of the last minute.
	started time.Time
	before  map[holder]*account
}

// holder is whom a budget belongs to.
type holder struct {
	scope factory.Scope
	id    string
}

// account is what one holder spends in one period. It outlives the budget that it
// was opened for: one that is changed keeps what was spent.
type account struct {
	holder
	period   factory.Period // empty for the minute before the start
	from, to time.Time
	opened   time.Time // wall clock
	purses   []*purse
	holds    int
	tokens   factory.Tokens // of those in before

	// known is set once the ledger was read; what was spent before is unknown until
	// then, which is not nothing. Everything that ends meanwhile waits in late.
	known bool
	since place // all rows up to here have to be in the ledger when it is read
	base  place // all rows up to here are in what was read
	late  []lateCost
	err   error         // why it is not known, once reading has failed
	tried chan struct{} // closed after the next attempt to read
}

// purse is the money of one currency in an account; nearly always there is one.
type purse struct {
	currency    string
	spent, held billing.Cash
}

// cost is money of one currency.
type cost struct {
	currency string
	billing.Cash
}

type lateCost struct {
	at   place
	cost cost
}

// hold is money that a request has booked.
type hold struct {
	scope   factory.Scope
	budget  billing.Cash
	account *account
	purse   *purse
	money   billing.Cash
}

func (h *hold) release() {
	h.purse.held = h.purse.held.Sub(h.money)
	h.account.holds--
}

// watched reports, without the mutex, whether there is any account.
func (b *budgets) watched() bool { return b.count.Load() > 0 }

// know waits until the accounts of all claims are known, but not for long, and tells
// how long. A young process has to know the last minute as well. It lets go of the
// mutex while it waits.
func (b *budgets) know(ctx context.Context, mu *sync.Mutex, claims []Claim, young bool) (waited time.Duration, err error) {
	var patience *time.Timer
	var begun time.Time
	for {
		var missing *account
		for i := range claims {
			of := holder{claims[i].Scope, claims[i].ID}
			var a *account
			if m := claims[i].Money; m != nil {
				a = b.account(of, m.Period, m.Began)
				m.account = a
			} else if young && !b.started.IsZero() && claims[i].Kind != factory.LimitConcurrency {
				a = b.lastMinute(of)
			}
			if a != nil && !a.known && missing == nil {
				missing = a
			}
		}
		switch {
		case missing == nil:
			return waited, nil
		case missing.err != nil:
			return waited, errSpendUnknown
		}
		if patience == nil {
			begun, patience = time.Now(), time.NewTimer(storePatience)
			defer patience.Stop()
		}
		tried, over := missing.tried, false
		mu.Unlock()
		select {
		case <-tried:
		case <-patience.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		mu.Lock()
		if waited = time.Since(begun); over {
			return waited, errSpendUnknown
		}
	}
}

func (b *budgets) find(of holder, period factory.Period, began time.Time) *account {
	for _, a := range b.holders[of] {
		if a.period == period && a.covers(began) {
			return a
		}
	}
	return nil
}

// account finds the account of a period, or opens it.
func (b *budgets) account(of holder, period factory.Period, began time.Time) *account {
	if a := b.find(of, period, began); a != nil {
		return a
	}
	a := &account{holder: of, period: period, opened: b.wall(), tried: make(chan struct{})}
	a.from, a.to = billing.PeriodOf(period, began, b.zone)
	for _, before := range b.holders[of] {
		// When an account of the same kind was there before this period, then everything
		// that began in this period ends before our eyes, and its end opens the account. So
		// nothing is spent yet, and nobody need be asked.
		a.known = a.known || before.period == period && before.opened.Before(a.from)
	}
	if b.holders == nil {
		b.holders = map[holder][]*account{}
	}
	b.holders[of] = append(b.holders[of], a)
	b.count.Add(1)
	if !a.known {
		// Only now: a row that comes after this place finds the account.
		a.since = b.last()
		b.unknown = append(b.unknown, a)
		b.nudge()
	}
	return a
}

// lastMinute is what a holder used in the minute before this process began.
func (b *budgets) lastMinute(of holder) *account {
	a := b.before[of]
	if a == nil {
		a = &account{holder: of, from: b.started.Add(-window), to: b.started, tried: make(chan struct{}), since: b.last()}
		if b.before == nil {
			b.before = map[holder]*account{}
		}
		b.before[of] = a
		b.unknown = append(b.unknown, a)
		b.nudge()
	}
	return a
}

func (b *budgets) recalled(of holder) bool {
	a := b.before[of]
	return a == nil || a.known
}

func (b *budgets) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (a *account) covers(t time.Time) bool { return !t.Before(a.from) && t.Before(a.to) }

func (a *account) purse(currency string) *purse {
	for _, p := range a.purses {
		if p.currency == currency {
			return p
		}
	}
	p := &purse{currency: currency}
	a.purses = append(a.purses, p)
	return p
}

func (a *account) pay(c cost) {
	p := a.purse(c.currency)
	p.spent = p.spent.Add(c.Cash)
}

// left is what a request may book of a budget, or why it may not.
func (m *Money) left(c *Claim) (billing.Cash, *Refused) {
	a := m.account
	p := a.purse(m.Currency)
	unspent := m.Budget.Sub(p.spent)
	left := unspent.Sub(p.held)
	switch {
	case unspent.Less(m.Least):
		return left, &Refused{Claim: *c, Spent: p.spent, Resets: a.to}
	case left.Less(m.Least):
		return left, &Refused{Claim: *c, Spent: p.spent, Resets: a.to, After: heldRetry}
	}
	return left, nil
}

func (m *Money) hold(c *Claim, money billing.Cash) hold {
	a := m.account
	p := a.purse(m.Currency)
	p.held = p.held.Add(money)
	a.holds++
	return hold{scope: c.Scope, budget: m.Budget, account: a, purse: p, money: money}
}

// spend counts what a request came to in every account that it belongs to, whether
// it had booked anything there or not: a budget may be set while it runs.
func (b *budgets) spend(u *Used) {
	if u.Rates == nil || !b.watched() {
		return
	}
	c := cost{u.Rates.Currency, u.Rates.Cost(u.Tokens)}
	if c.IsZero() {
		return
	}
	for _, of := range [...]holder{{factory.ScopeKey, u.KeyID}, {factory.ScopeTenant, u.TenantID}, {factory.ScopeDeployment, u.DeploymentID}} {
		b.spendOf(of, u, c)
	}
}

func (b *budgets) spendOf(of holder, u *Used, c cost) {
	accounts := b.holders[of]
	for _, a := range accounts {
		switch {
		case a.covers(u.Began):
			b.charge(a, u.at, c)
		case !u.Began.Before(a.to) && b.find(of, a.period, u.Began) == nil:
			// The first of a new period.
			b.charge(b.account(of, a.period, u.Began), u.at, c)
		}
	}
}

func (b *budgets) charge(a *account, at place, c cost) {
	switch {
	case !a.known && len(a.late) >= lateMost:
		b.forget(a)
	case !a.known:
		a.late = append(a.late, lateCost{at, c})
	case !at.within(a.base):
		a.pay(c)
	}
}

// learn takes in what the ledger says, which is everything up to base.
func (b *budgets) learn(a *account, base place, spent []cost, tokens factory.Tokens) {
	a.tokens, a.known, a.base, a.err = tokens, true, base, nil
	late := a.late
	a.late = nil
	for _, c := range spent {
		a.pay(c)
	}
	for _, l := range late {
		b.charge(a, l.at, l.cost)
	}
	b.unknown = slices.DeleteFunc(b.unknown, func(u *account) bool { return u == a })
	close(a.tried)
}

// fail notes that an account could not be read; those that wait for it are told.
func (b *budgets) fail(a *account, err error) {
	a.err = err
	close(a.tried)
	a.tried = make(chan struct{})
}

// putLast lets the other accounts be read before this one.
func (b *budgets) putLast(a *account) {
	if i := slices.Index(b.unknown, a); i >= 0 {
		b.unknown = append(slices.Delete(b.unknown, i, i+1), a)
	}
}

func (b *budgets) forget(a *account) {
	b.holders[a.holder] = slices.DeleteFunc(b.holders[a.holder], func(o *account) bool { return o == a })
	if len(b.holders[a.holder]) == 0 {
		delete(b.holders, a.holder)
	}
	b.unknown = slices.DeleteFunc(b.unknown, func(u *account) bool { return u == a })
	b.count.Add(-1)
}

// keepAccounts is how long an account is kept after its period: as the sign that all
// of the next period was seen.
const keepAccounts = 24 * time.Hour

// sweep forgets accounts of periods that are over.
func (b *budgets) sweep() {
	now := b.wall()
	if b.before != nil && now.Sub(b.started) > 2*window {
		b.unknown = slices.DeleteFunc(b.unknown, func(a *account) bool { return b.before[a.holder] == a })
		b.before = nil
	}
	var over []*account
	for _, of := range b.holders {
		for _, a := range of {
			newer := slices.ContainsFunc(of, func(o *account) bool { return o.period == a.period && o.from.Compare(a.to) >= 0 })
			if age := now.Sub(a.to); a.holds == 0 && (age > keepAccounts || newer && age > time.Hour) {
				over = append(over, a)
			}
		}
	}
	for _, a := range over {
		b.forget(a)
	}
}
