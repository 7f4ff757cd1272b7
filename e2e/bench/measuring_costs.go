//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/store"
)

// costReport is what one thing costs.
type costReport struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit,omitempty"` // at most; 0: only said
}

// draws are the distributions that percentiles are checked on, in milliseconds.
var draws = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"log-normal", func(r *rand.Rand) float64 { return 180 * math.Exp(0.9*r.NormFloat64()) }},
	{"bimodal", func(r *rand.Rand) float64 {
		if r.Float64() < 0.07 { // a cold prefix cache
			return 4000 + 600*r.NormFloat64()
		}
		return 90 * math.Exp(0.2*r.NormFloat64())
	}},
	{"Pareto, heavy tail", func(r *rand.Rand) float64 { return 40 / math.Pow(1-r.Float64(), 1/1.3) }},
}

// accuracy compares the percentiles of a chart with those of the sample itself. The
// values go the whole way: recorded on two replicas in many steps, spread over the
// resolutions, encoded, and merged for the range.
func accuracy() ([]costReport, error) {
	const samples = 100_000
	var out []costReport
	for n, d := range draws {
		rnd := rand.New(rand.NewPCG(uint64(n), 3))
		from := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		var r metrics.Recorder
		values := make([]float64, samples)
		for i := range values {
			values[i] = max(0.1, d.draw(rnd))
			at := from.Add(time.Duration(rnd.Int64N(int64(time.Hour))))
			r.Observe(at, "d", fmt.Sprint("replica ", i%2), metrics.TTFT, values[i], 1)
		}
		all, err := metrics.Spread(r.Flush())
		if err != nil {
			return nil, err
		}
		slices.Sort(values)
		worst := 0.0
		for _, res := range metrics.Resolutions {
			kept := slices.DeleteFunc(slices.Clone(all), func(b metrics.Bucket) bool { return b.Step != res.Step })
			s, err := metrics.SeriesOf(metrics.TTFT, metrics.Window{From: from, To: from.Add(time.Hour), Step: time.Hour}, kept)
			if err != nil {
				return nil, err
			}
			for i, q := range metrics.Percentiles {
				exact := values[int(math.Ceil(q*samples))-1]
				worst = max(worst, math.Abs(*s.Summary.Q[i]-exact)/exact)
			}
		}
		out = append(out, costReport{"worst error of p50 to p99, " + d.name, worst * 100, "%", 1})
	}
	return out, nil
}

