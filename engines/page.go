package engines

import (
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"tokenfactory/metrics"
)

// page is a parsed metrics page.
type page struct {
	families map[string]*dto.MetricFamily
	// damaged are families that a line was lost of. What is left of one would be a sum
	// that lacks a part, so it is not read, and nothing else in its place.
	damaged map[string]bool
	// partial is set when lines are missing and nobody can say of which families.
	partial bool
	samples int // lines
	errors  int
	first   []PageProblem
}

// family is nil when the page does not have it, or not whole.
func (p page) family(name string) *dto.MetricFamily {
	if p.damaged[name] {
		return nil
	}
	return p.families[name]
}

// recognise finds the prefix under which the page has any series of a mapping.
func (p page) recognise(m mapping) (prefix string, ok bool) {
	names := m.all()
	for _, prefix := range m.prefixes {
		if slices.ContainsFunc(names, func(n string) bool { return p.families[prefix+n] != nil || p.damaged[prefix+n] }) {
			return prefix, true
		}
	}
	return "", false
}

// processStart is missing where a Python engine has several API processes, and in
// engines not written in Python.
func (p page) processStart() *float64 {
	f := p.family("process_start_time_seconds")
	if f == nil || len(f.Metric) == 0 {
		return nil
	}
	if v := number(f.Metric[0]); v > 0 {
		return &v
	}
	return nil
}

// view is a page seen through a mapping: of one model, and of the ranks that are alive.
type view struct {
	page
	mapping
	prefix string
	wanted string          // model; empty: all
	live   map[string]bool // ranks; empty: all
}

type sample struct {
	labels map[string]string
	metric *dto.Metric
}

// samples returns what counts of a family; nil when the page does not have it.
func (v view) samples(name string, keep func(labels map[string]string) bool) []sample {
	f := v.family(v.prefix + name)
	if f == nil {
		return nil
	}
	var out []sample
	for _, m := range f.Metric {
		labels := make(map[string]string, len(m.Label))
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if !keep(labels) || (len(v.live) > 0 && labels[v.rank] != "" && !v.live[labels[v.rank]]) {
			continue
		}
		if v.wanted != "" && labels[v.model] != "" && !strings.EqualFold(labels[v.model], v.wanted) {
			continue
		}
		out = append(out, sample{labels, m})
	}
	return v.withoutCopies(v.onlyTotals(out))
}

func (v view) onlyTotals(in []sample) []sample {
	for label, total := range v.totals {
		isTotal := func(s sample) bool { return s.labels[label] == total }
		if slices.ContainsFunc(in, isTotal) {
			in = slices.DeleteFunc(in, func(s sample) bool { return !isTotal(s) })
		}
	}
	return in
}

func (v view) withoutCopies(in []sample) []sample {
	if len(v.copies) == 0 {
		return in
	}
	at := map[string]int{}
	var out []sample
	for _, s := range in {
		var key strings.Builder
		for _, l := range slices.Sorted(maps.Keys(s.labels)) {
			if !slices.Contains(v.copies, l) {
				key.WriteString(l + "\x00" + s.labels[l] + "\x00")
			}
		}
		i, seen := at[key.String()]
		switch {
		case !seen:
			at[key.String()] = len(out)
			out = append(out, s)
		case size(s.metric) > size(out[i].metric):
			out[i] = s
		}
	}
	return out
}

// numbers reads the first alternative that is present.
func (v view) numbers(alternatives []series) []float64 {
	for _, s := range alternatives {
		if v.damaged[v.prefix+s.name] {
			return nil
		}
		var out []float64
		for _, x := range v.samples(s.name, func(l map[string]string) bool { return s.label == "" || l[s.label] == s.value }) {
			n := number(x.metric)
			if s.sum {
				n = x.metric.GetHistogram().GetSampleSum()
			}
			// llama.cpp prints nan before its first request.
			if !math.IsNaN(n) && !math.IsInf(n, 0) {
				out = append(out, n)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

func (v view) total(alternatives []series) *float64 {
	numbers := v.numbers(alternatives)
	if len(numbers) == 0 {
		return nil
	}
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	return &sum
}

// spread is for shares, which do not add up: their average and the highest.
func (v view) spread(alternatives []series) (average, peak *float64) {
	sum, numbers := v.total(alternatives), v.numbers(alternatives)
	if sum == nil {
		return nil, nil
	}
	mean, most := *sum/float64(len(numbers)), slices.Max(numbers)
	return &mean, &most
}

// share is an average that engines set to -1 while they have none.
func (v view) share(alternatives []series) *float64 {
	mean, _ := v.spread(alternatives)
	if mean == nil || *mean < 0 || *mean > 1 {
		return nil
	}
	return mean
}

func (v view) outcomes(alternatives []outcome) map[string]float64 {
	for _, o := range alternatives {
		if v.damaged[v.prefix+o.name] {
			return nil
		}
		found := v.samples(o.name, func(l map[string]string) bool { return o.where == "" || l[o.where] == o.is })
		if len(found) == 0 {
			continue
		}
		out := map[string]float64{}
		for _, s := range found {
			reason := o.none
			for _, label := range o.by {
				if s.labels[label] != "" {
					reason = s.labels[label]
					break
				}
			}
			if n := number(s.metric); !math.IsNaN(n) && (o.only == "" || reason == o.only) && (o.except == "" || reason != o.except) {
				out[reason] += n
			}
		}
		return out
	}
	return nil
}

func (v view) histogram(alternatives []series) (metrics.Histogram, bool) {
	for _, s := range alternatives {
		if v.damaged[v.prefix+s.name] {
			return metrics.Histogram{}, false
		}
		var sum metrics.Histogram
		found := false
		for _, x := range v.samples(s.name, func(map[string]string) bool { return true }) {
			h := x.metric.GetHistogram()
			if h == nil || !whole(h) {
				continue
			}
			one := histogramOf(h)
			if found {
				one = sum.Add(one)
			}
			sum, found = one, true
		}
		if found {
			return sum, true
		}
	}
	return metrics.Histogram{}, false
}

// liveRanks are those with any counter or histogram. Gauges of sibling ranks show up
// as zeros where several API processes share their metrics.
func (v view) liveRanks() map[string]bool {
	live := map[string]bool{}
	if v.rank == "" {
		return live
	}
	for name, f := range v.families {
		if f.GetType() == dto.MetricType_GAUGE || !strings.HasPrefix(name, v.prefix) || strings.HasSuffix(name, "_created") {
			continue
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == v.rank {
					live[l.GetValue()] = true
				}
			}
		}
	}
	return live
}

// mainModel is the name on most of the samples that are read.
func (v view) mainModel() string {
	if v.model == "" {
		return ""
	}
	count := map[string]int{}
	for _, name := range v.all() {
		for _, m := range v.families[v.prefix+name].GetMetric() {
			for _, l := range m.Label {
				if l.GetName() == v.model && l.GetValue() != "" {
					count[l.GetValue()]++
				}
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[name] > count[best] {
			best = name
		}
	}
	return best
}
