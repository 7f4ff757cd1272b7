package migrations_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/migrations"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// dialect is one database that a released schema may be found on.
type dialect struct {
	goose          goose.Dialect
	folder, driver string
	bytes          string // the type of columns of bytes
	tables         string // the query that names all tables
	address        func(t *testing.T) (open, dsn string)
}

var dialects = []dialect{
	{goose.DialectSQLite3, "sqlite", "sqlite", "BLOB", `SELECT name FROM sqlite_master WHERE type = 'table'`, func(t *testing.T) (string, string) {
		path := filepath.Join(t.TempDir(), "x.db")
		return "sqlite:" + path, "file:" + path + "?_pragma=foreign_keys(1)"
	}},
	{goose.DialectPostgres, "postgres", "pgx", "BYTEA", `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`, func(t *testing.T) (string, string) {
		address := storetest.PostgresURL(t)
		return address, address
	}},
}

// release makes a database as a version of the schema left it, with data in every
// table, opens it with today's program, and shows what every table held before and after.
func (d dialect) release(t *testing.T, version int64) (s *store.Store, before, after map[string][]map[string]any) {
	t.Helper()
	open, dsn := d.address(t)
	db, err := sqlx.Connect(d.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	files, err := fs.Sub(migrations.Files, d.folder)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(d.goose, db.DB, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(fmt.Sprintf("testdata/%04d.sql", version))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), strings.ReplaceAll(string(data), "AS BYTES", "AS "+d.bytes)); err != nil {
		t.Fatal(err)
	}
	before = d.dump(t, dsn)
	for table, rows := range before {
		if len(rows) == 0 {
			t.Errorf("testdata has nothing in %s", table)
		}
	}
	if s, err = store.Open(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, before, d.dump(t, dsn)
}

// dump reads all rows of all tables, by column. Each has a connection of its own:
// PostgreSQL keeps how a statement was read before its table changed.
func (d dialect) dump(t *testing.T, dsn string) map[string][]map[string]any {
	t.Helper()
	db, err := sqlx.Connect(d.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var tables []string
	if err := db.SelectContext(t.Context(), &tables, d.tables); err != nil {
		t.Fatal(err)
	}
	out := map[string][]map[string]any{}
	for _, table := range tables {
		if strings.HasPrefix(table, "goose_") || strings.HasPrefix(table, "sqlite_") {
			continue
		}
		rows, err := db.QueryxContext(t.Context(), `SELECT * FROM `+table+` ORDER BY 1, 2`)
		if err != nil {
			t.Fatal(err)
		}
		out[table] = nil
		for rows.Next() {
			values := map[string]any{}
			if err := rows.MapScan(values); err != nil {
				t.Fatal(err)
			}
			out[table] = append(out[table], values)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	return out
}

func TestADatabaseOfAReleaseKeepsItsData(t *testing.T) {
	// What later versions replaced; tests of their own look at what became of it.
	replaced := map[int64]map[string]bool{
		1: {"keys.requests_per_minute": true, "deployments.requests_per_minute": true},
		2: {},
	}
	for version, replaced := range replaced {
		for _, d := range dialects {
			t.Run(fmt.Sprintf("%d/%s", version, d.folder), func(t *testing.T) {
				_, before, after := d.release(t, version)
				for table, rows := range before {
					if len(rows) == 0 {
						continue // release has said so
					}
					columns := slices.DeleteFunc(slices.Sorted(maps.Keys(rows[0])), func(c string) bool { return replaced[table+"."+c] })
					if was, is := lines(rows, columns), lines(after[table], columns); !slices.Equal(was, is) {
						t.Errorf("%s, of %v, was\n%s\nand is\n%s", table, columns, strings.Join(was, "\n"), strings.Join(is, "\n"))
					}
				}
			})
		}
	}
}

// lines writes some columns of rows, in an order that depends on nothing else.
func lines(rows []map[string]any, columns []string) []string {
	var out []string
	for _, row := range rows {
		var values []string
		for _, c := range columns {
			value, kept := row[c]
			values = append(values, fmt.Sprintf("%#v,%t", value, kept))
		}
		out = append(out, strings.Join(values, " "))
	}
	slices.Sort(out)
	return out
}

func TestMeasurementsOfTheSecondReleaseAreEverybodys(t *testing.T) {
	at := time.UnixMicro(1796040000000000).UTC()
	for _, d := range dialects {
		t.Run(d.folder, func(t *testing.T) {
			s, _, _ := d.release(t, 2)
			ctx := t.Context()
			for _, c := range []struct {
				name metrics.Name
				step time.Duration
				want [][4]any // replica, count, sum, peak
			}{
				{metrics.KVCache, 10 * time.Second, [][4]any{{"r1", 2.0, 0.5, 0.375}, {"r2", 1.0, 0.125, 0.125}}},
				{metrics.KVCache, time.Minute, [][4]any{{"r1", 12.0, 6.25, 0.875}}},
				{metrics.TTFT, time.Hour, [][4]any{{"r1", 2.0, 250.5, 200.25}}},
				{metrics.OutputTokens, time.Hour, [][4]any{{"r1", 3.0, 70.0, 40.0}, {"", 1.0, 7.0, 7.0}}},
			} {
				buckets, err := s.Buckets(ctx, "d1", c.step, []metrics.Name{c.name}, at, at.Add(2*time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				var got [][4]any
				for _, b := range buckets {
					got = append(got, [4]any{b.ReplicaID, b.Count, b.Sum, b.Max})
					if b.TenantID != "" || b.KeyID != "" || (c.name == metrics.TTFT) != (string(b.Sketch) == "sketch") {
						t.Errorf("%s: %+v", c.name, b)
					}
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s of %s: %v, want %v", c.name, c.step, got, c.want)
				}
			}
			// And what comes is added to it.
			more := metrics.Bucket{DeploymentID: "d1", ReplicaID: "r1", Name: metrics.OutputTokens, Step: 10 * time.Second, Start: at, Count: 1, Sum: 5, Max: 5}
			if err := s.MergeBuckets(ctx, []metrics.Bucket{more}); err != nil {
				t.Fatal(err)
			}
			buckets, err := s.Buckets(ctx, "d1", time.Hour, []metrics.Name{metrics.OutputTokens}, at, at.Add(time.Hour))
			if err != nil || len(buckets) != 1 || buckets[0].Sum != 75 || buckets[0].Max != 40 {
				t.Errorf("after another one: %+v, %v", buckets, err)
			}
		})
	}
}

func TestTargetsOfTheSecondReleaseHoldSinceTheDeploymentDoes(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.folder, func(t *testing.T) {
			s, _, _ := d.release(t, 2)
			for id, want := range map[string]factory.Targets{
				"d1": {TTFT: 300 * time.Millisecond, ITL: 40 * time.Millisecond},
				"d2": {OutputRate: 10},
			} {
				x, err := s.Deployment(t.Context(), id)
				if err != nil || x.Targets() != want || x.Objectives != (factory.Objectives{}) || x.TargetsAt.IsZero() || !x.TargetsAt.Equal(x.CreatedAt) {
					t.Errorf("%s: %+v since %s of %s, %v", id, x.Targets(), x.TargetsAt, x.CreatedAt, err)
				}
			}
		})
	}
}

func TestLimitsOfTheFirstReleaseHold(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.folder, func(t *testing.T) {
			s, _, _ := d.release(t, 1)
			ctx := t.Context()
			for hash, want := range map[string]int{"hash-1": 60, "hash-2": 0, "hash-0": 5} {
				k, err := s.KeyByHash(ctx, hash)
				if err != nil || k.Limits != (factory.Limits{RequestsPerMinute: want}) || !k.TenantLimits.None() {
					t.Errorf("key of %s: %+v, %v", hash, k, err)
				}
			}
			for id, want := range map[string]int{"d1": 600, "d2": 0} {
				x, err := s.Deployment(ctx, id)
				if err != nil || x.Limits != (factory.Limits{RequestsPerMinute: want}) || x.ReplicaConcurrency != 0 || x.Asleep || x.RunningUsage != "" {
					t.Errorf("deployment %s: %+v, %v", id, x, err)
				}
			}
			if tenant, err := s.Tenant(ctx, "t1"); err != nil || !tenant.Limits.None() {
				t.Errorf("tenant: %+v, %v", tenant, err)
			}
		})
	}
}

func TestSpendingOfTheFirstReleaseIsKnown(t *testing.T) {
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, d := range dialects {
		t.Run(d.folder, func(t *testing.T) {
			s, _, _ := d.release(t, 1)
			for _, c := range []struct {
				scope    factory.Scope
				id       string
				from, to time.Time
				want     map[string]int64 // prompt tokens by price
			}{
				{factory.ScopeTenant, "t1", november, november.AddDate(0, 1, 0), map[string]int64{"v1": 300, "v2": 400}},
				{factory.ScopeTenant, "t1", november, november.AddDate(0, 2, 0), map[string]int64{"v1": 300, "v2": 1200}},
				{factory.ScopeKey, "k2", november, november.AddDate(0, 2, 0), map[string]int64{"v2": 800}},
				{factory.ScopeDeployment, "d0", november, november.AddDate(0, 1, 0), map[string]int64{"v0": 7}},
				{factory.ScopeTenant, "t1", noon.Add(2 * time.Microsecond), november.AddDate(0, 1, 0), map[string]int64{"v1": 200, "v2": 400}},
			} {
				sums, err := s.Spent(t.Context(), c.scope, c.id, c.from, c.to)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]int64{}
				for _, x := range sums {
					got[x.Price.ID] = x.PromptTokens
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s %s from %s to %s: %v, want %v", c.scope, c.id, c.from, c.to, got, c.want)
				}
			}
			// And what comes is added to it.
			more := factory.Usage{ID: "q6", TenantID: "t1", KeyID: "k1", DeploymentID: "d1", PriceID: "v1", PromptTokens: 1000, StartedAt: noon}
			if err := s.AppendUsage(t.Context(), []factory.Usage{more}); err != nil {
				t.Fatal(err)
			}
			sums, err := s.Spent(t.Context(), factory.ScopeKey, "k1", november, november.AddDate(0, 1, 0))
			if err != nil || len(sums) != 2 || sums[0].PromptTokens != 1300 || sums[0].Price.Output != "0.60" {
				t.Errorf("after another request: %+v, %v", sums, err)
			}
		})
	}
}
