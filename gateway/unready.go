package gateway

import (
	"net/http"
	"strconv"
	"time"
)

// problem is what a client is told that gets no replica; nothing when there are
// some that were all tried. mu is held.
func (p *pool) problem(o outcome, model string, now time.Time) *problem {
	switch o {
	case absent:
		return noReplica(model)
	case stopped:
		return stoppedModel(model)
	case resting:
		return p.overloaded(model, now)
	}
	return nil
}

func tooManyWait(model string, most int) *problem {
	p := noReplica(model)
	p.message = "No replica of the model " + quote(model) + " is free, and as many requests wait for one as may: " +
		strconv.Itoa(most) + ". Try again in a moment."
	return p
}

func waitedInVain(model string, long time.Duration) *problem {
	p := noReplica(model)
	p.message = "No replica of the model " + quote(model) + " became free within " + long.String() + ". Try again later."
	return p
}

// stoppedModel does not pass by itself, so it promises nothing, and clients need
// not repeat the request on their own.
func stoppedModel(model string) *problem {
	p := noReplica(model)
	p.retryAfter, p.noRetry = restMost, true
	p.message = "The model " + quote(model) + " was stopped by an operator. It answers again when an operator starts it."
	return p
}

// overloaded is what the replicas themselves said, with the time at which the first
// of them may be asked again. mu is held.
func (p *pool) overloaded(model string, now time.Time) *problem {
	at := now.UnixNano()
	var soonest int64
	// Between the look that found them all resting and this one, a rest may have ended.
	q := &problem{status: http.StatusServiceUnavailable, kind: typeServer, code: codeOverloaded}
	for _, rep := range p.replicas {
		if until := rep.busy.Load(); rep.standing(at) == restingAsAsked && (soonest == 0 || until < soonest) {
			soonest, q.status = until, int(rep.busyStatus.Load())
		}
	}
	q.retryAfter = time.Duration(max(0, soonest-at))
	if soonest == 0 {
		q.retryAfter = retrySoon
	}
	q.message = "Every replica of the model " + quote(model) + " is too busy. Try again in " + strconv.Itoa(wholeSeconds(q.retryAfter)) + " s."
	return q
}
