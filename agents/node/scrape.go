package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"tokenfactory/agents/runtimes/process"
	"tokenfactory/engines"
	"tokenfactory/metrics"
)

// scraper reads the metrics pages of engines.
type scraper struct {
	runtime  *process.Runtime
	recorder *metrics.Recorder
	log      *slog.Logger
	http     http.Client
	last     map[string]engines.Reading // by replica and process
	failing  map[string]bool
	began    time.Time

	mu         sync.Mutex
	complaints map[string]string // by replica: what its page lacks
}

// Run reads every engine every five seconds. One that is slow does not hold up the others.
func (s *scraper) Run(ctx context.Context) error {
	s.http.Timeout = scrapeEvery
	// Engines are next door: whatever proxy is set is not for them.
	s.http.Transport = &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	s.began = time.Now()
	s.last, s.failing = map[string]engines.Reading{}, map[string]bool{}
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for {
		s.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *scraper) round(ctx context.Context) {
	targets := s.runtime.Targets()
	answers := make(chan answer, len(targets))
	for _, t := range targets {
		go func() {
			r, err := s.read(ctx, t)
			answers <- answer{t, r, err}
		}()
	}
	s.takeIn(ctx, answers, len(targets))
}

// answer is what came of reading one engine.
type answer struct {
	target  process.Target
	reading engines.Reading
	err     error
}

// takeIn records n answers.
func (s *scraper) takeIn(ctx context.Context, answers <-chan answer, n int) {
	seen, complaints, failing := map[string]engines.Reading{}, map[string]string{}, map[string]bool{}
	for range n {
		a := <-answers
		key := a.target.ReplicaID + " " + a.target.Run
		if a.err != nil {
			if !s.failing[key] && ctx.Err() == nil {
				s.log.Warn("an engine's metrics cannot be read", "replica", a.target.ReplicaID, "at", a.target.URL, "err", a.err)
			}
			failing[key] = true
			if ctx.Err() == nil {
				s.missed(a.target, 1)
			}
			if c := s.complaint(a.target.ReplicaID); c != "" {
				complaints[a.target.ReplicaID] = c
			}
			if before, ok := s.last[key]; ok {
				seen[key] = before
			}
			continue
		}
		before, known := s.last[key]
		s.missed(a.target, 0)
		seen[key] = s.observe(a.target, before, a.reading, known)
		if c := a.reading.Complaint(); c != "" {
			complaints[a.target.ReplicaID] = c
			if s.complaint(a.target.ReplicaID) == "" {
				s.log.Warn("an engine's metrics page is not whole", "replica", a.target.ReplicaID, "at", a.target.URL, "what", c)
			}
		}
	}
	s.last, s.failing = seen, failing // engines that are gone are forgotten
	s.mu.Lock()
	s.complaints = complaints
	s.mu.Unlock()
}

// complaint is a sentence about the lines of a replica's page that could not be read;
// empty when all could.
func (s *scraper) complaint(replicaID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complaints[replicaID]
}

// missed counts readings that failed. One that did not is a zero, which is not the same
// as none.
func (s *scraper) missed(t process.Target, n float64) {
	s.recorder.Observe(time.Now(), t.DeploymentID, t.ReplicaID, metrics.ScrapesMissed, n, 1)
}

func (s *scraper) read(ctx context.Context, t process.Target) (engines.Reading, error) {
	e, ok := engines.Find(t.Engine)
	if !ok {
		return engines.Reading{}, fmt.Errorf("this agent does not know the engine %q; update it", t.Engine)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(t.URL, "/")+e.MetricsPath, nil)
	if err != nil {
		return engines.Reading{}, err
	}
	req.Header.Set("Accept", engines.AcceptMetrics)
	resp, err := s.http.Do(req)
	if err != nil {
		return engines.Reading{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return engines.Reading{}, fmt.Errorf("%s answers %s", e.MetricsPath, resp.Status)
	}
	return e.Read(resp.Body)
}

// observe records gauges as they are and counters as increases, and returns the reading
// to compare the next one with. The first reading of an engine that was there before
// this agent is only where counting begins: an earlier agent has counted the rest.
func (s *scraper) observe(t process.Target, before, now engines.Reading, known bool) engines.Reading {
	at, of := time.Now(), metrics.Of{Deployment: t.DeploymentID, Replica: t.ReplicaID}
	record := func(name metrics.Name, v *float64) {
		if v != nil {
			s.recorder.ObserveOf(at, of, name, *v, 1)
		}
	}
	if now.KV != nil && now.KVPeak != nil {
		s.recorder.ObservePeak(at, of, metrics.KVCache, *now.KV, *now.KVPeak)
	}
	record(metrics.Running, now.Running)
	record(metrics.Waiting, now.Waiting)
	unread := float64(now.ParseErrors)
	record(metrics.ScrapeErrors, &unread)
	startedHere := t.Run != "" && now.ProcessStart != nil && *now.ProcessStart >= float64(s.began.Unix())
	if !known && !startedHere {
		return engines.Base(now)
	}
	did, next := engines.Follow(before, now)
	record(metrics.PromptTokens, did.Prompts())
	record(metrics.GenerationTokens, did.GenerationTokens)
	hits, lookups := did.PrefixUse()
	record(metrics.PrefixHits, hits)
	record(metrics.PrefixQueries, lookups)
	if lookups == nil {
		record(metrics.PrefixHitRate, did.HitRate)
	}
	record(metrics.Preemptions, did.Preemptions)
	record(metrics.EngineFinished, sum(did.Finished))
	record(metrics.EngineFailed, sum(did.Failed))
	for name, grown := range did.Histograms {
		s.recorder.ObserveHistogram(at, of, name, grown.Scale(1000)) // engines have seconds
	}
	return next
}

// sum is nil when the engine says nothing.
func sum(byReason map[string]float64) *float64 {
	if byReason == nil {
		return nil
	}
	total := 0.0
	for _, n := range byReason {
		total += n
	}
	return &total
}
