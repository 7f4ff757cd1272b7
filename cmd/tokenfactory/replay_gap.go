package main

import (
	"fmt"

	"tokenfactory/metrics"
)

// leastGap is the time between gateway and engine that needs no explanation.
const leastGap = 10.0 // milliseconds

// gap looks for time that is in nobody's figures: what the gateway waits for a first
// token beyond its own queue and what the engine says of itself, which has the engine's
// queue in it. Means add up exactly, percentiles do not.
func (c *comparison) gap(e evidence, own []replayRow, tolerance float64) {
	if e.Engine == nil {
		return
	}
	engine := e.Engine.Histograms[metrics.EngineTTFT].Mean()
	var ttft, queue exact
	for _, r := range own {
		if r.TTFTMS == nil {
			continue
		}
		ttft = append(ttft, *r.TTFTMS)
		waited := 0.0
		if r.QueueMS != nil {
			waited = *r.QueueMS
		}
		queue = append(queue, waited)
	}
	gateway, waited := ttft.mean(), queue.mean()
	if gateway == nil {
		return
	}
	if engine == nil {
		c.Notes = append(c.Notes, "The engine does not report its time to first token, so time between gateway and engine cannot be seen.")
		return
	}
	between := *gateway - *waited - *engine
	parts := fmt.Sprintf("of the mean TTFT of %s at the gateway, %s are its own queue and %s the engine's account with its queue", milliText(*gateway), milliText(*waited), milliText(*engine))
	row := comparedRow{Metric: "TTFT mean", Client: "–", Gateway: milliText(*gateway), Dashboard: "–", Engine: milliText(*engine), Difference: milliText(between) + " between"}
	if mean := c.Seen.Values[metrics.TTFT].mean(); mean != nil {
		row.Client = milliText(*mean)
	}
	c.Rows = append(c.Rows, row)
	if between > max(leastGap, tolerance**gateway) {
		c.Hidden = true
		c.Notes = append(c.Notes, fmt.Sprintf("Hidden queue or network between gateway and engine: %s are in nobody's figures; %s.", milliText(between), parts))
	}
}
