package metrics

import (
	"testing"
	"time"

	"tokenfactory/metrics"
)

func TestMachinesAreDrawnWithTheirFigures(t *testing.T) {
	gpu := func(clock, heat float64) map[metrics.Name]metrics.Series {
		return measuredOf(t, func(r *metrics.Recorder) {
			r.Observe(start, "n", "uuid", metrics.GPUClock, clock, 1)
			r.Observe(start, "n", "uuid", metrics.GPUTemperature, heat, 1)
			r.Observe(start, "n", "uuid", metrics.GPUUtilisation, 0.4, 1)
			r.Observe(start.Add(2*time.Minute), "n", "uuid", metrics.GPUUtilisation, 0, 1)
		}).Series
	}
	m := Measured{Window: window, Now: window.To, Machines: []Machine{{Node: "desk", GPU: "GPU 0", Series: gpu(1900, 61)}, {Node: "desk", GPU: "GPU 1", Series: gpu(1200, 84)}}}
	of := map[string]Chart{}
	for _, c := range m.machines() {
		of[c.Name] = c
	}
	if c := of[string(metrics.GPUClock)]; len(c.Lines) != 2 || !near(c.Lines[1].Values[0], 1200) || c.Lines[0].Name != "desk GPU 0" || c.Facts[1].Figure != "1,200" || c.reason() != "" {
		t.Errorf("clock %+v", c)
	}
	busy := of[string(metrics.GPUUtilisation)]
	if v := busy.Lines[0].Values; !near(v[0], 40) || v[1] != nil || !near(v[2], 0) {
		t.Errorf("busy %v: nothing known is a gap, and idle is zero", v)
	}
	if c := of[string(metrics.GPUPower)]; c.reason() == "" {
		t.Error("power that nobody reports is drawn")
	}
}
