package factory

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// What a key may be used for.
const (
	ScopeInference  = "inference"  // the OpenAI-compatible API
	ScopeManagement = "management" // the console's JSON API, for its own tenant
)

// Key is a tenant's credential for the API. Its secret is shown once and only
// its hash is kept.
type Key struct {
	ID         string
	TenantID   string
	TenantName string // joined
	Name       string
	Prefix     string // the first characters, to recognise it by
	Hash       string
	Scope      string
	Limits
	TenantLimits Limits // of its tenant; joined
	CreatedBy    string
	CreatedAt    time.Time
	ExpiresAt    *time.Time
	RevokedAt    *time.Time
	LastUsedAt   *time.Time
}

// KeySpec is what a member, an operator or a document says about a key.
type KeySpec struct {
	Tenant string `json:"tenant"`
	Scope  string `json:"scope,omitempty"` // default inference
	Limits
	ExpiresAt string `json:"expires_at,omitempty"` // RFC 3339, or a date
}

// Validate checks what can be checked without looking anything up.
func (s KeySpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if s.Tenant == "" {
		errs.Add("tenant", "Say which tenant the key belongs to.")
	}
	if s.Scope != "" && s.Scope != ScopeInference && s.Scope != ScopeManagement {
		errs.Add("scope", "Choose inference or management.")
	}
	s.Limits.validate(errs)
	if _, err := s.Expiry(); err != nil {
		errs.Add("expires_at", "Write a date such as 2027-01-31.")
	}
	return errs
}

// Expiry reads ExpiresAt; nil means never. A bare date ends with that day, UTC.
func (s KeySpec) Expiry() (*time.Time, error) {
	if s.ExpiresAt == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, s.ExpiresAt); err == nil {
		t = t.UTC().Truncate(time.Microsecond)
		return &t, nil
	}
	t, err := time.Parse(time.DateOnly, s.ExpiresAt)
	if err != nil {
		return nil, err
	}
	t = t.AddDate(0, 0, 1)
	return &t, nil
}

// Live reports whether the key may be used now.
func (k Key) Live(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// The prefixes tell a person (and a secret scanner) what a leaked string is.
const (
	PrefixKey        = "sk-tf-"
	PrefixJoin       = "tfj-"
	PrefixAgent      = "tfa-"
	PrefixManagement = "tfm-"
)

// NewSecret makes a secret with the given prefix and returns it with its hash.
// Secrets carry more than 160 bits, so a plain hash needs no salt and can be
// looked up by index.
func NewSecret(prefix string) (secret, hash string) {
	secret = prefix + strings.ToLower(rand.Text()+rand.Text())
	return secret, HashSecret(secret)
}

// HashSecret is how secrets are kept and looked up.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// SecretPrefix is the part of a secret that may be shown and logged.
func SecretPrefix(secret string) string {
	const shown = 12
	if len(secret) <= shown {
		return secret
	}
	return secret[:shown]
}
