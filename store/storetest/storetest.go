// Package storetest gives tests a store of their own, on each database.
package storetest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"tokenfactory/store"
)

// Open returns an empty SQLite store that ends with the test.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
}

// EachDatabase runs a test on SQLite, and on PostgreSQL too when TEST_POSTGRES is
// the address of a server where databases may be created.
func EachDatabase(t *testing.T, test func(t *testing.T, s *store.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, Open(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, open(t, PostgresURL(t))) })
}

// PostgresURL is the address of an empty PostgreSQL database that is dropped with
// the test. Without TEST_POSTGRES the test is skipped.
func PostgresURL(t testing.TB) string {
	t.Helper()
	server := os.Getenv("TEST_POSTGRES")
	if server == "" {
		t.Skip("TEST_POSTGRES is not set to a server such as postgres://postgres@127.0.0.1:5432/postgres")
	}
	address, err := url.Parse(server)
	if err != nil {
		t.Fatalf("TEST_POSTGRES: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	address.Path = "/" + name
	return address.String()
}

// execute runs one statement on its own connection; the test's context may have
// ended already.
func execute(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sqlx.ConnectContext(ctx, "pgx", server)
	if err != nil {
		t.Fatalf("connect to TEST_POSTGRES: %v", err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func open(t testing.TB, address string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}
