package gateway

import (
	"net/http"
	"strconv"
	"time"

	"tokenfactory/billing"
	"tokenfactory/factory"
)

// standingOf puts a standing together.
type standingOf struct {
	Standing
	part float64 // that is left of the limit of Scope
}

// take looks at one more limit.
func (s *standingOf) take(scope factory.Scope, limit, left int64) {
	s.tightest(scope, float64(max(0, left))/float64(max(1, limit)))
}

func (s *standingOf) tightest(scope factory.Scope, part float64) {
	if s.Scope == "" || part < s.part {
		s.Scope, s.part = scope, part
	}
}

func (s *standingOf) quota(c *tally, at time.Duration) {
	s.addQuota(c.scope, c.kind, c.limit, c.window, at)
	s.take(c.scope, c.limit, c.limit-c.window.total)
}

func (s *standingOf) addQuota(scope factory.Scope, kind factory.LimitKind, limit int64, w *slidingWindow, at time.Duration) {
	q := Quota{Scope: scope, Limit: limit, Remaining: max(0, limit-w.total), Reset: w.reset(at)}
	into := &s.Tokens
	if kind == factory.LimitRequests {
		into = &s.Requests
	}
	if into.Scope == "" || q.Remaining < into.Remaining {
		*into = q
	}
}

func (s *standingOf) budget(scope factory.Scope, budget billing.Cash, p *purse) {
	part := 0.0
	if left := budget.Sub(p.spent).Sub(p.held); left.Positive() {
		part = left.Part(budget)
	}
	s.tightest(scope, part)
}

// refused is how the windows stand of a request that is not let in.
func refusedStanding(r *Refused, at time.Duration, claims []Claim) Standing {
	s := standingOf{}
	for i := range claims {
		switch c := &claims[i]; c.Kind {
		case factory.LimitBudget, factory.LimitConcurrency:
		default:
			s.addQuota(c.Scope, c.Kind, c.Limit, c.window, at)
		}
	}
	s.Scope, s.Refused = r.Claim.Scope, r
	return s.Standing
}

// The names of headers, as net/http keeps them.
const (
	headerScope   = "X-Tokenfactory-Limit-Scope"
	headerLimit   = "X-Ratelimit-Limit-"
	headerLeft    = "X-Ratelimit-Remaining-"
	headerReset   = "X-Ratelimit-Reset-"
	quotaRequests = "Requests"
	quotaTokens   = "Tokens"
)

// headers sets what clients read to pace themselves. What is left is net of what
// the request itself has booked.
func (s *Standing) headers(h http.Header) {
	if s.Scope == "" {
		return
	}
	h[headerScope] = []string{string(s.Scope)}
	s.Requests.headers(h, headerLimit+quotaRequests, headerLeft+quotaRequests, headerReset+quotaRequests)
	s.Tokens.headers(h, headerLimit+quotaTokens, headerLeft+quotaTokens, headerReset+quotaTokens)
}

// noStanding takes back what headers said.
func noStanding(h http.Header) {
	for _, name := range [...]string{headerScope, headerLimit + quotaRequests, headerLeft + quotaRequests, headerReset + quotaRequests,
		headerLimit + quotaTokens, headerLeft + quotaTokens, headerReset + quotaTokens} {
		delete(h, name)
	}
}

func (q *Quota) headers(h http.Header, limit, left, reset string) {
	if q.Scope == "" {
		return
	}
	values := [3]string{strconv.FormatInt(q.Limit, 10), strconv.FormatInt(q.Remaining, 10), q.Reset.Round(time.Millisecond).String()}
	h[limit], h[left], h[reset] = values[0:1:1], values[1:2:2], values[2:3:3]
}
