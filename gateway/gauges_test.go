package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// gaugesAt samples once, and returns what came of it by metric and replica.
func (b *bench) gaugesAt(at time.Time) map[string]float64 {
	var s gauges
	s.sample(b.g.routes.now.Load(), at)
	s.finish()
	got := map[string]float64{}
	for _, x := range s.take() {
		if x.Count != 1 || x.KeyID != "" || x.Check() != nil {
			b.Errorf("bucket %+v: %v", x, x.Check())
		}
		got[x.DeploymentID+"/"+x.ReplicaID+"/"+string(x.Name)] = x.Sum
	}
	return got
}

func TestNothingUnderWayIsAZeroWhileThereIsAReplica(t *testing.T) {
	free := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		<-free
		sse(w, delta("a"), usage, done)
	})
	b := newBench(t, []string{e.URL}, withRoute(func(r *factory.Route) { r.Deployment.ReplicaConcurrency = 1 }),
		func(b *bench) { b.routes = append(b.routes, routeTo("nothing-ready")) })
	b.until("routes are read", func() bool { return b.g.routes.now.Load() != nil })
	at := time.Unix(1_800_000_003, 0)
	want := func(inFlight, held float64) {
		t.Helper()
		got := b.gaugesAt(at)
		if len(got) != 2 || got["dep-demo-small/A/in_flight"] != inFlight || got["dep-demo-small//held"] != held {
			t.Errorf("gauges %v, want %v in flight and %v held", got, inFlight, held)
		}
	}
	want(0, 0)
	answered := make(chan reply, 3)
	for range 3 {
		go func() { answered <- b.chat(streamed) }()
	}
	b.until("two wait for the third", func() bool { return b.g.held.Load() == 2 && len(e.seen()) == 1 })
	want(1, 2)
	close(free)
	for range 3 {
		<-answered
	}
	b.idle()
	want(0, 0)
}

func TestGaugesAreHandedOverByTheStep(t *testing.T) {
	table := &routeTable{byName: map[string]*route{"a": {Route: routeTo("a"), pool: &pool{}, replicas: []*replica{{id: "A", load: &load{}}}}}}
	var s gauges
	begun := time.Unix(1_800_000_000, 0)
	for second := range 10 {
		table.byName["a"].replicas[0].inFlight.Store(int64(second))
		s.sample(table, begun.Add(time.Duration(second)*time.Second))
	}
	if early := s.take(); len(early) != 0 {
		t.Fatalf("handed over in the middle of a step: %+v", early)
	}
	s.sample(table, begun.Add(10*time.Second))
	got := s.take()
	if len(got) != 2 {
		t.Fatalf("%d buckets, want one of each gauge: %+v", len(got), got)
	}
	for _, x := range got {
		sum, most := 0.0, 0.0
		if x.Name == metrics.InFlight {
			sum, most = 45, 9
		}
		if !x.Start.Equal(begun) || x.Count != 10 || x.Sum != sum || x.Max != most {
			t.Errorf("bucket %+v, want 10 samples with sum %v and peak %v", x, sum, most)
		}
	}
	s.finish()
	if rest := s.take(); len(rest) != 2 || rest[0].Count != 1 {
		t.Errorf("at the end: %+v", rest)
	}
}

// TestKeysDoNotPushOutWhatAlertsRestOn: an outage of the store with far more keys than
// fit costs the figures of keys.
func TestKeysDoNotPushOutWhatAlertsRestOn(t *testing.T) {
	b := newBench(t, nil)
	var r metrics.Recorder
	begun := time.Unix(1_800_000_000, 0)
	for step := range 6 {
		at := begun.Add(time.Duration(step) * 10 * time.Second)
		r.Observe(at, "d", "A", metrics.Good, 1, 1)
		for key := range flushMost {
			if step > 0 && key > 9 {
				break
			}
			r.ObserveOf(at, metrics.Of{Deployment: "d", Tenant: "t", Key: fmt.Sprint(key)}, metrics.Good, 1, 1)
		}
	}
	p := pendingBuckets{buckets: r.Flush()}
	// Everybody's first, where what is dropped for its age alone is taken from.
	slices.SortFunc(p.buckets, func(a, b metrics.Bucket) int { return cmp.Compare(a.KeyID, b.KeyID) })
	p.merge(b.g)
	ofAll, ofSix := 0.0, 0.0
	for _, x := range p.buckets {
		switch x.KeyID {
		case "":
			ofAll += x.Sum
		default:
			if x.Step != time.Minute || x.Check() != nil {
				t.Fatalf("bucket %+v: %v", x, x.Check())
			}
			if x.Sum == 6 {
				ofSix++
			}
		}
	}
	if len(p.buckets) != flushMost || ofAll != 6 || p.dropped != 6 {
		t.Errorf("%d buckets with %v of everybody, %d dropped; want %d, 6 and 6", len(p.buckets), ofAll, p.dropped, flushMost)
	}
	if ofSix < 4 || ofSix > 10 {
		t.Errorf("%v keys of six steps came to one bucket of a minute, want 4 to 10", ofSix)
	}
	if _, err := metrics.Spread(p.buckets[:100]); err != nil {
		t.Error(err)
	}
	if err := b.MergeBuckets(context.Background(), p.buckets); err != nil {
		t.Error(err)
	}
}
