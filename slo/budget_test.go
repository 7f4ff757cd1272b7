package slo

import (
	"testing"
	"time"

	"tokenfactory/metrics"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func judgedAt(at time.Time, good, bad float64) []metrics.Bucket {
	return []metrics.Bucket{{Name: metrics.Good, Start: at, Count: good, Sum: good}, {Name: metrics.Bad, Start: at, Count: bad, Sum: bad}}
}

func TestBudgetOverTimeIsSumsOverSumsOfThirtyDays(t *testing.T) {
	w := metrics.Window{From: noon.Add(-4 * time.Hour), To: noon, Step: time.Hour}
	buckets := append(judgedAt(noon.Add(-2*time.Hour), 10, 10), judgedAt(noon.Add(-20*24*time.Hour), 9980, 0)...)
	got := BudgetOver(0.99, w, buckets, noon)
	for i, want := range []float64{1, 1, 1 - 10.0/10000/0.01, 1 - 10.0/10000/0.01} {
		if got[i] == nil || *got[i] < want-1e-9 || *got[i] > want+1e-9 {
			t.Errorf("step %d: %v, want %v", i, got[i], want)
		}
	}
}

func TestBudgetForgetsAfterThirtyDaysAndIsUnknownWithoutRequests(t *testing.T) {
	bad := noon.Add(-30*24*time.Hour - 2*time.Hour)
	w := metrics.Window{From: noon.Add(-4 * time.Hour), To: noon.Add(time.Hour), Step: time.Hour}
	got := BudgetOver(0.95, w, judgedAt(bad, 0, 7), noon)
	// Steps end at 9, 10, 11, 12 and 13 o'clock; the bad hour began at 10, thirty days ago.
	if got[0] == nil || *got[0] > -18 || got[1] == nil || got[2] != nil || got[3] != nil {
		t.Errorf("%v: it is not forgotten with its hour", got)
	}
	if got[4] != nil {
		t.Errorf("an hour to come has a budget: %v", *got[4])
	}
	if none := BudgetOver(0.95, w, nil, noon); none[0] != nil {
		t.Errorf("nothing was judged, and %v is left", *none[0])
	}
}

func TestBurnPiecesCountEveryWindowExactly(t *testing.T) {
	now := noon.Add(37*time.Minute + 24*time.Second)
	var fine []metrics.Bucket
	for at := now.Add(-74 * time.Hour).Truncate(10 * time.Second); at.Before(now); at = at.Add(10 * time.Second) {
		b := metrics.Bucket{DeploymentID: "d", ReplicaID: "r", Name: metrics.Good, Start: at, Step: 10 * time.Second, Count: 1, Sum: 1}
		if at.Unix()%70 == 0 {
			b.Name = metrics.Bad
		}
		fine = append(fine, b)
	}
	kept, err := metrics.Spread(fine)
	if err != nil {
		t.Fatal(err)
	}
	var read []metrics.Bucket
	pieces := BurnPieces(now)
	for _, b := range kept {
		for _, p := range pieces {
			if b.Step == p.Step && !b.Start.Before(p.From) && b.Start.Before(p.To) {
				read = append(read, b)
			}
		}
	}
	counts := BurnCounts(read, now)
	for _, w := range Windows {
		for _, length := range []time.Duration{w.Long, w.Short} {
			var want Counts
			for _, b := range fine {
				if !b.Start.Before(Edge(now, length)) && b.Start.Before(now.Truncate(10*time.Second)) {
					want = want.Plus(countsOf(b))
				}
			}
			if got := counts(length); got != want {
				t.Errorf("%s: %+v, want %+v", WindowName(length), got, want)
			}
		}
	}
	if len(pieces) > 24 {
		t.Errorf("%d reads", len(pieces))
	}
}
