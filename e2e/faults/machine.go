package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"tokenfactory/agents"
	"tokenfactory/engines"
	"tokenfactory/engines/sim"
	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// machine does what an agent does with a machine's engine, without its five-second beat: it
// reads the metrics page with the product's reader, and reports to the product's intake.
type machine struct {
	clock      clock
	node       string
	credential string
	since      time.Time
	seq        int64

	mu       sync.Mutex
	known    bool // the engine was read before
	last     engines.Reading
	recorder metrics.Recorder
}

var hardware = factory.Hardware{Hostname: "machine", Arch: "arm64", CPUCores: 20, GPUs: []factory.GPU{{UUID: card, Name: "NVIDIA GB10"}}}

func (m *machine) join(ctx context.Context, factoryURL, token string) (node string, err error) {
	var me agents.JoinResponse
	err = m.post(ctx, factoryURL+agents.PathJoin, agents.JoinRequest{
		Protocol: agents.Protocol, Token: token, Identity: "machine", Version: "1", Runtime: "process", Address: "127.0.0.1", Hardware: hardware,
	}, &me)
	m.node, m.credential, m.since = me.NodeID, me.Credential, m.clock.Now()
	return me.NodeID, err
}

// report says how the machine is, with what was read since the last report.
func (m *machine) report(ctx context.Context, factoryURL, engineURL string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	return m.post(ctx, factoryURL+agents.PathReport, agents.Report{
		Protocol: agents.Protocol, SentAt: m.clock.Now(), Version: "1", Address: "127.0.0.1", Hardware: hardware,
		Replicas: []factory.ReplicaStatus{{ID: replicaID, Revision: 1, State: factory.Ready, URL: engineURL, ServedName: model, StartedAt: &m.since, ReadyAt: &m.since}},
		Batches:  []agents.Batch{{Seq: m.seq, Buckets: m.recorder.Flush()}},
	}, &agents.ReportResponse{})
}

func (m *machine) post(ctx context.Context, url string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+m.credential)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// keepReading reads until ctx ends, and once more.
func (m *machine) keepReading(ctx context.Context, p *Plant) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		m.read(context.WithoutCancel(ctx), p.engine.URL, p.Engine.Faults())
		select {
		case <-ctx.Done():
			m.read(context.WithoutCancel(ctx), p.engine.URL, p.Engine.Faults())
			return
		case <-tick.C:
		}
	}
}

// read takes in the engine's page and the card's figures.
func (m *machine) read(ctx context.Context, engineURL string, underway []sim.Fault) {
	now, err := page(ctx, engineURL)
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.clock.Now()
	m.feel(at, underway)
	if err != nil {
		m.recorder.Observe(at, deploymentID, replicaID, metrics.ScrapesMissed, 1, 1)
		return
	}
	m.observe(at, now)
}

// feel notes the card's clock and heat. A card that is too hot is as much slower as its
// engine is.
func (m *machine) feel(at time.Time, underway []sim.Fault) {
	clock, heat := 1900.0, 66.0
	for _, f := range underway {
		if f.Kind == sim.Thermal {
			clock, heat = clock/f.Factor, 91
		}
	}
	m.recorder.Observe(at, m.node, card, metrics.GPUClock, clock, 1)
	m.recorder.Observe(at, m.node, card, metrics.GPUTemperature, heat, 1)
}

func (m *machine) observe(at time.Time, now engines.Reading) {
	of := metrics.Of{Deployment: deploymentID, Replica: replicaID}
	record := func(name metrics.Name, v *float64) {
		if v != nil {
			m.recorder.ObserveOf(at, of, name, *v, 1)
		}
	}
	if now.KV != nil && now.KVPeak != nil {
		m.recorder.ObservePeak(at, of, metrics.KVCache, *now.KV, *now.KVPeak)
	}
	record(metrics.Running, now.Running)
	record(metrics.Waiting, now.Waiting)
	if !m.known {
		m.known, m.last = true, engines.Base(now)
		return
	}
	did, next := engines.Follow(m.last, now)
	m.last = next
	record(metrics.PromptTokens, did.PromptTokens)
	record(metrics.GenerationTokens, did.GenerationTokens)
	record(metrics.Preemptions, did.Preemptions)
	for name, grown := range did.Histograms {
		m.recorder.ObserveHistogram(at, of, name, grown.Scale(1000)) // engines have seconds
	}
}

func page(ctx context.Context, engineURL string) (engines.Reading, error) {
	e, _ := engines.Find("sim")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, engineURL+e.MetricsPath, nil)
	if err != nil {
		return engines.Reading{}, err
	}
	req.Header.Set("Accept", engines.AcceptMetrics)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return engines.Reading{}, err
	}
	defer resp.Body.Close()
	return e.Read(resp.Body)
}