// recorderMemory is what the recorder holds of deployments between two flushes.
func recorderMemory() []costReport {
	const deployments = 1000
	var r metrics.Recorder
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	id := func(i int) string { return fmt.Sprintf("deployment-%015d", i) }
	before := heap()
	for i := range deployments {
		r.Observe(at, id(i), "", metrics.Held, 0, 1)
		r.Observe(at, id(i), "replica", metrics.InFlight, 0, 1)
	}
	idle := heap() - before
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range deployments {
		for _, of := range []metrics.Of{{Deployment: id(i), Replica: "replica"}, {Deployment: id(i), Tenant: "tenant", Key: "key"}} {
			for range 10 {
				for _, m := range metrics.Catalogue {
					if ofGateway(m.Name) {
						r.ObserveOf(at, of, m.Name, 100*math.Exp(0.5*rnd.NormFloat64()), 1)
					}
				}
			}
		}
	}
	active := heap() - before
	buckets := r.Flush()
	runtime.KeepAlive(buckets)
	return []costReport{
		{"recorder, idle deployment", idle / deployments / 1024, "KiB", 0},
		{"recorder, active deployment with one key", active / deployments / 1024, "KiB", 0},
		{"buckets of an active deployment at a flush", float64(len(buckets)) / deployments, "", 0},
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// scrape is the cost of reading vLLM's metrics page, made as large as a server with a few
// more models has it.
func scrape(folder string) ([]costReport, error) {
	page, err := os.ReadFile(filepath.Join(folder, "vllm-0.13-metrics.txt"))
	if err != nil {
		return nil, err
	}
	const size = 60 << 10
	// Histograms of other parts of the server are what a page grows by.
	for i := 0; len(page) < size; i++ {
		page = fmt.Appendf(page, "# HELP http_part_%d_seconds Duration\n# TYPE http_part_%d_seconds histogram\n", i, i)
		for _, le := range []string{"0.1", "0.5", "1.0", "5.0", "+Inf"} {
			page = fmt.Appendf(page, "http_part_%d_seconds_bucket{handler=\"/v1/chat/completions\",le=%q,method=\"POST\"} 17.0\n", i, le)
		}
		page = fmt.Appendf(page, "http_part_%d_seconds_count{handler=\"/v1/chat/completions\",method=\"POST\"} 17.0\nhttp_part_%d_seconds_sum{handler=\"/v1/chat/completions\",method=\"POST\"} 3.5\n", i, i)
	}
	engine, ok := engines.Find("vllm")
	if !ok {
		return nil, fmt.Errorf("the catalogue has no vllm")
	}
	reading, err := engine.Read(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	if reading.Running == nil || reading.KV == nil || reading.ParseErrors > 0 {
		return nil, fmt.Errorf("the page is read in part: %d lines cannot be read", reading.ParseErrors)
	}
	const times = 300
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var took []float64
	for range times {
		begun := time.Now()
		if _, err := engine.Read(bytes.NewReader(page)); err != nil {
			return nil, err
		}
		took = append(took, milliseconds(time.Since(begun))*1000)
	}
	runtime.ReadMemStats(&after)
	return []costReport{
		{fmt.Sprintf("one scrape of a page of %d KiB, p50", len(page)/1024), rankOf(took, 0.5), "µs", 0},
		{"allocations of one scrape", float64(after.Mallocs-before.Mallocs) / times, "", 0},
		{"memory allocated by one scrape", float64(after.TotalAlloc-before.TotalAlloc) / times / 1024, "KiB", 0},
	}, nil
}

// rollUp is the cost of taking fine buckets in: each is merged into three resolutions in
// one transaction, with the gateway's shape of 50 active deployments and a key each.
func rollUp(ctx context.Context, database string, st *store.Store) ([]costReport, error) {
	const deployments, rounds = 50, 12
	rnd := rand.New(rand.NewPCG(9, 9))
	begin := factory.Now().AddDate(1, 0, 0).Truncate(time.Hour) // beside what pages are measured on
	ids := make([]string, deployments)
	for i := range ids {
		ids[i] = "bench-roll-up-" + factory.NewID()
	}
	var took []float64
	fine, allocated := 0, 0.0
	for round := range rounds {
		// A flush comes every second: ten of them meet in one step of ten seconds.
		at := begin.Add(time.Duration(round) * time.Second * 5)
		var r metrics.Recorder
		for _, id := range ids {
			for _, of := range []metrics.Of{{Deployment: id, Replica: "replica"}, {Deployment: id, Tenant: "tenant", Key: "key"}} {
				for _, m := range metrics.Catalogue {
					if ofGateway(m.Name) {
						for range 3 {
							r.ObserveOf(at, of, m.Name, 100*math.Exp(0.5*rnd.NormFloat64()), 1)
						}
					}
				}
			}
		}
		buckets := r.Flush()
		fine = len(buckets)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		if err := st.MergeBuckets(ctx, buckets); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(begun).Microseconds())/float64(fine))
		runtime.ReadMemStats(&after)
		allocated = float64(after.TotalAlloc-before.TotalAlloc) / float64(fine) / 1024
	}
	return []costReport{
		{fmt.Sprintf("roll-up on %s, each of %d buckets into three resolutions, p50", database, fine), rankOf(took, 0.5), "µs", 0},
		{"the same, p95", rankOf(took, 0.95), "µs", 0},
		{"the same, memory allocated", allocated, "KiB", 0},
	}, nil
}
