package main

import (
	"fmt"
	"time"

	"tokenfactory/metrics"
)

// leastGap is the time between gateway and engine that needs no explanation.
const leastGap = 10.0 // milliseconds

// leastCommon is how much of what one side counts the other must have counted too, for
// their means to be of the same requests. At the edges of a window they differ a little.
const leastCommon = 0.9

// gap looks for time that is in nobody's figures: what the gateway waits for a first
// token beyond its own queue and what the engine says of itself, which has the engine's
// queue in it. Means add up exactly, percentiles do not. The engine tells nobody apart, so
// the gateway's part is that of all requests in the ledger meanwhile.
func (c *comparison) gap(e evidence, deployment string, tolerance float64) {
	if e.Engine == nil {
		return
	}
	engine := e.Engine.Times[metrics.EngineTTFT]
	var ttft, queue exact
	for _, r := range e.Rows {
		if r.Deployment != deployment || r.TTFTMS == nil {
			continue
		}
		at := r.Time.Add(time.Duration(*r.TTFTMS * float64(time.Millisecond)))
		if at.Before(e.Engine.From) || !at.Before(e.Engine.To) {
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
	if engine.Mean == nil {
		c.Notes = append(c.Notes, "The engine does not report its time to first token, so time between gateway and engine cannot be seen.")
		return
	}
	if n := float64(len(ttft)); min(n, engine.N) < leastCommon*max(n, engine.N) {
		c.Notes = append(c.Notes, fmt.Sprintf("The engine counts %.0f first tokens and the ledger %.0f in that time, so they are not of the same requests, and time between gateway and engine cannot be told.", engine.N, n))
		return
	}
	between := *gateway - *waited - *engine.Mean
	parts := fmt.Sprintf("of the mean TTFT of %s at the gateway, %s are its own queue and %s the engine's account with its queue", milliText(*gateway), milliText(*waited), milliText(*engine.Mean))
	row := comparedRow{Metric: "TTFT mean", Client: "–", Gateway: milliText(*gateway), Dashboard: "–", Engine: milliText(*engine.Mean), Difference: milliText(between) + " between"}
	if mean := c.Seen.Values[metrics.TTFT].mean(); mean != nil && len(ttft) == len(c.Seen.Values[metrics.TTFT]) {
		row.Client = milliText(*mean)
	}
	c.Rows = append(c.Rows, row)
	if between > max(leastGap, tolerance**gateway) {
		c.Hidden = true
		c.Notes = append(c.Notes, fmt.Sprintf("Hidden queue or network between gateway and engine: %s are in nobody's figures; %s.", milliText(between), parts))
	}
}
