//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// target is one way from the load generator to the engine.
type target struct {
	name    string
	port    int
	process *process // nil for direct
	idle    memory   // after a few requests, before any load
	house   *house   // of the gateway
}

// The names of targets, in the table and in the JSON.
const (
	direct  = "direct"
	bare    = "go proxy"
	nginx   = "nginx"
	gateway = "gateway"
)

// sample is what one scenario gave for one target in one round.
type sample struct {
	Requests  int     `json:"requests"`
	Errors    int     `json:"errors"`
	PerSecond float64 `json:"per_second"`
	P50MS     float64 `json:"p50_ms"` // of whole answers
	P99MS     float64 `json:"p99_ms"`
	DelayP50  float64 `json:"event_delay_p50_ms"`
	DelayP99  float64 `json:"event_delay_p99_ms"`
	CPU       float64 `json:"cpu_s_per_1000"` // of the target's processes
	LoadCPU   float64 `json:"load_generator_cpu_share"`
	EngineCPU float64 `json:"engine_cpu_share"`
	RSS       float64 `json:"rss_kib_per_stream,omitempty"`
	PSS       float64 `json:"pss_kib_per_stream,omitempty"`
	LedgerMS  float64 `json:"ledger_ms,omitempty"` // until the ledger was exact
}

// bench is one run.
type bench struct {
	settings
	dir     string
	engine  *process
	port    int // of the engine
	targets []*target
	stops   []func()
	results results
}

// results are by scenario and target, one sample a round.
type results map[string]map[string][]sample

// start brings every program up. stop ends them, also those of a start that failed.
func (b *bench) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ports := make([]int, 3)
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	b.port = ports[0]
	if b.engine, err = start(b.dir, "engine", nil, self, "engine", strconv.Itoa(b.port)); err != nil {
		return err
	}
	b.stops = append(b.stops, b.engine.stop)
	if err := b.engine.listening(b.port); err != nil {
		return err
	}
	b.targets = []*target{{name: direct, port: b.port}}

	proxy, err := start(b.dir, "proxy", nil, self, "proxy", strconv.Itoa(ports[1]), strconv.Itoa(b.port))
	if err != nil {
		return err
	}
	b.stops = append(b.stops, proxy.stop)
	if err := proxy.listening(ports[1]); err != nil {
		return err
	}
	b.targets = append(b.targets, &target{name: bare, port: ports[1], process: proxy})

	server, installed, err := startNginx(b.dir, ports[2], b.port)
	switch {
	case err != nil:
		return err
	case !installed:
		b.say("nginx is not installed and is left out.")
	default:
		b.stops = append(b.stops, server.stop)
		if err := server.listening(ports[2]); err != nil {
			return err
		}
		b.targets = append(b.targets, &target{name: nginx, port: ports[2], process: server})
	}

	h, err := newHouse(b.dir, b.programs, b.port, b.serve)
	if err != nil {
		return err
	}
	b.stops = append(b.stops, h.stop)
	b.targets = append(b.targets, &target{name: gateway, port: h.port, process: h.server, house: h})
	b.targets = slices.DeleteFunc(b.targets, func(t *target) bool { return len(b.only) > 0 && !slices.Contains(b.only, t.name) })
	for _, t := range b.targets {
		out, err := load{port: t.port, request: chat(t.key(), plainBody), conns: 4, each: 100, patience: 30 * time.Second}.run()
		if err != nil {
			return err
		}
		if out.errors > 0 {
			return fmt.Errorf("%s: %w", t.name, out.failure)
		}
		time.Sleep(300 * time.Millisecond)
		if t.process != nil {
			t.idle = t.process.memory()
		}
	}
	return nil
}

func (b *bench) stop() {
	for _, stop := range slices.Backward(b.stops) {
		stop()
	}
}

func (t *target) key() string {
	if t.house == nil {
		return "sk-tf-of-the-same-length-as-one-that-is-checked-somewhere-else"
	}
	return t.house.key
}

