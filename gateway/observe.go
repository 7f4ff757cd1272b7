package gateway

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// at turns a moment of the monotonic clock into one of the wall clock.
func (x *exchange) at(moment time.Time) time.Time { return x.beganAt.Add(moment.Sub(x.begun)) }

// ofAll and ofKey are the two places where each observation goes: everybody's, by
// replica, and those of the one key, which its tenant may see.
func (x *exchange) ofAll() metrics.Of {
	of := metrics.Of{Deployment: x.route.Deployment.ID}
	if x.replica != nil {
		of.Replica = x.replica.id
	}
	return of
}

func (x *exchange) ofKey() metrics.Of {
	return metrics.Of{Deployment: x.route.Deployment.ID, Tenant: x.key.TenantID, Key: x.key.ID}
}

// observe records a value at a moment of the monotonic clock.
func (x *exchange) observe(moment time.Time, name metrics.Name, value float64, n int) {
	at := x.at(moment)
	x.g.recorder.ObserveOf(at, x.ofAll(), name, value, n)
	x.g.recorder.ObserveOf(at, x.ofKey(), name, value, n)
}

// observeGap records the time between tokens. No replica takes over once a token was
// sent, so the two lines stay.
func (x *exchange) observeGap(moment time.Time, ms float64, tokens int) {
	if x.gaps == ([2]metrics.Line{}) {
		x.gaps = [2]metrics.Line{metrics.NewLine(x.ofAll(), metrics.ITL), metrics.NewLine(x.ofKey(), metrics.ITL)}
	}
	at := x.at(moment)
	for i := range x.gaps {
		x.g.recorder.ObserveLine(at, &x.gaps[i], ms, tokens)
	}
}

// observeSettled records what is known of a request when its row is written.
func (x *exchange) observeSettled(now time.Time, u *factory.Usage, flag string) {
	took := now.Sub(x.begun)
	x.observe(now, metrics.Requests, 1, 1)
	if failed(u.Status, flag) {
		x.observe(now, metrics.Failures, 1, 1)
	}
	end := ending{
		status: u.Status, flag: flag, stream: x.request.stream, took: took, ttft: x.ttft, itl: x.meter.meanGap(), tokens: u.CompletionTokens,
	}
	switch judge(x.route.Deployment.Targets(), end) {
	case good:
		x.observe(now, metrics.Good, 1, 1)
	case bad:
		x.observe(now, metrics.Bad, 1, 1)
	}
	if end.waitsForToken() && end.stream {
		x.observe(now, metrics.Abandoned, inMilliseconds(took), 1)
	}
	// Those that waited in vain belong to it, or the longest waits would be missing.
	if x.attempts > 0 || x.queued > 0 {
		x.observe(now, metrics.Queue, inMilliseconds(x.waited), 1)
	}
	x.observeTokens(now, metrics.InputTokens, u.PromptTokens)
	x.observeTokens(now, metrics.CachedTokens, u.CachedTokens)
	x.observeTokens(now, metrics.OutputTokens, u.CompletionTokens)
	if u.E2EMS != nil { // lengths are of answers that are whole
		x.observeTokens(now, metrics.PromptLength, u.PromptTokens)
		x.observeTokens(now, metrics.OutputLength, u.CompletionTokens)
	}
}

func (x *exchange) observeTokens(now time.Time, name metrics.Name, tokens int64) {
	if tokens > 0 {
		x.observe(now, name, float64(tokens), 1)
	}
}
