package node

import (
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// measureGPUs records how the devices are. What a device does not say is not recorded:
// it would be drawn as zero.
func measureGPUs(r *metrics.Recorder, at time.Time, node string, gpus []factory.GPU) {
	for _, g := range gpus {
		record := func(name metrics.Name, v *float64, unit float64) {
			if v != nil {
				r.Observe(at, node, g.UUID, name, *v/unit, 1)
			}
		}
		record(metrics.GPUUtilisation, g.Utilisation, 100)
		record(metrics.GPUTemperature, g.Temperature, 1)
		record(metrics.GPUPower, g.PowerWatts, 1)
		record(metrics.GPUClock, g.ClockMHz, 1)
		if g.UsedBytes != nil && g.MemoryBytes != nil && *g.MemoryBytes > 0 {
			used := float64(*g.UsedBytes)
			record(metrics.GPUMemory, &used, float64(*g.MemoryBytes))
		}
	}
}
