package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"tokenfactory/factory"
)

// SQLite's result codes; the low byte is the primary code. They are part of its
// file-format-like promise and never change.
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteInterrupt  = 9
	sqliteIOErr      = 10
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteForeignKey = 787
	sqlitePrimaryKey = 1555
	sqliteUnique     = 2067
)

// PostgreSQL's, as SQLSTATE.
const (
	pgBadText       = "22021"
	pgForeignKey    = "23503"
	pgUnique        = "23505"
	pgSerialization = "40001"
	pgDeadlock      = "40P01"
)

// unique is a value that must be the only one of its kind, by its column.
type unique struct{ column, value string }

// columnTitles are names of columns as people read them.
var columnTitles = map[string]string{
	"email": "e-mail address", "hostname": "host name", "public_name": "public name",
}

// classify turns a driver's error into one of the factory's kinds. noun is what
// was read or written; values are what may turn out to be taken.
func (s *Store) classify(ctx context.Context, err error, noun string, values ...unique) error {
	var known *factory.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case ctx.Err() != nil && (isInterrupt(err) || errors.Is(err, sql.ErrTxDone)):
		// A transaction is rolled back as soon as its context ends; what comes
		// after then says nothing of the reason.
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case isUnavailable(err):
		return &factory.Error{Kind: factory.Unavailable, Message: "The database cannot be reached at the moment. Try again in a few seconds.", Err: err}
	case isForeignKey(err):
		return &factory.Error{Kind: factory.Conflict, Message: "Something that this " + noun + " refers to was removed in the meantime. Load the page again and choose anew.", Err: err}
	case isBadText(err):
		return &factory.Error{Kind: factory.Invalid, Message: "The " + noun + " has a character in its text that cannot be kept. Remove it.", Err: err}
	}
	if column, ok := takenColumn(err); ok {
		return &factory.Error{Kind: factory.Conflict, Message: takenSentence(noun, column, values), Err: err}
	}
	return fmt.Errorf("%s: %w", noun, err)
}

func takenSentence(noun, column string, values []unique) string {
	for _, v := range values {
		if v.column != column {
			continue
		}
		if column == "name" {
			return article(noun) + " named " + v.value + " exists already. Choose another name."
		}
		title := columnTitles[column]
		if title == "" {
			title = strings.ReplaceAll(column, "_", " ")
		}
		return "Another " + noun + " has the " + title + " " + v.value + " already. Choose another."
	}
	return "This " + noun + " exists already."
}

func article(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) { // not u: a user
		return "An " + noun
	}
	return "A " + noun
}

// takenColumn finds which column's uniqueness was violated; for several columns
// together it is the last, which is the one that a person chose.
func takenColumn(err error) (string, bool) {
	var lite *sqlite.Error
	if errors.As(err, &lite) && (lite.Code() == sqliteUnique || lite.Code() == sqlitePrimaryKey) {
		// "constraint failed: UNIQUE constraint failed: keys.tenant_id, keys.name (2067)"
		text := lite.Error()
		text = text[strings.LastIndex(text, ".")+1:]
		column, _, _ := strings.Cut(text, " ")
		return column, true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == pgUnique {
		// Indexes are named table_column; messages are translated, names are not.
		return strings.TrimPrefix(pg.ConstraintName, pg.TableName+"_"), true
	}
	return "", false
}

func isForeignKey(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code() == sqliteForeignKey
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pgForeignKey
}

// isBadText reports whether PostgreSQL refused text for a zero byte, or bytes that
// are no UTF-8. SQLite takes both.
func isBadText(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pgBadText
}

func isInterrupt(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqliteInterrupt
}

// isVictim reports whether PostgreSQL ended a transaction in favour of another one.
func isVictim(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == pgSerialization || pg.Code == pgDeadlock)
}

func isUnavailable(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqliteBusy, sqliteLocked, sqliteIOErr, sqliteFull, sqliteCantOpen:
			return true
		}
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case isVictim(err), strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"), strings.HasPrefix(pg.Code, "53"):
			return true // connection, shutting down, out of connections or room
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) ||
		err.Error() == "sql: database is closed" // while stopping; database/sql does not export it
}
