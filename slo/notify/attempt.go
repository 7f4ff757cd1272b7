package notify

import (
	"context"
	"math/rand/v2"
	"time"

	"tokenfactory/factory"
)

const (
	firstWait = 10 * time.Second
	mostWait  = time.Hour
	// giveUpAfter is how old a delivery may become. An alert of yesterday helps nobody.
	giveUpAfter = 24 * time.Hour
	// answerMost bounds what is kept of a receiver's answer.
	answerMost = 300
)

// outcome is what came of an attempt.
type outcome struct {
	done   bool
	gone   bool          // the receiver wants nothing any more: trying again is of no use
	away   bool          // the receiver fails as such, not with this message alone
	wait   time.Duration // at least that long, because the receiver asked for it
	answer string        // for the log of deliveries, without secrets
}

// attempt tries a delivery once. It ends by itself when we are being stopped, because
// nobody could tell whether a broken off message had arrived.
func (s *Sender) attempt(ctx context.Context, d factory.DueDelivery) outcome {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptPatience)
	defer cancel()
	private := s.AllowPrivate || d.Channel.Settings.Private
	var out outcome
	if d.Channel.Kind == factory.ChannelWebhook {
		client := s.guarded
		if private {
			client = s.open
		}
		out = post(limit, client, d, s.Now())
	} else {
		out = s.carry(limit, d, private)
	}
	out.answer = shorten(scrub(out.answer, d.Channel.Settings))
	if !out.done {
		s.Log.Warn("an alert was not delivered", "channel", d.Channel.Name, "delivery", d.ID, "attempt", d.Attempts+1, "answer", out.answer)
	}
	return out
}

// carry gives a message to the courier, which takes no context everywhere: it may still
// be at it when its time is over, and what it does then counts as failed.
func (s *Sender) carry(ctx context.Context, d factory.DueDelivery, private bool) outcome {
	if s.Courier == nil {
		return outcome{gone: true, answer: "This server delivers to webhooks alone."}
	}
	if !private {
		if err := refusePrivateHost(ctx, d.Channel.Settings.URL); err != nil {
			return outcome{away: true, answer: plainly(err)}
		}
	}
	result := make(chan error, 1)
	go func() { result <- s.Courier(ctx, d.Channel, Compose(d.Delivery)) }()
	select {
	case err := <-result:
		if err != nil {
			return outcome{away: true, answer: plainly(err)}
		}
		return outcome{done: true, answer: "Accepted."}
	case <-ctx.Done():
		return outcome{away: true, answer: "The receiver did not answer in time."}
	}
}

// settle is the delivery after an attempt.
func settle(d factory.Delivery, out outcome, now time.Time) factory.Delivery {
	d.Attempts++
	d.Answer = out.answer
	switch {
	case out.done:
		d.State, d.DoneAt = factory.DeliveryDone, &now
	case out.gone || now.Sub(d.CreatedAt) >= giveUpAfter:
		d.State = factory.DeliveryFailed
	default:
		d.NextAt = now.Add(max(backoff(d.Attempts), out.wait))
	}
	return d
}

// putOff is a delivery that was not tried, because its receiver just failed.
func putOff(d factory.Delivery, out outcome, until, now time.Time) factory.Delivery {
	if now.Sub(d.CreatedAt) >= giveUpAfter {
		d.State, d.Answer = factory.DeliveryFailed, out.answer
		return d
	}
	// The one that was tried may have been given up, and then says nothing about when.
	d.NextAt = until
	if !until.After(now) {
		d.NextAt = now.Add(backoff(1))
	}
	return d
}

// backoff doubles from attempt to attempt, less up to a fifth by chance, so that what
// failed together is not tried together for ever.
func backoff(attempts int) time.Duration {
	wait := mostWait
	if doublings := attempts - 1; doublings < 9 { // 10 s · 2⁹ is over an hour
		wait = min(firstWait<<doublings, mostWait)
	}
	return wait - rand.N(wait/5)
}
