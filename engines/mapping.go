package engines

import "tokenfactory/metrics"

// mapping says where on an engine's metrics page each canonical signal is. Every
// signal has alternatives, the preferred name first: the first one present is
// taken and the others are never added, because releases that rename a series
// serve both names for a while.
type mapping struct {
	// prefixes begin all names below; the first under which the page has any is taken.
	prefixes []string
	// model is the label with the model's name; empty when the page has none.
	model string
	// rank is the label that tells data-parallel ranks apart.
	rank string
	// copies are labels whose values repeat one figure, such as tensor-parallel ranks:
	// of samples that differ in nothing else only the largest counts.
	copies []string
	// totals names, for a label, the value whose sample is the sum of its siblings.
	totals map[string]string

	running, waiting   []series
	kv                 []series // 0 to 1
	prompt, generation []series // tokens
	// cached are prompt tokens that were not computed. hits and lookups are a prefix
	// cache's own two counters, of tokens too, and hitRate is for engines that count
	// neither and only show a share.
	cached []series
	// apart says that prompt leaves the cached tokens out.
	apart            bool
	hits, lookups    []series
	hitRate          []series
	preemptions      []series
	finished, failed []outcome
	histograms       map[metrics.Name][]series
}

// series is one family and which of its samples count.
type series struct {
	name string
	// label and value pick samples; an empty label takes all.
	label, value string
	// sum takes the sum of a histogram, for engines without a counter of the same thing.
	sum bool
}

// outcome is a family that counts requests by how they ended.
type outcome struct {
	name   string
	by     []string // labels with the reason, the first present
	none   string   // the reason when there is no such label
	only   string   // only this reason
	except string   // all but this reason
	// where and is pick samples by another label.
	where, is string
}

// all lists every series of the mapping, to recognise a page by.
func (m mapping) all() []string {
	var names []string
	for _, group := range [][]series{m.running, m.waiting, m.kv, m.prompt, m.generation, m.cached, m.hits, m.lookups, m.hitRate, m.preemptions} {
		for _, s := range group {
			names = append(names, s.name)
		}
	}
	for _, group := range [][]outcome{m.finished, m.failed} {
		for _, o := range group {
			names = append(names, o.name)
		}
	}
	for _, group := range m.histograms {
		for _, s := range group {
			names = append(names, s.name)
		}
	}
	return names
}

func named(names ...string) []series {
	out := make([]series, len(names))
	for i, n := range names {
		out[i] = series{name: n}
	}
	return out
}
