//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"tokenfactory/metrics"
)

// bulk fills a database past the store: tens of millions of rows, copied inside the
// database from a few templates.
type bulk struct {
	db       *sqlx.DB
	postgres bool
	say      func(format string, args ...any)
}

// openBulk opens a database whose schema is there already. If the machine stops meanwhile
// the seed is begun anew, so nothing waits for the disk.
func openBulk(address string) (*bulk, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		db, err := sqlx.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-1000000)&_pragma=temp_store(FILE)&_pragma=journal_mode(WAL)")
		if err == nil {
			db.SetMaxOpenConns(1)
		}
		return &bulk{db: db}, err
	}
	db, err := sqlx.Open("pgx", address)
	return &bulk{db: db, postgres: true}, err
}

func (b *bulk) run(ctx context.Context, query string, args ...any) error {
	if _, err := b.db.ExecContext(ctx, b.db.Rebind(query), args...); err != nil {
		return fmt.Errorf("%w, in %.120s", err, strings.Join(strings.Fields(query), " "))
	}
	return nil
}

// owner is one replica, or one key, whose buckets are a copy of a template. A machine is
// one too: its GPU is the replica.
type owner struct {
	deployment, tenant, key, replica string
	template                         int
	finest                           int64 // seconds; coarser ones are there too
}

