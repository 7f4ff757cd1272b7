package store_test

import (
	"reflect"
	"testing"
	"time"

	"tokenfactory/metrics"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// Three pieces of three resolutions, side by side: no request is in two of them.
func TestJudgedRequestsAreSummedUpByPieceAndDeployment(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		w := seed(t, s)
		ctx := t.Context()
		for _, id := range []string{"d2", "d3", "quiet"} {
			ok(t, s.CreateDeployment(ctx, w.newDeployment(id, id)))
		}
		r := &metrics.Recorder{}
		note := func(id, replica string, at time.Duration, name metrics.Name, n float64) {
			r.Observe(start.Add(at), id, replica, name, n, 1)
		}
		note("d1", "r1", 0, metrics.Good, 90)
		note("d1", "r2", 59*time.Minute, metrics.Good, 5) // replicas are added up
		note("d1", "r1", 61*time.Minute, metrics.Bad, 3)
		note("d1", "r1", 70*time.Minute+25*time.Second, metrics.Bad, 2)
		note("d1", "r1", 70*time.Minute+30*time.Second, metrics.Bad, 1000) // after the end
		note("d1", "r1", -time.Second, metrics.Bad, 1000)                  // before the beginning
		note("d2", "r1", 65*time.Minute, metrics.Good, 7)
		note("d3", "r1", 0, metrics.Good, 5)
		r.ObserveOf(start, metrics.Of{Deployment: "d1", Tenant: "t1", Key: "k1"}, metrics.Good, 90, 1) // of a key, beside
		ok(t, s.MergeBuckets(ctx, r.Flush()))
		ok(t, s.DeleteDeployment(ctx, "d3", start))
		pieces := metrics.Cover(start, start.Add(70*time.Minute+30*time.Second))
		if len(pieces) != 3 {
			t.Fatalf("pieces %v", pieces)
		}
		want := []map[string]store.Judged{{"d1": {Good: 95}}, {"d1": {Bad: 3}, "d2": {Good: 7}}, {"d1": {Bad: 2}}}
		if got := must[[]map[string]store.Judged](t)(s.JudgedIn(ctx, pieces)); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		want = []map[string]store.Judged{{}, {"d2": {Good: 7}}, {}}
		if got := must[[]map[string]store.Judged](t)(s.JudgedIn(ctx, pieces, "d2", "d3", "no such")); !reflect.DeepEqual(got, want) {
			t.Errorf("of some: got %+v, want %+v", got, want)
		}
	})
}
