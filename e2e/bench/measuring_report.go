//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// measuringReport is what `bench metrics` found.
type measuringReport struct {
	At      time.Time                   `json:"at"`
	Machine machine                     `json:"machine"`
	Rows    map[string]map[string]int64 `json:"rows"` // by database and resolution
	Pages   []pageReport                `json:"pages"`
	Costs   []costReport                `json:"costs"`
	Goals   []goal                      `json:"goals"`
}

func newMeasuringReport() *measuringReport {
	return &measuringReport{
		At: time.Now().UTC().Truncate(time.Second), Machine: machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU()},
		Rows: map[string]map[string]int64{},
	}
}

// judge compares with the numbers to reach.
func (r *measuringReport) judge() {
	add := func(what string, value float64, unit string, limit float64) {
		r.Goals = append(r.Goals, goal{what, value, unit, limit, true, value <= limit})
	}
	for _, c := range r.Costs {
		if c.Limit > 0 {
			add(c.What, c.Value, c.Unit, c.Limit)
		}
	}
	for _, p := range r.Pages {
		add(p.Database+": "+p.What+", p95", p.P95MS, "ms", p.LimitMS)
		if p.KiB > 0 {
			add(p.Database+": "+p.What+", size", p.KiB, "KiB", maxPageKiB)
		}
	}
}

func (r *measuringReport) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s/%s, %d cores shared by everything, the database too.\n", r.Machine.OS, r.Machine.Arch, r.Machine.Cores)
	fmt.Fprintf(w, "%d deployments over %d days, %d nodes; buckets finer than an hour are of the %d deployments that are opened, hours of all.\n",
		seedDeployments, seedDays, seedNodes, seedOpened)
	for database, rows := range r.Rows {
		fmt.Fprintf(w, "  %-10s", database)
		for _, what := range []string{"10 s", "1 min", "1 h", "usage"} {
			fmt.Fprintf(w, "  %s: %d", what, rows[what])
		}
		fmt.Fprintln(w, " rows")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\n  server time\tdatabase\ttimes\tp50 ms\tp95 ms\tCPU ms\tKiB\tgzip KiB\t")
	for _, p := range r.Pages {
		fmt.Fprintf(tw, "  %s\t%s\t%d\t%.1f\t%.1f\t%.1f\t", p.What, p.Database, p.Loads, p.P50MS, p.P95MS, p.CPUMS)
		if p.KiB > 0 {
			fmt.Fprintf(tw, "%.0f\t%.0f\t\n", p.KiB, p.GzipKiB)
		} else {
			fmt.Fprint(tw, "\t\t\n")
		}
	}
	tw.Flush()
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\n  costs")
	for _, c := range r.Costs {
		fmt.Fprintf(tw, "  %s\t%.4g %s\n", c.What, c.Value, c.Unit)
	}
	tw.Flush()
	missed := slices.DeleteFunc(slices.Clone(r.Goals), func(g goal) bool { return g.Met })
	fmt.Fprintf(w, "\n%d of %d goals are met.\n", len(r.Goals)-len(missed), len(r.Goals))
	for _, g := range missed {
		fmt.Fprintf(w, "  missed: %s: %.4g %s, at most %.4g wanted\n", g.What, g.Value, g.Unit, g.Limit)
	}
}

// save puts the report beside what other runs of the bench wrote into the file.
func (r *measuringReport) save(file string) error {
	all := map[string]json.RawMessage{}
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%s is not a report of the bench: %w", file, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if all["measuring"], err = json.Marshal(r); err != nil {
		return err
	}
	if text, err = json.MarshalIndent(all, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
