package metrics

import (
	"math"

	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

const notReported = "The engine reported nothing of this in this range."

// firstTokens puts the engine's own TTFT beside the gateway's. The two are never mixed.
func (m Measured) firstTokens() Chart {
	c := Chart{
		Name: "engine_ttft", Title: "TTFT at both ends", Long: "Time to first token, as the gateway and as the engine have it", Unit: "ms", Window: m.Window,
		Tell: "The gateway measures what people feel; the engine starts its clock when a request arrives there. Between them lie our queue and the network.",
		Do:   "Where they differ beyond the wait in the gateway, look at the path between: the tunnel, the network, the clocks.",
		Plot: charts.Plot{Digits: 1},
	}
	engine, gateway := m.Series[metrics.EngineTTFT], m.Series[metrics.TTFT]
	if engine.Summary.N == 0 {
		c.Absent = notReported
		return c
	}
	for _, x := range []struct {
		p    int
		dash string
	}{{0, ""}, {2, "5 3"}} {
		name := charts.PercentileNames[x.p]
		g := charts.Line{Name: "Gateway " + name, Color: "--chart-1", Dash: x.dash}
		if len(gateway.Q) > 0 {
			g.Values = gateway.Q[x.p]
			c.Facts = append(c.Facts, millis("gateway "+name, gateway.Summary.Q[x.p]))
		}
		c.Lines = append(c.Lines, g, percentileLine("Engine "+name, engine, x.p, "--chart-3", x.dash))
		c.Facts = append(c.Facts, estimated("engine "+name, engine.Summary.Estimates[x.p]))
	}
	c.Facts = append(c.Facts, millis("engine mean", engine.Summary.Average))
	if g, e := gateway.Summary.Average, engine.Summary.Average; g != nil && e != nil {
		c.Notes = append(c.Notes, m.between(*g-*e))
	}
	return c
}

// between explains the difference of the two means by the wait in the gateway.
func (m Measured) between(gap float64) remark {
	queue := m.summary(metrics.Queue).Average
	text := "On average the gateway's is " + joined(max(gap, 0)) + " longer"
	if gap < 0 {
		return remark{Tone: ui.Warn, Icon: "warn", Text: "On average the engine's is longer than the gateway's: they did not measure the same requests, or a clock is wrong."}
	}
	if queue == nil {
		return remark{Tone: ui.Plain, Icon: "info", Text: text + "."}
	}
	return remark{Tone: ui.Plain, Icon: "info", Text: text + ": " + joined(min(*queue, gap)) + " of it waiting in the gateway, " + joined(max(gap-*queue, 0)) + " the network and the rest."}
}

func (m Measured) batch() Chart {
	c := Chart{
		Name: "batch", Title: "Running and waiting", Long: "Requests in the engine's batch and in its queue", Window: m.Window,
		Tell: "How many requests the engine works on at once, and how many it has not begun with.",
		Do:   "A queue that stays means too few replicas. A large batch slows every token down.",
		Plot: charts.Plot{Digits: 2},
		Lines: []charts.Line{
			{Name: "Running", Color: "--chart-1", Values: m.averages(metrics.Running)},
			{Name: "Running at most", Color: "--chart-2", Dash: "5 3", Values: m.Series[metrics.Running].Peak},
			{Name: "Waiting", Color: "--chart-4", Values: m.averages(metrics.Waiting)},
			{Name: "Waiting at most", Color: "--chart-5", Dash: "2 3", Values: m.Series[metrics.Waiting].Peak},
		},
	}
	if !m.any(metrics.Running, metrics.Waiting) {
		c.Absent = notReported
		return c
	}
	c.Facts = []reading{
		optional("running", m.summary(metrics.Running).Average), optional("at most", m.summary(metrics.Running).Peak),
		optional("waiting", m.summary(metrics.Waiting).Average), optional("at most", m.summary(metrics.Waiting).Peak),
	}
	return c
}

func (m Measured) prefix() Chart {
	c := Chart{
		Name: "prefix", Title: "Prefix cache", Long: "Share of prompt tokens found in the prefix cache", Unit: "%", Window: m.Window,
		Tell:  "How much of the prompts the engine did not have to read again.",
		Do:    "Low with prompts that begin alike: put what is common first, keep a conversation on its replica, or give the cache more memory.",
		Lines: []charts.Line{{Name: "Hit rate", Color: "--chart-1", Values: shares(m.sums(metrics.PrefixHits, metrics.PrefixQueries), m.sums(metrics.PrefixQueries, metrics.PrefixQueries))}},
		Plot:  charts.Plot{Share: true, Digits: 2},
	}
	hits, lookups := m.summary(metrics.PrefixHits).Sum, m.summary(metrics.PrefixQueries).Sum
	switch {
	case !m.any(metrics.PrefixQueries):
		c.Absent = notReported
	case lookups == 0:
		c.Absent = "No token was looked up in this range."
	default:
		c.Facts = []reading{{"hit rate", floored(100 * hits / lookups), "%"}, {"tokens found", ui.Count(int64(math.Round(hits))), ""}, {"tokens looked up", ui.Count(int64(math.Round(lookups))), ""}}
	}
	return c
}

func (m Measured) preemptions() Chart {
	row, _ := metrics.Find(metrics.Preemptions)
	c := Chart{
		Name: "preemptions", Title: row.Title, Long: row.Long + " per step", Tell: row.Tell, Do: row.Do, Window: m.Window,
		Lines: []charts.Line{{Name: "Preemptions", Color: "--chart-4", Values: m.sums(metrics.Preemptions, metrics.Preemptions)}},
	}
	if !m.any(metrics.Preemptions) {
		c.Absent = notReported
		return c
	}
	c.Facts = []reading{{"in this range", ui.Count(int64(math.Round(m.summary(metrics.Preemptions).Sum))), ""}}
	return c
}

// counted sets the gateway's count of tokens against the engine's.
func (m Measured) counted() Chart {
	c := Chart{
		Name: "counted", Title: "Tokens counted twice", Long: "Tokens per second, as the gateway and as the engine count", Unit: "tokens/s", Window: m.Window,
		Tell: "We bill what the gateway counts. The engine counts for itself, also what it served to others and what clients did not wait for.",
		Do:   "More than 0.5 % apart over a long range: look for traffic that goes around the gateway, and at estimated requests on the usage page.",
		Plot: charts.Plot{Digits: 2},
		Lines: []charts.Line{
			{Name: "Gateway in", Color: "--chart-1", Values: m.perSecond(m.sums(metrics.InputTokens, metrics.Requests))},
			{Name: "Engine in", Color: "--chart-2", Dash: "5 3", Values: m.perSecond(m.sums(metrics.PromptTokens, metrics.PromptTokens))},
			{Name: "Gateway out", Color: "--chart-3", Values: m.perSecond(m.sums(metrics.OutputTokens, metrics.Requests))},
			{Name: "Engine out", Color: "--chart-4", Dash: "5 3", Values: m.perSecond(m.sums(metrics.GenerationTokens, metrics.GenerationTokens))},
		},
	}
	if !m.any(metrics.PromptTokens, metrics.GenerationTokens) {
		c.Absent = notReported
		return c
	}
	for _, x := range []struct {
		label           string
		gateway, engine metrics.Name
	}{{"in", metrics.InputTokens, metrics.PromptTokens}, {"out", metrics.OutputTokens, metrics.GenerationTokens}} {
		if !m.any(x.engine) {
			c.Notes = append(c.Notes, remark{Tone: ui.Plain, Icon: "info", Text: "The engine does not count tokens " + x.label + "."})
			continue
		}
		ours, theirs := m.summary(x.gateway).Sum, m.summary(x.engine).Sum
		c.Facts = append(c.Facts, reading{x.label + ", gateway", ui.Count(int64(math.Round(ours))), ""}, reading{x.label + ", engine", ui.Count(int64(math.Round(theirs))), ""})
	}
	c.Notes = append(c.Notes, m.drift())
	return c
}

// drift judges the two counts as the alert does.
func (m Measured) drift() remark {
	of := map[metrics.Name]metrics.Summary{}
	for _, n := range slo.Reconciled {
		of[n] = m.summary(n)
	}
	d := slo.Reconcile(of)
	apart := ui.Percent(math.Abs(d.Ratio) * 100)
	more := " more"
	if d.Ratio < 0 {
		more = " less"
	}
	switch {
	case !d.OK:
		return remark{Tone: ui.Plain, Icon: "none", Text: "Too few tokens in this range to compare the two counts."}
	case d.Alarm:
		return remark{Tone: ui.Warn, Icon: "warn", Text: "The engine counts " + apart + more + ", which requests under way do not explain."}
	case d.Ratio == 0:
		return remark{Tone: ui.Good, Icon: "ok", Text: "Both count the same."}
	}
	return remark{Tone: ui.Good, Icon: "ok", Text: "The engine counts " + apart + more + ": no more than requests under way explain."}
}
