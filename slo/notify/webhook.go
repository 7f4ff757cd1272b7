package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tokenfactory/factory"
)

// Headers of our webhook. The delivery's id stays the same when a message is sent again:
// a receiver that has seen it may leave it.
const (
	HeaderDelivery  = "X-Tokenfactory-Delivery"
	HeaderTimestamp = "X-Tokenfactory-Timestamp" // seconds since 1970
	HeaderSignature = "X-Tokenfactory-Signature"
)

// Sign is the value of the signature header: it covers the time, so that an old message
// cannot be played again, and the body as it was sent.
func Sign(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// post sends a delivery's payload to a webhook. Everything but success and 410 is tried
// again, 4xx as well: an address or a right that is wrong can be put right within the day.
func post(ctx context.Context, client *http.Client, d factory.DueDelivery, now time.Time) outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Channel.Settings.URL, bytes.NewReader(d.Payload))
	if err != nil {
		return outcome{gone: true, answer: "The channel's address cannot be read."}
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "tokenfactory")
	req.Header.Set(HeaderDelivery, d.ID)
	req.Header.Set(HeaderTimestamp, timestamp)
	if secret := d.Channel.Settings.Secret; secret != "" {
		req.Header.Set(HeaderSignature, Sign(secret, timestamp, d.Payload))
	}
	res, err := client.Do(req)
	if err != nil {
		return outcome{away: true, answer: plainly(err)}
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	out := outcome{answer: strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, body))}
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		out.done = true
	case code == http.StatusGone:
		out.gone = true
	case code >= 300 && code < 400:
		out.away, out.answer = true, fmt.Sprintf("%d: the receiver points elsewhere. Write the address that it points to.", code)
	case code == http.StatusTooManyRequests || code >= 500:
		out.away, out.wait = true, retryAfter(res.Header)
	}
	return out
}

// retryAfter reads seconds only; a receiver that writes a date waits as all others do.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, mostWait)
}

// plainly says what went wrong without the address, which net/http puts before it.
func plainly(err error) string {
	var refused *factory.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The receiver did not answer in time."
	}
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
