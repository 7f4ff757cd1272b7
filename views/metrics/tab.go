package metrics

import (
	"strconv"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/views/charts"
	"tokenfactory/views/ui"
)

// Tab is everything the Metrics tab shows.
type Tab struct {
	Deployment factory.Deployment
	Query      Query
	Window     metrics.Window
	// Panels follow the metric catalogue.
	Panels []Panel
	// Layers are the three parts of the page, with the panels in them.
	Layers []Layer
	// Replicas can be chosen; those that were measured in the range or run now.
	Replicas []ui.Option
	// Tenants and Keys can be chosen; those that were measured in the range.
	Tenants, Keys []ui.Option
	// TenantName and KeyName are of whom the page is narrowed down to.
	TenantName, KeyName string
	// ReplicaDropped is set when a replica was asked for together with a tenant.
	ReplicaDropped bool
	// Verdict is what the diagnosis says of the range; nil where it is not for who looks.
	Verdict *Verdict
	// Events are what happened to the deployment in the range.
	Events []charts.Event
	// LastRequest is when a request was last answered; nil before the first one.
	LastRequest *time.Time
	Now         time.Time
	ZoneName    string
	// BaseURL is where clients reach the deployment.
	BaseURL string
}

// Panel is one metric of the tab.
type Panel struct {
	Metric   metrics.Metric
	Series   metrics.Series
	Previous metrics.Summary // of the window before
	// Before are the medians of the window before, step by step; nil when it is not compared.
	Before    []*float64
	Objective *slo.Objective
	// Absent says why there is nothing to show though the deployment is in use; the
	// engine does not report everything.
	Absent string
}

// traffic reports whether any request was measured in the window.
func (t Tab) traffic() bool {
	for _, p := range t.Panels {
		if p.Metric.Shape == metrics.Distribution && p.Series.Summary.N > 0 {
			return true
		}
	}
	return false
}

// only says in words whose requests the page is about.
func (t Tab) only() string {
	switch {
	case t.Query.Own() && t.Query.Key == "":
		return "Your own requests"
	case t.Query.Own():
		return "Requests with your key " + t.KeyName
	case t.Query.Key == "":
		return "Only " + t.TenantName
	}
	return "Only " + t.TenantName + ", key " + t.KeyName
}

// emptyTitle and emptyText say that there was no request yet, and how to send one.
func (t Tab) emptyTitle() string {
	switch {
	case t.Query.Key != "":
		return "No request with this key has been answered yet"
	case t.Query.Own():
		return "No request of yours has been answered yet"
	case t.Query.Tenant != "":
		return "No request of this tenant has been answered yet"
	}
	return "No request has been answered yet"
}

func (t Tab) emptyText() string {
	if t.Query.Own() {
		return "Send one, and its figures appear here within seconds. Put the secret of a key of yours into the variable."
	}
	return "Send one, and its figures appear here within seconds. You need a key of a tenant that this deployment is shared with: put its secret into the variable."
}

// firstRequest is a command that sends one.
func (t Tab) firstRequest() string {
	name := strconv.Quote(t.Deployment.PublicName)
	path, body := "/chat/completions", `{"model": `+name+`, "stream": true, "messages": [{"role": "user", "content": "Say hello."}]}`
	if t.Deployment.LLM.Embedding {
		path, body = "/embeddings", `{"model": `+name+`, "input": "Say hello."}`
	}
	return "curl " + t.BaseURL + path + " \\\n" +
		"  -H \"Authorization: Bearer $TOKEN_FACTORY_KEY\" \\\n" +
		"  -H \"Content-Type: application/json\" \\\n" +
		"  -d '" + strings.ReplaceAll(body, "'", `'\''`) + "'"
}

// span is the window's length in words: "1 h".
func (t Tab) span() string {
	if r, ok := FindRange(t.Query.Range); ok && !t.Query.zoomed() && (!t.Query.Custom() || len(t.Query.Errors) > 0) {
		return r.Label
	}
	return ui.Span(t.Window.To.Sub(t.Window.From).Round(time.Minute))
}

func (p Panel) id() string { return "chart-" + string(p.Metric.Name) }

func (p Panel) label(span string) string {
	lines := "p50, p90, p95 and p99"
	if p.Metric.Shape == metrics.Gauge {
		lines = "average, peak and the spread between them"
	}
	return p.Metric.Long + " over " + span + ": " + lines + ". The table view has the same numbers."
}

func (p Panel) option() charts.Option {
	if p.Metric.Shape == metrics.Gauge {
		return charts.Gauge(p.Series, p.line(100))
	}
	return charts.Latency(p.Series, p.Before, p.line(1))
}

// promise is the objective in words.
func (p Panel) promise() string {
	switch {
	case p.Objective == nil:
		return ""
	case p.Metric.Shape == metrics.Gauge:
		return "limit" + nbsp + plain(p.Objective.Bound*100) + nbsp + "%"
	}
	return "objective: " + plain(p.Objective.Share*100) + nbsp + "% within" + nbsp + joined(p.Objective.Bound)
}

// line is the objective as the chart draws it; scale turns its unit into the chart's.
func (p Panel) line(scale float64) *charts.Objective {
	if p.Objective == nil {
		return nil
	}
	o := charts.Objective{Value: p.Objective.Bound * scale}
	if p.Metric.Shape == metrics.Gauge {
		o.Label = "limit " + plain(o.Value) + " %"
	} else {
		o.Label = "objective " + ui.MillisText(o.Value)
	}
	return &o
}
