package main

import "testing"

func TestTheHeapFloorGivesWayToTheUsualRule(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, gcMost}, {1 << 20, gcMost}, {16 << 20, 300}, {heapFloor/2 - 1, gcUsual}, {heapFloor / 2, gcUsual}, {1 << 30, gcUsual},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("with %d bytes in use: %d %%, want %d", c.live, got, c.want)
		}
	}
	before := gcMost
	for live := uint64(1 << 20); live < heapFloor; live += 1 << 18 {
		got := gcPercent(live)
		if got > before || got < gcUsual {
			t.Fatalf("with %d bytes in use: %d %% after %d", live, got, before)
		}
		if heap := live + live*uint64(got)/100; heap > 2*live && heap > heapFloor {
			t.Errorf("with %d bytes in use the heap may become %d", live, heap)
		}
		before = got
	}
}