// prepare makes the tables that the copies are made from.
func (b *bulk) prepare(ctx context.Context, templates [][]metrics.Bucket, owners []owner) error {
	blob := "BLOB"
	if b.postgres {
		blob = "BYTEA"
	}
	for _, q := range []string{
		`DROP TABLE IF EXISTS bench_templates`,
		`DROP TABLE IF EXISTS bench_owners`,
		`CREATE TABLE bench_templates (template BIGINT, keyed BIGINT, step_s BIGINT, name TEXT, start_us BIGINT, count DOUBLE PRECISION, sum DOUBLE PRECISION, max DOUBLE PRECISION, sketch ` + blob + `)`,
		`CREATE TABLE bench_owners (deployment_id TEXT, tenant_id TEXT, key_id TEXT, replica_id TEXT, template BIGINT, keyed BIGINT, finest BIGINT)`,
	} {
		if err := b.run(ctx, q); err != nil {
			return err
		}
	}
	var rows [][]any
	for i, t := range templates {
		for _, x := range t {
			keyed := 0
			if ofGateway(x.Name) {
				keyed = 1
			}
			rows = append(rows, []any{i, keyed, int64(x.Step.Seconds()), string(x.Name), x.Start.UnixMicro(), x.Count, x.Sum, x.Max, x.Sketch})
		}
	}
	if err := b.insert(ctx, "bench_templates", rows); err != nil {
		return err
	}
	rows = nil
	for _, o := range owners {
		keyed := 0
		if o.key != "" {
			keyed = 1
		}
		rows = append(rows, []any{o.deployment, o.tenant, o.key, o.replica, o.template, keyed, o.finest})
	}
	if err := b.insert(ctx, "bench_owners", rows); err != nil {
		return err
	}
	for _, q := range []string{
		`CREATE INDEX bench_templates_by_place ON bench_templates (template, step_s, name, start_us)`,
		`CREATE INDEX bench_templates_by_time ON bench_templates (step_s, start_us)`,
		`CREATE INDEX bench_owners_by_deployment ON bench_owners (deployment_id)`,
	} {
		if err := b.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (b *bulk) insert(ctx context.Context, table string, rows [][]any) error {
	tx, err := b.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	const many = 500
	for len(rows) > 0 {
		part := rows[:min(many, len(rows))]
		rows = rows[len(part):]
		one := "(" + strings.TrimSuffix(strings.Repeat("?,", len(part[0])), ",") + ")"
		var args []any
		for _, r := range part {
			args = append(args, r...)
		}
		query := "INSERT INTO " + table + " VALUES " + strings.TrimSuffix(strings.Repeat(one+",", len(part)), ",")
		if _, err := tx.ExecContext(ctx, tx.Rebind(query), args...); err != nil {
			return fmt.Errorf("fill %s: %w", table, err)
		}
	}
	return tx.Commit()
}

// copyBuckets gives every owner its buckets. SQLite keeps a deployment's rows together, so
// they are written deployment for deployment; PostgreSQL keeps rows in the order in which
// they came, which was that of time, with everybody's between each other.
func (b *bulk) copyBuckets(ctx context.Context) error {
	const copied = `INSERT INTO metric_buckets (deployment_id, tenant_id, step_s, name, start_us, key_id, replica_id, count, sum, max, sketch)
		SELECT o.deployment_id, o.tenant_id, t.step_s, t.name, t.start_us, o.key_id, o.replica_id, t.count, t.sum, t.max, t.sketch
		FROM bench_owners o CROSS JOIN bench_templates t
		WHERE t.template = o.template AND t.step_s >= o.finest AND t.keyed >= o.keyed AND `
	if !b.postgres {
		var ids []string
		if err := b.db.SelectContext(ctx, &ids, `SELECT DISTINCT deployment_id FROM bench_owners ORDER BY 1`); err != nil {
			return err
		}
		return b.each(ctx, len(ids), func(tx *sqlx.Tx, i int) error {
			_, err := tx.ExecContext(ctx, copied+`o.deployment_id = ? ORDER BY o.tenant_id, t.step_s, t.name, t.start_us, o.replica_id`, ids[i])
			return err
		})
	}
	var steps []struct {
		Step  int64 `db:"step_s"`
		Start int64 `db:"start_us"`
	}
	if err := b.db.SelectContext(ctx, &steps, `SELECT DISTINCT step_s, start_us FROM bench_templates ORDER BY start_us, step_s`); err != nil {
		return err
	}
	return b.each(ctx, len(steps), func(tx *sqlx.Tx, i int) error {
		_, err := tx.ExecContext(ctx, copied+`t.step_s = $1 AND t.start_us = $2`, steps[i].Step, steps[i].Start)
		return err
	})
}

// each does n pieces of work in a few transactions and says how far it got.
func (b *bulk) each(ctx context.Context, n int, work func(tx *sqlx.Tx, i int) error) error {
	const parts = 10
	for part := range parts {
		tx, err := b.db.BeginTxx(ctx, nil)
		if err != nil {
			return err
		}
		for i := n * part / parts; i < n*(part+1)/parts && err == nil; i++ {
			err = work(tx, i)
		}
		if err != nil {
			tx.Rollback()
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		b.say("  %d %% of the buckets are written.", 100*(part+1)/parts)
	}
	return nil
}

// withoutIndexes does work while a table has no indexes, and makes them anew afterwards as
// the migrations have them: sorting once is far quicker than keeping order row by row.
// SQLite's tables of buckets are their own primary key, which stays.
func (b *bulk) withoutIndexes(ctx context.Context, table string, work func() error) error {
	var drop, again []string
	rows, err := b.db.QueryxContext(ctx, `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = '`+table+`'`)
	if b.postgres {
		rows, err = b.db.QueryxContext(ctx, `SELECT i.relname, pg_get_indexdef(i.oid) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
			WHERE x.indrelid = '`+table+`'::regclass AND NOT x.indisprimary
			UNION ALL SELECT '', 'ALTER TABLE `+table+` ADD CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '`+table+`'::regclass AND contype = 'p'`)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, make string
		if err := rows.Scan(&name, &make); err != nil {
			return err
		}
		if name == "" {
			drop = append(drop, "ALTER TABLE "+table+" DROP CONSTRAINT "+strings.Fields(make)[5])
		} else {
			drop = append(drop, "DROP INDEX "+name)
		}
		again = append(again, make)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close() // the one connection of SQLite is needed below
	for _, q := range drop {
		if err := b.run(ctx, q); err != nil {
			return err
		}
	}
	if err := work(); err != nil {
		return err
	}
	for _, q := range again {
		if err := b.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// finish drops what the copies were made from, and does what a database does of itself when
// it has time.
func (b *bulk) finish(ctx context.Context) error {
	list := []string{`DROP TABLE bench_templates`, `DROP TABLE bench_owners`, `PRAGMA wal_checkpoint(TRUNCATE)`}
	if b.postgres {
		list[2] = `VACUUM ANALYZE`
	}
	for _, q := range list {
		if err := b.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// counts are the rows of each resolution.
func (b *bulk) counts(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	for what, q := range map[string]string{
		"10 s": `SELECT COUNT(*) FROM metric_buckets WHERE step_s = 10`, "1 min": `SELECT COUNT(*) FROM metric_buckets WHERE step_s = 60`,
		"1 h": `SELECT COUNT(*) FROM metric_buckets WHERE step_s = 3600`, "usage": `SELECT COUNT(*) FROM usage_rollups`,
	} {
		var n int64
		if err := b.db.GetContext(ctx, &n, q); err != nil {
			return nil, err
		}
		out[what] = n
	}
	return out, nil
}
