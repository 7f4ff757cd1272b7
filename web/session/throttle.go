package session

import (
	"context"
	"time"

	"tokenfactory/factory"
)

// Attempts is what throttling needs of the store.
type Attempts interface {
	RecordLoginFailure(ctx context.Context, key string, now time.Time) error
	LoginFailures(ctx context.Context, key string, since time.Time) (int, error)
	ClearLoginFailures(ctx context.Context, key string) error
}

// Limits on guessing, over the last quarter of an hour. One address may try more
// than one account may be tried: a whole office can sit behind it.
const (
	throttleWindow    = 15 * time.Minute
	attemptsByAccount = 10
	attemptsByAddress = 100
)

// Throttle slows the guessing of passwords down.
type Throttle struct {
	Attempts Attempts
	Now      func() time.Time
}

func accountKey(email string) string { return "account:" + email }

// Admit books an attempt before it is judged and counts it again afterwards, so that
// attempts sent all at once are no way around the limit. What is refused at
// once is not booked: waiting always helps.
func (t *Throttle) Admit(ctx context.Context, email, address string) error {
	now := t.Now()
	for _, limit := range []struct {
		key  string
		most int
	}{{accountKey(email), attemptsByAccount}, {"address:" + address, attemptsByAddress}} {
		before, err := t.Attempts.LoginFailures(ctx, limit.key, now.Add(-throttleWindow))
		if err != nil {
			return err
		}
		if before >= limit.most {
			return errThrottled
		}
		if err := t.Attempts.RecordLoginFailure(ctx, limit.key, now); err != nil {
			return err
		}
		after, err := t.Attempts.LoginFailures(ctx, limit.key, now.Add(-throttleWindow))
		if err != nil {
			return err
		}
		if after > limit.most {
			return errThrottled
		}
	}
	return nil
}

var errThrottled = factory.Errorf(factory.RateLimited, "Too many attempts to sign in. Wait 15 minutes, then try again.")

// Succeeded forgets the attempts on an account. Those of the address stay: with
// one account of one's own, guessing at the others would be free.
func (t *Throttle) Succeeded(ctx context.Context, email string) error {
	return t.Attempts.ClearLoginFailures(ctx, accountKey(email))
}
