//go:build linux

// Command bench measures what the gateway costs. It puts the same load on the same
// mock engine through nothing, a bare Go reverse proxy, nginx where it is installed,
// and the gateway with authentication, limits, metering, spool and ledger on, in
// turns, and prints medians and ratios.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the flags of a run.
type settings struct {
	programs  string
	json      string
	rounds    int
	streams   int
	short     time.Duration
	long      time.Duration
	openFor   time.Duration
	searchFor time.Duration
	searches  int
	only      []string
	scenarios []string
	serve     []string
	keep      bool
	begun     time.Time
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs the bench, or one of its own helpers in a process of its own.
func command(args []string) error {
	if err := manyFiles(); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "metrics" {
		return measure(args[1:])
	}
	if len(args) > 0 && args[0] == "diagnosis" {
		return benchDiagnosis(args[1:])
	}
	if len(args) > 1 && (args[0] == "engine" || args[0] == "proxy") {
		ports := make([]int, len(args)-1)
		for i, a := range args[1:] {
			var err error
			if ports[i], err = strconv.Atoi(a); err != nil {
				return err
			}
		}
		if args[0] == "engine" {
			return serveEngine(ports[0])
		}
		return serveProxy(ports[0], ports[1])
	}
	s := settings{begun: time.Now()}
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	f.StringVar(&s.programs, "bin", "bin", "folder with tokenfactory and tokenfactory-agent")
	f.StringVar(&s.json, "json", "bench.json", "file for the results")
	f.IntVar(&s.rounds, "rounds", 4, "how often every scenario runs; the long one every second time")
	f.IntVar(&s.streams, "streams", 2000, "how many streams are open at once")
	f.DurationVar(&s.short, "short", 2*time.Second, "time of a light scenario")
	f.DurationVar(&s.long, "long", 3*time.Second, "time of a heavy scenario")
	f.DurationVar(&s.openFor, "open", 5*time.Second, "time that the many streams last")
	f.DurationVar(&s.searchFor, "search", 1500*time.Millisecond, "how long each step of the search for the most streams is measured")
	f.IntVar(&s.searches, "searches", 1, "how often the most streams are searched for; 0 leaves it out")
	list := func(into *[]string) func(string) error {
		return func(text string) error {
			*into = strings.Split(text, ",")
			return nil
		}
	}
	f.Func("targets", "only these: direct, go proxy, nginx, gateway", list(&s.only))
	f.Func("scenarios", "only these: open, single, plain, burst, paced, long", list(&s.scenarios))
	f.Func("serve", "more arguments for tokenfactory serve, with commas between", list(&s.serve))
	f.BoolVar(&s.keep, "keep", false, "keep the folder with data and logs")
	if err := f.Parse(args); err != nil {
		return err
	}
	return s.run()
}

func (s settings) run() error {
	dir, err := os.MkdirTemp("", "tokenfactory-bench-")
	if err != nil {
		return err
	}
	if s.keep {
		s.say("Data and logs are in %s.", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	// Workers of nginx have to get in.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	b := &bench{settings: s, dir: dir}
	defer b.stop()
	if err := b.start(); err != nil {
		return err
	}
	s.say("Everything is up after %s.", time.Since(s.begun).Round(time.Second))
	if err := b.rounds(); err != nil {
		return err
	}
	most := map[string][]int{}
	for i := range s.searches {
		found, err := b.search()
		if err != nil {
			return fmt.Errorf("search: %w", err)
		}
		for _, t := range b.targets {
			most[t.name] = append(most[t.name], found[t.name])
		}
		s.say("Search %d of %d is done after %s.", i+1, s.searches, time.Since(s.begun).Round(time.Second))
	}
	r := b.report(most)
	r.print(os.Stdout)
	return r.save(s.json)
}

func (s settings) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// manyFiles raises the limit of open files as far as it may be raised: a proxy with
// 2,000 streams needs twice as many. Children inherit it.
func manyFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur < 8192 {
		return fmt.Errorf("only %d files may be open at once, which is too few for 2,000 streams; raise the hard limit (ulimit -Hn)", limit.Cur)
	}
	return nil
}
