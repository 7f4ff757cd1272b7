package metrics

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestCoverIsCompleteAndNeverOverlaps(t *testing.T) {
	base := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		from := base.Add(time.Duration(random.IntN(86400)) * time.Second)
		to := from.Add(time.Duration(random.IntN(3*86400)) * time.Second)
		pieces := Cover(from, to)
		at := from.Truncate(10 * time.Second)
		for _, p := range pieces {
			if !p.From.Equal(at) || !p.From.Before(p.To) {
				t.Fatalf("%s to %s: piece %v does not begin at %s", from, to, p, at)
			}
			if !p.From.Truncate(p.Step).Equal(p.From) || !p.To.Truncate(p.Step).Equal(p.To) {
				t.Fatalf("%v is not made of whole steps", p)
			}
			at = p.To
		}
		if end := to.Truncate(10 * time.Second); !at.Equal(end) {
			t.Fatalf("%s to %s ends at %s", from, to, at)
		}
		if len(pieces) > 2*len(Resolutions)-1 {
			t.Fatalf("%d pieces", len(pieces))
		}
	}
}

func TestCoverUsesTheCoarsestBuckets(t *testing.T) {
	from := time.Date(2026, 11, 30, 9, 58, 40, 0, time.UTC)
	got := Cover(from, time.Date(2026, 11, 30, 12, 1, 30, 0, time.UTC))
	want := []time.Duration{10 * time.Second, time.Minute, time.Hour, time.Minute, 10 * time.Second}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, p := range got {
		if p.Step != want[i] {
			t.Errorf("piece %d has steps of %s, want %s", i, p.Step, want[i])
		}
	}
}
