// Package store is what the factory remembers: all SQL, one text for SQLite and
// PostgreSQL. A noun reads, a verb writes, and what a tenant can see takes the
// tenant right after the context. Failures come back as factory kinds, never as
// the driver's own.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // driver "sqlite"

	"tokenfactory/factory"
	"tokenfactory/migrations"
)

const (
	driverSQLite   = "sqlite"
	driverPostgres = "pgx"
)

func init() {
	// sqlx knows the placeholder of every driver but this one.
	sqlx.BindDriver(driverSQLite, sqlx.QUESTION)
}

// Store works on a pool of connections or, inside InTx, on one transaction.
type Store struct {
	db *sqlx.DB // the writer; nil inside a transaction
	// reader is a pool of its own on SQLite, so that reading never waits for
	// the one writer. On PostgreSQL both are the same pool.
	reader *sqlx.DB
	q      sqlx.ExtContext // what statements that write run on
	r      sqlx.ExtContext // what statements that only read run on
	driver string
	seal   *factory.Seal // for what is kept sealed; see UseSeal
}

// Open connects to sqlite:PATH or postgres://…, and brings the schema up to date.
func Open(ctx context.Context, address string) (*Store, error) {
	path, isSQLite := strings.CutPrefix(address, "sqlite:")
	var s *Store
	var err error
	switch {
	case isSQLite && path != "":
		s, err = openSQLite(path)
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		s, err = openPostgres(address)
	default:
		return nil, fmt.Errorf("a database address starts with sqlite: or postgres://")
	}
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openSQLite(path string) (*Store, error) {
	// Made here and not by the driver, so that only we can read it; SQLite gives
	// its side files the same mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database file: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the database file: %w", err)
	}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)" +
		// Temporary data would go to files of its own, and 2 MB of cache by default
		// are less than the ledger's indexes need.
		"&_pragma=temp_store(MEMORY)&_pragma=cache_size(-16000)"
	writer, err := sqlx.Open(driverSQLite, dsn+"&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	writer.SetMaxOpenConns(1)
	reader, err := sqlx.Open(driverSQLite, dsn+"&_pragma=query_only(1)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database for reading: %w", err), writer.Close())
	}
	reader.SetMaxOpenConns(4)
	reader.SetMaxIdleConns(4)
	return &Store{db: writer, reader: reader, q: writer, r: reader, driver: driverSQLite}, nil
}

func openPostgres(address string) (*Store, error) {
	db, err := sqlx.Open(driverPostgres, address)
	if err != nil {
		// The driver's message may hold the password of the address.
		return nil, fmt.Errorf("the database address cannot be read; write postgres://user:password@host:port/name")
	}
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(10)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return &Store{db: db, reader: db, q: db, r: db, driver: driverPostgres}, nil
}

func (s *Store) migrate(ctx context.Context) error {
	dialect, folder := goose.DialectSQLite3, "sqlite"
	var options []goose.ProviderOption
	if s.driver == driverPostgres {
		dialect, folder = goose.DialectPostgres, "postgres"
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
		if err != nil {
			return fmt.Errorf("prepare migrations: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	files, err := fs.Sub(migrations.Files, folder)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(dialect, s.db.DB, files, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	// SQLite has no lock around migrations: another process that starts may have done
	// one between our look and our writing. Then looking again finds it done.
	for attempt := 1; ; attempt++ {
		_, err = provider.Up(ctx)
		if err == nil {
			return nil
		}
		if s.driver == driverPostgres || attempt == 10 {
			return fmt.Errorf("bring the database schema up to date: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("bring the database schema up to date: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Close lets go of all connections. It is not for a transaction's store.
func (s *Store) Close() error {
	if s.reader == s.db {
		return s.db.Close()
	}
	return errors.Join(s.reader.Close(), s.db.Close())
}

// InTx runs work in one transaction: all of it happens or none. Inside, use only
// tx; on SQLite the outer store would wait for itself. On tx itself, InTx joins
// the transaction that is open. After a failed statement PostgreSQL refuses the
// rest, so work must return the first error that it gets from a write.
func (s *Store) InTx(ctx context.Context, work func(tx *Store) error) (err error) {
	if s.db == nil {
		return work(s)
	}
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return s.classify(ctx, err, "transaction")
	}
	done := false
	defer func() {
		if !done { // also when work panics
			if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
				err = errors.Join(err, fmt.Errorf("roll back: %w", e))
			}
		}
	}()
	if err := work(&Store{q: tx, r: tx, driver: s.driver, seal: s.seal}); err != nil {
		return err
	}
	done = true
	return s.classify(ctx, tx.Commit(), "transaction")
}

// inRetriedTx is InTx for work that can run again from its beginning: PostgreSQL
// may pick any of two transactions that got into each other's way as a victim.
func (s *Store) inRetriedTx(ctx context.Context, work func(tx *Store) error) error {
	for attempt := 1; ; attempt++ {
		err := s.InTx(ctx, work)
		if s.db == nil || attempt == 5 || !isVictim(err) {
			return err
		}
	}
}

// forUpdate makes a SELECT lock what it reads until the transaction ends. On
// SQLite the transaction has the database to itself from its first statement.
func (s *Store) forUpdate(table string) string {
	if s.driver == driverPostgres {
		return " FOR NO KEY UPDATE OF " + table
	}
	return ""
}
