package factory_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestSealedTextOpensForItsPurposeAndKeyOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.key")
	first, err := factory.OpenSeal(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := factory.OpenSeal(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := factory.OpenSeal(path + ".other")
	if err != nil {
		t.Fatal(err)
	}
	sealed := first.Seal("https://hooks.example/secret", "channel 1")
	if strings.Contains(sealed, "secret") || sealed == first.Seal("https://hooks.example/secret", "channel 1") {
		t.Errorf("sealed as %q", sealed)
	}
	if text, err := again.Open(sealed, "channel 1"); err != nil || text != "https://hooks.example/secret" {
		t.Errorf("opened as %q, %v", text, err)
	}
	for name, open := range map[string]func() (string, error){
		"another purpose": func() (string, error) { return first.Open(sealed, "channel 2") },
		"another key":     func() (string, error) { return other.Open(sealed, "channel 1") },
		"cut":             func() (string, error) { return first.Open(sealed[:8], "channel 1") },
	} {
		if text, err := open(); err == nil {
			t.Errorf("%s opens it: %q", name, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info.Mode(), err)
	}
}

func TestAHalfWrittenKeyIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := factory.OpenSeal(path); err == nil {
		t.Error("a key of five bytes is taken")
	}
}
