package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// spoolCollector tells how usage stands that the ledger does not have yet, all of one
// moment.
type spoolCollector struct{ g *Gateway }

func spoolMetric(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tokenfactory_gateway_"+name, help, nil, nil)
}

var (
	spoolRows     = spoolMetric("spool_rows", "Usage rows on disk that the ledger does not have yet.")
	spoolMemory   = spoolMetric("spool_memory_rows", "Usage rows that could not be written to disk and are in memory.")
	spoolBytes    = spoolMetric("spool_bytes", "Size of the usage spool on disk.")
	spoolLimit    = spoolMetric("spool_limit_bytes", "Size of the usage spool from which on requests are refused.")
	spoolLost     = spoolMetric("spool_lost_rows_total", "Usage rows that neither disk nor memory could hold.")
	spoolSetAside = spoolMetric("spool_set_aside_rows", "Usage rows that the ledger will never take and that were put into a file of their own.")
	ledgerLag     = spoolMetric("ledger_lag_seconds", "Time since the ledger last had every usage row.")
)

func (c spoolCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{spoolRows, spoolMemory, spoolBytes, spoolLimit, spoolLost, spoolSetAside, ledgerLag} {
		to <- d
	}
}

func (c spoolCollector) Collect(to chan<- prometheus.Metric) {
	s := c.g.SpoolState()
	lag := 0.0
	if s.Waiting > 0 || s.InMemory > 0 {
		lag = max(0, time.Since(s.Since).Seconds())
	}
	for _, m := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{spoolRows, prometheus.GaugeValue, float64(s.Waiting)},
		{spoolMemory, prometheus.GaugeValue, float64(s.InMemory)},
		{spoolBytes, prometheus.GaugeValue, float64(s.Bytes)},
		{spoolLimit, prometheus.GaugeValue, float64(s.Limit)},
		{spoolLost, prometheus.CounterValue, float64(s.Lost)},
		{spoolSetAside, prometheus.GaugeValue, float64(s.SetAside)},
		{ledgerLag, prometheus.GaugeValue, lag},
	} {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value)
	}
}
