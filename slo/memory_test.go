package slo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// memory remembers as the store does, and writes down what was told.
type memory struct {
	mu          sync.Mutex
	deployments []factory.Deployment
	replicas    []factory.Replica
	nodes       []factory.Node
	buckets     map[metrics.Place]metrics.Bucket
	alerts      map[string]factory.Alert
	told        []string // change and subject
	payloads    []Payload
	events      []factory.Event
	failing     bool // reading measurements
}

func newMemory() *memory {
	return &memory{buckets: map[metrics.Place]metrics.Bucket{}, alerts: map[string]factory.Alert{}}
}

func (m *memory) AllDeployments(context.Context) ([]factory.Deployment, error) {
	return m.deployments, nil
}
func (m *memory) AllReplicas(context.Context) ([]factory.Replica, error) { return m.replicas, nil }
func (m *memory) AllNodes(context.Context) ([]factory.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.nodes), nil
}

func (m *memory) Buckets(_ context.Context, deploymentID string, step time.Duration, names []metrics.Name, from, to time.Time) ([]metrics.Bucket, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing {
		return nil, errors.New("no answer")
	}
	var out []metrics.Bucket
	for _, b := range m.buckets {
		if b.DeploymentID == deploymentID && b.Step == step && slices.Contains(names, b.Name) && !b.Start.Before(from) && b.Start.Before(to) {
			out = append(out, b)
		}
	}
	return out, nil
}

func (m *memory) OpenAlerts(context.Context) ([]factory.Alert, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []factory.Alert
	for _, a := range m.alerts {
		if a.State != factory.AlertResolved {
			out = append(out, a)
		}
	}
	return out, nil
}

func (m *memory) SaveAlert(_ context.Context, a factory.Alert, changes []factory.Change, payload json.RawMessage, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alerts[a.ID] = a
	for _, c := range changes {
		m.told = append(m.told, string(c)+" "+a.Subject)
		var p Payload
		if err := json.Unmarshal(payload, &p); err != nil {
			return err
		}
		m.payloads = append(m.payloads, p)
	}
	return nil
}

func (m *memory) RecordEvent(_ context.Context, e factory.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
	return nil
}

// keep adds measurements in every resolution.
func (m *memory) keep(t *testing.T, fine []metrics.Bucket) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	spread, err := metrics.Spread(fine)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range spread {
		kept, seen := m.buckets[b.Place()]
		if seen {
			if err := kept.Merge(b); err != nil {
				t.Fatal(err)
			}
			b = kept
		}
		m.buckets[b.Place()] = b
	}
}

// count is how often something was told.
func (m *memory) count(change factory.Change, prefix string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, x := range m.told {
		if strings.HasPrefix(x, string(change)+" "+prefix) {
			n++
		}
	}
	return n
}

func (m *memory) watcher() *Watcher {
	return &Watcher{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler), Links: Links{
		Deployment: func(id string, from, to time.Time) string {
			return fmt.Sprintf("https://factory.example/%s?from=%s&to=%s", id, from.Format(time.RFC3339), to.Format(time.RFC3339))
		},
		Node:  func(clusterID, id string) string { return "https://factory.example/" + clusterID + "/" + id },
		Alert: func(id string) string { return "https://factory.example/alerts/" + id },
	}}
}
