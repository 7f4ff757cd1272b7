package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"tokenfactory/factory"
)

// row is what a scan function reads from.
type row interface{ Scan(dest ...any) error }

// all reads every row of a query.
func all[T any](ctx context.Context, s *Store, q sqlx.ExtContext, noun string, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryxContext(ctx, q.Rebind(query), args...)
	if err != nil {
		return nil, s.classify(ctx, err, noun)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, s.classify(ctx, err, noun)
		}
		out = append(out, v)
	}
	return out, s.classify(ctx, rows.Err(), noun)
}

// one reads a single row, and says missing when there is none.
func one[T any](ctx context.Context, s *Store, q sqlx.ExtContext, noun, missing string, scan func(row) (T, error), query string, args ...any) (T, error) {
	v, err := scan(q.QueryRowxContext(ctx, q.Rebind(query), args...))
	if errors.Is(err, sql.ErrNoRows) || isBadText(err) { // nothing is called what cannot be kept
		return v, &factory.Error{Kind: factory.NotFound, Message: missing}
	}
	return v, s.classify(ctx, err, noun)
}

// exec runs a statement that writes.
func (s *Store) exec(ctx context.Context, noun string, values []unique, query string, args ...any) error {
	_, err := s.q.ExecContext(ctx, s.q.Rebind(query), args...)
	return s.classify(ctx, err, noun, values...)
}

// change runs a statement that must meet exactly one row, and says missing when it met none.
func (s *Store) change(ctx context.Context, noun, missing string, values []unique, query string, args ...any) error {
	result, err := s.q.ExecContext(ctx, s.q.Rebind(query), args...)
	if err != nil {
		return s.classify(ctx, err, noun, values...)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return &factory.Error{Kind: factory.NotFound, Message: missing}
	}
	return s.classify(ctx, err, noun)
}

// insert is INSERT INTO of one row.
func insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + rowsOf(1, strings.Count(columns, ",")+1)
}

// rowsOf writes n rows of placeholders: (?,?),(?,?).
func rowsOf(n, columns int) string {
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + ")"
	return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
}

// maxRows is the most rows of one statement: with the widest table it stays well
// under the parameters that SQLite (32,766) and PostgreSQL (65,535) take.
const maxRows = 512

// chunks cuts n rows into powers of two and a rest of less than 32, so that only a
// few different statement texts exist: PostgreSQL prepares and keeps each of them.
func chunks(n int) []int {
	var out []int
	for size := maxRows; size >= 32; size /= 2 {
		for n >= size {
			out = append(out, size)
			n -= size
		}
	}
	if n > 0 {
		out = append(out, n)
	}
	return out
}

// inChunks calls work with the parts of rows in order.
func inChunks[T any](rows []T, work func(part []T) error) error {
	for _, n := range chunks(len(rows)) {
		if err := work(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// micros is a time as it is kept.
func micros(t time.Time) int64 { return t.UnixMicro() }

func optMicros(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMicro()
}

// asTime scans a kept time into t.
func asTime(t *time.Time) sql.Scanner { return timeColumn{at: t} }

// asOptTime scans a time that may be missing into t.
func asOptTime(t **time.Time) sql.Scanner { return timeColumn{opt: t} }

type timeColumn struct {
	at  *time.Time
	opt **time.Time
}

func (c timeColumn) Scan(v any) error {
	us, ok := v.(int64)
	switch {
	case v == nil && c.opt != nil:
		*c.opt = nil
		return nil
	case !ok:
		return fmt.Errorf("a time is kept as %T", v)
	}
	t := time.UnixMicro(us).UTC()
	if c.opt != nil {
		*c.opt = &t
	} else {
		*c.at = t
	}
	return nil
}

// toJSON is a list, map or struct as it is kept.
func toJSON(v any) driver.Valuer { return jsonValue{v} }

type jsonValue struct{ v any }

func (j jsonValue) Value() (driver.Value, error) {
	b, err := json.Marshal(j.v)
	return string(b), err
}

// asJSON scans kept JSON into v, a pointer.
func asJSON(v any) sql.Scanner { return jsonColumn{v} }

type jsonColumn struct{ v any }

func (c jsonColumn) Scan(v any) error {
	switch b := v.(type) {
	case string:
		return json.Unmarshal([]byte(b), c.v)
	case []byte:
		return json.Unmarshal(b, c.v)
	}
	return fmt.Errorf("JSON is kept as %T", v)
}

// clean takes out of text from elsewhere what PostgreSQL would refuse: one bad
// byte in an engine's message must not hold up all that comes after it.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

// optText keeps an empty string as NULL, for references that may be missing.
func optText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// asOptText scans text that may be missing; NULL is the empty string.
func asOptText(s *string) sql.Scanner { return textColumn{s} }

type textColumn struct{ s *string }

func (c textColumn) Scan(v any) error {
	switch b := v.(type) {
	case nil:
		*c.s = ""
	case string:
		*c.s = b
	case []byte:
		*c.s = string(b)
	default:
		return fmt.Errorf("text is kept as %T", v)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func itoa(n int) string { return strconv.Itoa(n) }
