//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// measuring are the flags of `bench metrics`, which measures what measuring costs.
type measuring struct {
	seeded   string
	postgres string
	json     string
	engines  string
	profile  string
	loads    int
	page     string
}

// measure runs `bench metrics`: accuracy, recorder, scrape, and on each database the
// roll-up, the pages and what is read for everybody.
func measure(args []string) error {
	var m measuring
	f := flag.NewFlagSet("bench metrics", flag.ExitOnError)
	f.StringVar(&m.seeded, "seeded", "", "SQLite file to measure on; seeded when it is not there, and kept. Without it one is made and thrown away; - leaves SQLite out")
	f.StringVar(&m.postgres, "postgres", os.Getenv("TEST_POSTGRES"), "address of a PostgreSQL database of the bench's own; seeded when it is empty, and kept. Without it only SQLite is measured")
	f.StringVar(&m.json, "json", "bench.json", "file for the results, added to what other runs of the bench wrote there")
	f.StringVar(&m.engines, "engines", "engines/testdata", "folder with metrics pages of engines")
	f.StringVar(&m.profile, "profile", "", "file for a CPU profile of the pages")
	f.IntVar(&m.loads, "loads", 40, "how often each page is asked for")
	f.StringVar(&m.page, "page", "", "only the pages and reads with this in their name, such as “24 h”, and nothing else")
	if err := f.Parse(args); err != nil {
		return err
	}
	return m.run(context.Background())
}

func (m measuring) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tokenfactory-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if m.seeded == "" {
		m.seeded = filepath.Join(dir, "seeded.db")
	}
	r := newMeasuringReport()
	if m.page == "" {
		if err := m.alone(r); err != nil {
			return err
		}
	}
	var addresses []string
	if m.seeded != "-" {
		addresses = append(addresses, "sqlite:"+m.seeded)
	}
	if m.postgres != "" {
		addresses = append(addresses, m.postgres)
	}
	for _, address := range addresses {
		if err := m.on(ctx, address, r); err != nil {
			return fmt.Errorf("%s: %w", databaseName(address), err)
		}
	}
	r.judge()
	r.print(os.Stdout)
	return r.save(m.json)
}

// alone measures what needs no database.
func (m measuring) alone(r *measuringReport) error {
	errors, err := accuracy()
	if err != nil {
		return err
	}
	scraped, err := scrape(m.engines)
	if err != nil {
		return err
	}
	r.Costs = append(append(append(r.Costs, errors...), recorderMemory()...), scraped...)
	return nil
}

// on measures one database.
func (m measuring) on(ctx context.Context, address string, r *measuringReport) error {
	database := databaseName(address)
	say("%s: opening, or seeding if it is empty.", database)
	st, w, err := openWorld(ctx, address, say)
	if err != nil {
		return err
	}
	defer st.Close()
	r.Rows[database] = w.Rows
	pages, err := m.profiled(database, func() ([]pageReport, error) { return m.pages(ctx, database, st, w) })
	if err != nil {
		return err
	}
	r.Pages = append(r.Pages, pages...)
	if m.page != "" {
		return nil
	}
	costs, err := rollUp(ctx, database, st)
	r.Costs = append(r.Costs, costs...)
	return err
}

// profiled writes down what the processor did meanwhile, if that is wanted.
func (m measuring) profiled(database string, work func() ([]pageReport, error)) ([]pageReport, error) {
	if m.profile == "" {
		return work()
	}
	f, err := os.Create(m.profile + "." + database)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return work()
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