// rounds runs every scenario for every target, in one order and then in the other,
// so that what else the machine does hits all of them alike.
func (b *bench) rounds() error {
	b.results = results{}
	for round := range b.settings.rounds {
		order := slices.Clone(b.targets)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range scenarios(b.settings) {
			if s.rounds > 0 && round >= s.rounds || len(b.scenarios) > 0 && !slices.Contains(b.scenarios, s.name) {
				continue
			}
			for _, t := range order {
				m, err := b.measure(t, s)
				if err != nil {
					return fmt.Errorf("round %d, %s, %s: %w", round+1, s.name, t.name, err)
				}
				if b.results[s.name] == nil {
					b.results[s.name] = map[string][]sample{}
				}
				b.results[s.name][t.name] = append(b.results[s.name][t.name], m)
			}
		}
		b.say("Round %d of %d is done after %s.", round+1, b.settings.rounds, time.Since(b.begun).Round(time.Second))
	}
	return nil
}

func (b *bench) measure(t *target, s scenario) (sample, error) {
	l := s.load
	l.port, l.request = t.port, chat(t.key(), s.body)
	var loaded memory
	if s.memory && t.process != nil {
		l.during = func() { loaded = t.process.memory() }
	}
	var before ledger
	if t.house != nil {
		var err error
		if before, err = t.house.ledger(); err != nil {
			return sample{}, err
		}
	}
	var cpu time.Duration
	if t.process != nil {
		cpu = t.process.cpu()
	}
	engine := b.engine.cpu()
	out, err := l.run()
	if err != nil {
		return sample{}, err
	}
	engine = b.engine.cpu() - engine
	m := sample{
		Requests: out.requests, Errors: out.errors,
		PerSecond: float64(out.requests) / out.took.Seconds(),
		P50MS:     ms(at(out.times, 0.5)), P99MS: ms(at(out.times, 0.99)),
		DelayP50: ms(at(out.delays, 0.5)), DelayP99: ms(at(out.delays, 0.99)),
		LoadCPU: out.cpu.Seconds() / out.took.Seconds(), EngineCPU: engine.Seconds() / out.took.Seconds(),
	}
	if out.failure != nil {
		b.say("%s, %s: %d errors, the first: %v", t.name, s.name, out.errors, out.failure)
	}
	if t.process != nil {
		if loaded.rss > 0 {
			m.RSS = float64(loaded.rss-t.idle.rss) / 1024 / float64(l.conns)
			m.PSS = float64(loaded.pss-t.idle.pss) / 1024 / float64(l.conns)
		}
	}
	if t.house != nil && out.errors == 0 {
		tokens := plainTokens
		if l.stream > 0 {
			tokens = l.stream
		}
		behind, err := t.house.metered(before, out.requests, tokens)
		if err != nil {
			return m, err
		}
		m.LedgerMS = ms(behind)
	}
	// After the ledger: what is done behind the last answer belongs to it too.
	if t.process != nil && out.requests > 0 {
		m.CPU = (t.process.cpu() - cpu).Seconds() / float64(out.requests) * 1000
	}
	return m, nil
}

// counts are the numbers of streams that a search goes through.
var counts = []int{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000}

// tries is how often a number of streams is tried before it counts as too many: what
// else the machine does can only make it look worse.
const tries = 3

// search finds the most paced streams that every target serves with a p99 delay under
// one pace. All targets try a number before any tries the next.
func (b *bench) search() (map[string]int, error) {
	most := map[string]int{}
	going := slices.Clone(b.targets)
	for _, n := range counts {
		var on []*target
		for _, t := range going {
			for range tries {
				good, err := b.serves(t, n)
				if err != nil {
					return nil, fmt.Errorf("%d streams, %s: %w", n, t.name, err)
				}
				if good {
					most[t.name] = n
					on = append(on, t)
					break
				}
			}
		}
		going = on
	}
	return most, nil
}

// serves reports whether a target serves so many streams in time.
func (b *bench) serves(t *target, n int) (bool, error) {
	const ramp, settle = 500 * time.Millisecond, 500 * time.Millisecond
	tokens := int((ramp + settle + b.searchFor) / pace)
	out, err := load{port: t.port, request: chat(t.key(), streamBody(tokens, true)), conns: n, each: 1, ramp: ramp, settle: settle,
		stream: tokens, patience: time.Minute}.run()
	if err != nil {
		return false, err
	}
	time.Sleep(200 * time.Millisecond) // what is behind it ends too
	return out.errors == 0 && at(out.delays, 0.99) < pace, nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
