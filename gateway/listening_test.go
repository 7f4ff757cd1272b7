package gateway

import (
	"testing"
	"time"

	"tokenfactory/factory"
)

// A machine is silent when it said nothing although it could be heard.
func TestSilenceCountsOnlyWhileWeListen(t *testing.T) {
	start := time.Now()
	var l listening
	read := func(second int) time.Duration {
		at := start.Add(time.Duration(second) * time.Second)
		asOf := l.asOf(at, at)
		l.heard(at)
		return at.Sub(asOf)
	}
	// silent tells whether a machine that spoke at one second is given up at another.
	silent := func(spoke, second int) bool {
		return time.Duration(second-spoke)*time.Second-read(second) > factory.OfflineAfter
	}
	if silent(-200, 0) {
		t.Error("at the start a machine is given up that had no chance to be heard")
	}
	if !silent(-1000, 1) {
		t.Error("a machine that was gone long before the start is taken for alive")
	}
	for s := 2; s < 39; s++ {
		if silent(-200, s) {
			t.Fatalf("given up %d s after the start", s)
		}
	}
	for s := 39; s <= 100; s++ {
		read(s)
	}
	if !silent(79, 100) || silent(81, 100) {
		t.Error("while all is well, silence does not end a machine's service in time")
	}
	// The store is away from 100 to 160; the machine spoke last at 98.
	for s := 160; s < 199; s++ {
		if silent(98, s) {
			t.Fatalf("given up %d s after the store came back", s-160)
		}
	}
	if !silent(98, 201) {
		t.Error("a machine that does not come back is kept for ever")
	}
	for s := 202; s < 300; s++ {
		read(s)
	}
	// A reading that failed once changes nothing.
	read(304)
	if !silent(283, 304) {
		t.Error("a pause of four seconds counts as deafness")
	}
}
