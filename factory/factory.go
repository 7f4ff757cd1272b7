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
