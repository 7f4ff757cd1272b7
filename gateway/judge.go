package gateway

import (
	"net/http"
	"time"

	"tokenfactory/factory"
)

// judgement says what a request is for the error budget.
type judgement int

const (
	notJudged judgement = iota
	good
	bad
)

// ending is how a request came out, as far as its deployment's targets are concerned.
type ending struct {
	status int
	flag   string
	stream bool
	took   time.Duration // from the header to now
	ttft   time.Duration // zero: no token was written, or the answer was not streamed
	itl    time.Duration // mean; zero without a gap
	tokens int64         // of output
}

// failed reports whether a request failed on our side: neither the client's fault nor
// the client leaving.
func failed(status int, flag string) bool {
	return status >= http.StatusInternalServerError || flag == factory.FlagTruncated || (flag == factory.FlagFailed && status < http.StatusBadRequest)
}

// waitsForToken reports whether the client left before it was written a token. Of an
// answer that is not streamed only the queue is known to come before it; once an engine
// works on it, nobody knows when its first token was made. A stream may have had an
// event that the client did not stay for.
func (e ending) waitsForToken() bool {
	switch e.flag {
	case factory.FlagAbortedQueue:
		return true
	case factory.FlagAbortedPrefill, factory.FlagAborted:
		return e.stream && e.ttft == 0
	}
	return false
}

// judge holds a request against the targets that were in force when it came. A time
// equal to its target is within it. An answer that is not streamed has no first token
// and no gaps that anybody saw: it is good when it succeeded and, where output has to
// come at a rate, came at it.
func judge(t factory.Targets, e ending) judgement {
	switch {
	case failed(e.status, e.flag):
		return bad
	case e.waitsForToken():
		if t.TTFT > 0 && e.took > t.TTFT {
			return bad
		}
		return notJudged
	case e.status >= http.StatusBadRequest && e.flag != factory.FlagAborted:
		return notJudged
	case t.TTFT > 0 && e.ttft > t.TTFT, t.ITL > 0 && e.itl > t.ITL:
		return bad
	case t.OutputRate > 0 && e.flag == "" && e.tokens > 0 && float64(e.tokens) < t.OutputRate*e.took.Seconds():
		return bad
	}
	return good
}
