package channels

import (
	"net/url"

	"tokenfactory/web/paths"
)

// Page is one channel with what was told to it.
type Page struct {
	Channel
	// Made is the signing secret, this once after it was made.
	Made string
	// Test is the delivery that was asked for from this page, or nil.
	Test       *Delivery
	Deliveries []Delivery
	Cursor     string // of this page of deliveries; empty is the newest
	Next       string // of the one that follows
	Headers    Headers
}

// Headers are the names of the headers by which a webhook says who sent it.
type Headers struct{ Delivery, Timestamp, Signature string }

// here is the page's own address, with the test that it shows.
func (p Page) here() string {
	q := url.Values{"cursor": {p.Cursor}}
	if p.Test != nil {
		q.Set("test", p.Test.ID)
	}
	return paths.With(paths.Channel(p.ID), q)
}

func (p Page) newest() string {
	if p.Cursor == "" {
		return ""
	}
	return paths.Channel(p.ID)
}

func (p Page) older() string {
	if p.Next == "" {
		return ""
	}
	return paths.With(paths.Channel(p.ID), url.Values{"cursor": {p.Next}})
}

// signatureCommand works out a webhook's signature from what the receiver was sent, so
// that it can be held against the header.
const signatureCommand = `{ printf '%s.' "$TIMESTAMP"; cat body.json; } | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1`
