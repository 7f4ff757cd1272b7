package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
)

// memory is a queue that outlives senders, as the store does.
type memory struct {
	mu       sync.Mutex
	now      time.Time
	channels map[string]factory.Channel
	rows     map[string]factory.Delivery
	refuse   int         // how many saves fail from now on
	saved    chan string // ids as they are saved, for who wants to wait for them
}

func newMemory(channels ...factory.Channel) *memory {
	m := &memory{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), channels: map[string]factory.Channel{}, rows: map[string]factory.Delivery{}}
	for _, c := range channels {
		m.channels[c.ID] = c
	}
	return m
}

func (m *memory) DueDeliveries(_ context.Context, now time.Time, limit int) ([]factory.DueDelivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []factory.DueDelivery
	for _, d := range m.rows {
		if d.State == factory.DeliveryWaiting && !d.NextAt.After(now) {
			due = append(due, factory.DueDelivery{Delivery: d, Channel: m.channels[d.ChannelID]})
		}
	}
	slices.SortFunc(due, func(a, b factory.DueDelivery) int {
		return cmp.Or(a.NextAt.Compare(b.NextAt), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return due[:min(len(due), limit)], nil
}

func (m *memory) SaveDelivery(_ context.Context, d factory.Delivery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse > 0 {
		m.refuse--
		return errors.New("the store is away")
	}
	m.rows[d.ID] = d
	if m.saved != nil {
		m.saved <- d.ID
	}
	return nil
}

// tell queues a delivery of an alert's change to a channel, once.
func (m *memory) tell(channel, alert string, change factory.Change) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := fmt.Sprintf("%s-%s-%s", channel, alert, change)
	body, _ := json.Marshal(map[string]any{"id": alert, "change": change, "title": "Alert " + alert})
	m.rows[id] = factory.Delivery{
		ID: id, AlertID: alert, ChannelID: channel, Change: change, Payload: body,
		State: factory.DeliveryWaiting, NextAt: m.now, CreatedAt: m.now,
	}
	return id
}

func (m *memory) row(id string) factory.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[id]
}

func (m *memory) time() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *memory) pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// newSender is a control plane that has just started.
func newSender(m *memory) *Sender {
	s := &Sender{Store: m, Now: m.time, Log: slog.New(slog.DiscardHandler), AllowPrivate: true}
	s.prepare()
	return s
}

// round lets a sender look once and finish what it found.
func round(t *testing.T, s *Sender) {
	t.Helper()
	if err := s.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.working.Wait()
}

// receiver keeps what it was sent and answers as it is told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	answer int
	got    []received
}

type received struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T, answer int) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, received{req.Header, body})
		w.WriteHeader(r.answer)
		_, _ = io.WriteString(w, "noted")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = code
}

// take returns what arrived since the last time.
func (r *receiver) take() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// changes counts what arrived by alert and change.
func changes(t *testing.T, got []received) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, g := range got {
		var p struct{ ID, Change string }
		if err := json.Unmarshal(g.body, &p); err != nil {
			t.Fatal(err)
		}
		out[p.ID+" "+p.Change]++
	}
	return out
}

const testSecret = "a-secret-of-the-receiver"

func hook(id, url string) factory.Channel {
	return factory.Channel{ID: id, Name: id, Kind: factory.ChannelWebhook, Settings: factory.ChannelSettings{URL: url, Secret: testSecret}, Enabled: true}
}
