package metrics

import (
	"tokenfactory/metrics"
	"tokenfactory/views/charts"
)

// machineColors tell GPUs apart; dashes do when there are more of them than colours.
var (
	machineColors = []string{"--chart-1", "--chart-3", "--chart-4", "--chart-5", "--chart-2", "--chart-6"}
	machineDashes = []string{"", "5 3", "2 3", "10 4"}
)

// maxMachines is how many GPUs' lines one chart can hold and still be read.
const maxMachines = 24

// machines draws each metric of the GPUs, a line for each GPU. What none of them
// reports has no chart; of the layer as a whole that is said.
func (m Measured) machines() []Chart {
	var out []Chart
	for _, row := range metrics.Catalogue {
		if row.Layer != metrics.NodeLayer {
			continue
		}
		c := Chart{Name: string(row.Name), Title: row.Title, Long: row.Long, Unit: row.Unit, Tell: row.Tell, Do: row.Do, Window: m.Window, Plot: charts.Plot{Digits: 1, Share: row.Unit == "%"}}
		for i, machine := range m.Machines[:min(len(m.Machines), maxMachines)] {
			s := machine.Series[row.Name]
			if s.Summary.N == 0 {
				continue
			}
			values, peak := s.Average, *s.Summary.Peak
			if row.Unit == "%" {
				values, peak = scaled(values, 100), peak*100
			}
			name := machine.Node + " " + machine.GPU
			c.Lines = append(c.Lines, charts.Line{Name: name, Values: values, Color: machineColors[i%len(machineColors)], Dash: machineDashes[i/len(machineColors)%len(machineDashes)]})
			c.Facts = append(c.Facts, figure(name+" at most", peak, row.Unit))
		}
		if len(c.Lines) == 0 {
			c.Absent = "No machine of this deployment reported it in this range."
		}
		out = append(out, c)
	}
	return out
}
