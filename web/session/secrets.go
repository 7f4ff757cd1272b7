package session

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"tokenfactory/factory"
)

// Settings is what secrets of the whole installation need of the store.
type Settings interface {
	Setting(ctx context.Context, key string) (string, error)
	SaveSetting(ctx context.Context, key, value string) error
}

const (
	settingManagement = "management_token_hash"
	settingSetup      = "setup_token_hash"
	prefixSetup       = "tfs-"
	// Older management tokens than these stop working.
	maxManagementTokens = 20
)

type reader interface {
	Setting(ctx context.Context, key string) (string, error)
}

// read returns an empty string for a setting that was never made.
func read(ctx context.Context, s reader, key string) (string, error) {
	value, err := s.Setting(ctx, key)
	if factory.KindOf(err) == factory.NotFound {
		return "", nil
	}
	return value, err
}

func managementHashes(ctx context.Context, s reader) ([]string, error) {
	value, err := read(ctx, s, settingManagement)
	if err != nil || value == "" {
		return nil, err
	}
	var hashes []string
	if err := json.Unmarshal([]byte(value), &hashes); err != nil {
		return nil, fmt.Errorf("read the management tokens: %w", err)
	}
	return hashes, nil
}

// NewManagementToken makes a token that may do everything an operator may, through
// the API. It is shown to whoever asked for it and kept as a hash.
func NewManagementToken(ctx context.Context, s Settings) (string, error) {
	hashes, err := managementHashes(ctx, s)
	if err != nil {
		return "", err
	}
	secret, hash := factory.NewSecret(factory.PrefixManagement)
	hashes = append(hashes, hash)
	hashes = hashes[max(0, len(hashes)-maxManagementTokens):]
	value, err := json.Marshal(hashes)
	if err != nil {
		return "", err
	}
	return secret, s.SaveSetting(ctx, settingManagement, string(value))
}

// IsManagementToken reports whether a secret is one of the management tokens.
func IsManagementToken(ctx context.Context, s reader, secret string) (bool, error) {
	hashes, err := managementHashes(ctx, s)
	return slices.Contains(hashes, factory.HashSecret(secret)), err
}

// NewSetupToken makes the token of a set-up link; an earlier one stops working.
func NewSetupToken(ctx context.Context, s Settings) (string, error) {
	secret, hash := factory.NewSecret(prefixSetup)
	return secret, s.SaveSetting(ctx, settingSetup, hash)
}

// IsSetupToken reports whether a secret is the current set-up link's.
func IsSetupToken(ctx context.Context, s reader, secret string) (bool, error) {
	hash, err := read(ctx, s, settingSetup)
	return hash != "" && secret != "" && hash == factory.HashSecret(secret), err
}

// EndSetup makes the set-up link useless.
func EndSetup(ctx context.Context, s Settings) error { return s.SaveSetting(ctx, settingSetup, "") }

// hashing bounds how many passwords are worked on at once: each takes a core for
// tens of milliseconds, and the gateway needs the cores too.
var hashing = make(chan struct{}, max(1, runtime.NumCPU()/2))

// HashPassword is how passwords are kept.
func HashPassword(password string) (string, error) {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}

// nobody is the hash that the password of an unknown person is compared with, so
// that the answer takes as long as for a known one.
var nobody = sync.OnceValue(func() []byte {
	hash, err := bcrypt.GenerateFromPassword([]byte("nobody has this password"), bcrypt.DefaultCost)
	if err != nil {
		panic(err) // only for passwords that are too long
	}
	return hash
})

// CheckPassword compares in constant time; an empty hash matches nothing and takes
// as long.
func CheckPassword(hash, password string) bool {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	if hash == "" {
		_ = bcrypt.CompareHashAndPassword(nobody(), []byte(password))
		return false
	}
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}
