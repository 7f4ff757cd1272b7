//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tokenfactory/e2e/faults"
	"tokenfactory/slo"
)

// leastRight is what precision and recall of every signature have to reach.
const leastRight = 0.95

// trial is one scenario with one seed, and what was found.
type trial struct {
	scenario faults.Scenario
	seed     int
	found    slo.Diagnosis
	err      error
}

// benchDiagnosis has every scenario of the practice engine diagnosed with so many seeds, and
// prints how often the diagnosis is right.
func benchDiagnosis(args []string) error {
	f := flag.NewFlagSet("bench diagnosis", flag.ExitOnError)
	seeds := f.Int("seeds", 20, "how often every scenario is tried")
	first := f.Int("first", 0, "the first seed")
	atOnce := f.Int("at-once", 6, "how many are tried at the same time; they mostly wait")
	if err := f.Parse(args); err != nil {
		return err
	}
	defer faults.Steady()()
	begun := time.Now()
	jobs, done := make(chan trial), make(chan trial)
	var workers sync.WaitGroup
	for range *atOnce {
		workers.Go(func() {
			for t := range jobs {
				t.found, t.err = t.scenario.Try(context.Background(), uint64(t.seed))
				done <- t
			}
		})
	}
	go func() {
		for seed := *first; seed < *first+*seeds; seed++ {
			for _, s := range faults.Scenarios {
				jobs <- trial{scenario: s, seed: seed}
			}
		}
		close(jobs)
		workers.Wait()
		close(done)
	}()
	table := newConfusion()
	for t := range done {
		if t.err != nil {
			return fmt.Errorf("%s, seed %d: %w", t.scenario.Name, t.seed, t.err)
		}
		table.add(t.scenario, t.found.Signature)
		if t.found.Signature != t.scenario.Want {
			fmt.Fprintf(os.Stderr, "%s, seed %d: %s instead of %s\n", t.scenario.Name, t.seed, t.found.Signature, t.scenario.Want)
			for _, e := range t.found.Evidence {
				fmt.Fprintf(os.Stderr, "    %s\n", e.Text)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%d scenarios with %d seeds each took %s.\n", len(faults.Scenarios), *seeds, time.Since(begun).Round(time.Second))
	if !table.print(os.Stdout) {
		return fmt.Errorf("a signature is below %.2f", leastRight)
	}
	return nil
}

// confusion counts, by signature, what was right, what was found and what was wanted.
type confusion struct{ right, found, wanted map[slo.Signature]int }

func newConfusion() confusion {
	return confusion{map[slo.Signature]int{}, map[slo.Signature]int{}, map[slo.Signature]int{}}
}

func (c confusion) add(s faults.Scenario, found slo.Signature) {
	c.wanted[s.Want]++
	c.found[found]++
	if found == s.Want {
		c.right[found]++
	}
}

// print writes the table, and reports whether every signature reaches what it has to.
func (c confusion) print(w io.Writer) bool {
	names := map[slo.Signature]string{}
	for _, s := range faults.Scenarios {
		if names[s.Want] != "" {
			names[s.Want] += ", "
		}
		names[s.Want] += s.Name
	}
	fmt.Fprintf(w, "| signature | scenarios | cases | precision | recall |\n|---|---|---:|---:|---:|\n")
	enough := true
	for _, m := range slo.Signatures {
		s := m.Signature
		// What is never found has no precision, and what is never wanted no recall; neither is good.
		precision, recall := float64(c.right[s])/float64(max(c.found[s], 1)), float64(c.right[s])/float64(max(c.wanted[s], 1))
		enough = enough && precision >= leastRight && recall >= leastRight
		fmt.Fprintf(w, "| %s | %s | %d | %.3f | %.3f |\n", s, names[s], c.wanted[s], precision, recall)
	}
	return enough
}
