package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapFloor is how large the heap may always grow before garbage is collected. With
	// the runtime's rule alone, twice what is in use, a server that holds little collects
	// many times a second under load, which costs a tenth of its processor time.
	heapFloor = 64 << 20
	heapEvery = 250 * time.Millisecond
	// The runtime's own rule, in percent, and how far it may be stretched.
	gcUsual = 100
	gcMost  = 800
)

// keepHeapFloor adapts the collector to what is in use until ctx ends. With more than
// half of the floor in use, the runtime's rule holds as if this were not here.
func keepHeapFloor(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done() // an operator decided
		return nil
	}
	tick := time.NewTicker(heapEvery)
	defer tick.Stop()
	defer debug.SetGCPercent(gcUsual)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := gcUsual
	for {
		metrics.Read(live)
		// Each setting stops everything for a moment: small steps are not worth it.
		if want := gcPercent(live[0].Value.Uint64()); want < percent*9/10 || want > percent*11/10 {
			percent = want
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// gcPercent is how much garbage there may be for what is in use, in percent of it.
func gcPercent(live uint64) int {
	if live >= heapFloor/2 {
		return gcUsual
	}
	return min(int((heapFloor-live)*100/max(live, 1<<20)), gcMost)
}
