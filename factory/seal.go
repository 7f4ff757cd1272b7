package factory

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Seal encrypts secrets that are kept: whoever has the database alone cannot read them.
type Seal struct{ aead cipher.AEAD }

// OpenSeal reads the key from a file that only we may read, and makes it when there is
// none.
func OpenSeal(path string) (*Seal, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = newSealKey(path); errors.Is(err, fs.ErrExist) {
			key, err = os.ReadFile(path) // somebody else was faster
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key for secrets: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key for secrets in %s: %w", path, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("key for secrets: %w", err)
	}
	return &Seal{aead}, nil
}

// newSealKey writes the key whole or not at all: half a key would be worth nothing,
// and so would all that was sealed with it.
func newSealKey(path string) ([]byte, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(path), ".seal-*") // only we may read it
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	return key, os.Link(f.Name(), path)
}

// Seal encrypts text for a purpose, such as the id of what it belongs to; it opens for
// that purpose only.
func (s *Seal) Seal(text, purpose string) string {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce)
	return base64.StdEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(text), []byte(purpose)))
}

// Open decrypts what Seal made.
func (s *Seal) Open(sealed, purpose string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(b) < s.aead.NonceSize() {
		return "", errors.New("not a sealed secret")
	}
	text, err := s.aead.Open(nil, b[:s.aead.NonceSize()], b[s.aead.NonceSize():], []byte(purpose))
	if err != nil {
		return "", errors.New("this secret was sealed with another key")
	}
	return string(text), nil
}
