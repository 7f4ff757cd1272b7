// Package factory holds the nouns of the product and the rules that belong to
// them: what a cluster, a deployment, a key or a usage row is, and when one is
// valid. It knows neither SQL nor HTTP and imports the standard library only.
package factory

import (
	"crypto/rand"
	"regexp"
	"strings"
	"time"
)

// NewID returns an unguessable identifier. Ids are made in Go, never by a
// database, so that a caller knows the id before the row exists.
func NewID() string { return strings.ToLower(rand.Text()) }

// idOrder are the characters of ids, in the order in which texts are compared.
const idOrder = "234567abcdefghijklmnopqrstuvwxyz"

// NewOrderedID returns an identifier that looks like any other and comes, compared
// as a text, after those of earlier milliseconds. It is for what is added without
// end: an index then grows at its end, instead of being read and written all over.
// It is no secret: 80 of its bits are random, the others are the time.
func NewOrderedID(t time.Time) string {
	id := []byte(NewID())
	ms := uint64(t.UnixMilli())
	for i := 9; i >= 0; i-- { // 50 bits, which last until the year 37647
		id[i] = idOrder[ms&31]
		ms >>= 5
	}
	return string(id)
}

// Now is the current time as the stores keep it: UTC, cut to microseconds,
// because PostgreSQL keeps no more.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// CheckName reports into errs when name cannot name a thing: names appear in
// URLs, host names and Kubernetes objects, so they follow the DNS label rules,
// with dots allowed inside.
func CheckName(errs FieldErrors, field, name string) {
	switch {
	case name == "":
		errs.Add(field, "Give it a name.")
	case !namePattern.MatchString(name):
		errs.Add(field, "Use 1 to 63 lower-case letters, digits, dots or hyphens, starting and ending with a letter or digit.")
	}
}
