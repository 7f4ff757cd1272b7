package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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
	type answer struct {
		target  process.Target
		reading engines.Reading
		err     error
	}
	answers := make(chan answer, len(targets))
	for _, t := range targets {
		go func() {
			r, err := s.read(ctx, t)
			answers <- answer{t, r, err}
		}()
	}
	seen := map[string]engines.Reading{}
	for range targets {
		a := <-answers
		key := a.target.ReplicaID + " " + a.target.Run
		if a.err != nil {
			if !s.failing[key] && ctx.Err() == nil {
				s.log.Warn("an engine's metrics cannot be read", "replica", a.target.ReplicaID, "at", a.target.URL, "err", a.err)
			}
			s.failing[key] = true
			if before, ok := s.last[key]; ok {
				seen[key] = before
			}
			continue
		}
		delete(s.failing, key)
		before, known := s.last[key]
		s.observe(a.target, before, a.reading, known)
		seen[key] = a.reading
	}
	s.last = seen // engines that are gone are forgotten
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

// observe records gauges as they are and counters as increases. The first reading
// of an engine that was there before this agent is only where counting begins: an
// earlier agent has counted the rest.
func (s *scraper) observe(t process.Target, before, now engines.Reading, known bool) {
	at := time.Now()
	record := func(name metrics.Name, v *float64) {
		if v != nil {
			s.recorder.Observe(at, t.DeploymentID, t.ReplicaID, name, *v, 1)
		}
	}
	record(metrics.KVCache, now.KV)
	record(metrics.Running, now.Running)
	record(metrics.Waiting, now.Waiting)
	startedHere := t.Run != "" && now.ProcessStart != nil && *now.ProcessStart >= float64(s.began.Unix())
	if !known && !startedHere {
		return
	}
	did := engines.Delta(before, now)
	record(metrics.PromptTokens, did.PromptTokens)
	record(metrics.GenerationTokens, did.GenerationTokens)
}
