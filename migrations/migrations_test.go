package migrations_test

import (
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"tokenfactory/migrations"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func TestBothDialectsHaveTheSameFiles(t *testing.T) {
	list := func(folder string) []string {
		entries, err := fs.ReadDir(migrations.Files, folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	lite, pg := list("sqlite"), list("postgres")
	if len(lite) == 0 || !slices.Equal(lite, pg) {
		t.Errorf("sqlite has %v, postgres has %v", lite, pg)
	}
}

// kinds are the types that a dialect may give a column, by what they hold.
var kinds = map[string]string{
	"TEXT": "text", "text": "text",
	"BIGINT": "number", "INTEGER": "number", "bigint": "number", "integer": "number",
	"DOUBLE PRECISION": "decimal", "double precision": "decimal",
	"BOOLEAN": "boolean", "boolean": "boolean",
	"BLOB": "bytes", "bytea": "bytes",
}

func TestBothDialectsHaveTheSameTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	lite := columns(t, "sqlite:"+path, "sqlite", "file:"+path,
		`SELECT m.name, c.name, c.type, c."notnull" = 1 FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`,
		`SELECT tbl_name, name, '', sql LIKE '%UNIQUE%' FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`)
	address := storetest.PostgresURL(t)
	pg := columns(t, address, "pgx", address,
		`SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns WHERE table_schema = 'public'`,
		`SELECT tablename, indexname, '', indexdef LIKE '%UNIQUE%' FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%_pkey'`)
	if len(lite) < 100 {
		t.Fatalf("only %d columns and indexes were read", len(lite))
	}
	for _, name := range slices.Sorted(maps.Keys(lite)) {
		if !reflect.DeepEqual(lite[name], pg[name]) {
			t.Errorf("%s is %v in sqlite and %v in postgres", name, lite[name], pg[name])
		}
		delete(pg, name)
	}
	// SQLite keeps the buckets in the order of their key and does without.
	const own = "metric_buckets.metric_buckets_judged"
	if _, there := pg[own]; !there {
		t.Errorf("%s is missing in postgres", own)
	}
	delete(pg, own)
	for name := range pg {
		t.Errorf("%s is in postgres only", name)
	}
}

type column struct {
	kind string
	// strict is NOT NULL of a column and UNIQUE of an index.
	strict bool
}

func columns(t *testing.T, open, driver, address string, queries ...string) map[string]column {
	t.Helper()
	s, err := store.Open(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlx.Connect(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out := map[string]column{}
	for _, query := range queries {
		rows, err := db.QueryxContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var table, name, kind string
			var c column
			if err := rows.Scan(&table, &name, &kind, &c.strict); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(table, "goose_") || strings.HasPrefix(table, "sqlite_") {
				continue // not ours: they keep what has been migrated
			}
			if c.kind = kinds[kind]; kind != "" && c.kind == "" {
				t.Errorf("%s.%s has the type %s, which has no counterpart", table, name, kind)
			}
			out[table+"."+name] = c
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	return out
}
