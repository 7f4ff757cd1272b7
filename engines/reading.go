package engines

import (
	"io"
	"slices"

	"tokenfactory/metrics"
)

// AcceptMetrics is the Accept header for reading a metrics page. Python engines
// negotiate, and in OpenMetrics every counter would come without its type.
const AcceptMetrics = "text/plain;version=0.0.4"

// Reading is an engine's metrics page in canonical form. What the page does not
// have is nil, which is not zero. Counters count since the engine's process began.
type Reading struct {
	Engine string // whose names were on the page; empty when none were recognised
	Model  string // as the page labels it; empty when it does not

	Running *float64
	Waiting *float64
	// KV is the share of the KV cache in use, 0 to 1, averaged over data-parallel
	// ranks; KVPeak is the fullest rank.
	KV     *float64
	KVPeak *float64

	PromptTokens     *float64
	GenerationTokens *float64
	CachedTokens     *float64 // were not computed; see Prompts for whether PromptTokens has them
	// PrefixHits of PrefixQueries tokens were found in the prefix cache. An engine without
	// the pair may show a HitRate, 0 to 1, which is a gauge of its latest requests.
	PrefixHits    *float64
	PrefixQueries *float64
	HitRate       *float64
	Preemptions   *float64 // requests thrown out of the batch

	Finished map[string]float64 // requests by reason
	Failed   map[string]float64

	// Histograms are in seconds, under the Engine… names.
	Histograms map[metrics.Name]metrics.Histogram

	ProcessStart *float64 // seconds of the Unix epoch
	Ranks        []string // data-parallel ranks that were counted

	// Samples and ParseErrors are the page's lines that could and could not be read.
	Samples     int
	ParseErrors int
	Problems    []PageProblem // the first of them

	// apart says that PromptTokens lacks CachedTokens.
	apart bool
	// partial is set when nobody can say what the unreadable lines were of.
	partial bool
	// unsure is set while what is missing may only not have been seen yet.
	unsure bool
}

// Prompts are the tokens of all prompts, computed or not: what a client is billed for.
// It is nil for an engine that counts the computed ones and is silent about the others.
func (r Reading) Prompts() *float64 {
	switch {
	case !r.apart || r.PromptTokens == nil:
		return r.PromptTokens
	case r.CachedTokens == nil:
		return nil
	}
	sum := *r.PromptTokens + *r.CachedTokens
	return &sum
}

// PrefixUse is how many tokens were looked up in the prefix cache, and how many of them
// were found: of an engine without counters for it, the prompts' tokens and those it did
// not have to compute. Both are nil when that is not known either.
func (r Reading) PrefixUse() (hits, lookups *float64) {
	if prompts := r.Prompts(); r.PrefixQueries == nil && r.CachedTokens != nil && prompts != nil {
		return r.CachedTokens, prompts
	}
	return r.PrefixHits, r.PrefixQueries
}

// readers is the order in which an unexpected page is tried; bare names come last.
var readers = []*Engine{&vllm, &sglang, &dynamo, &trtllm, &llamacpp, &tgi, &nim}

// Read reads the engine's metrics page. A page with another engine's names, as NIM 2
// serves, is read by what is on it. A line that cannot be read costs its own figure
// and no other; see Follow for the counters. On an error nothing is returned.
func (e Engine) Read(r io.Reader) (Reading, error) {
	p, err := parse(r)
	if err != nil {
		return Reading{}, err
	}
	if prefix, ok := p.recognise(e.mapping); ok {
		return p.read(e.Name, e.mapping, prefix), nil
	}
	return p.readAny(), nil
}

// ReadAny reads the metrics page of an engine that is not known beforehand.
func ReadAny(r io.Reader) (Reading, error) {
	p, err := parse(r)
	if err != nil {
		return Reading{}, err
	}
	return p.readAny(), nil
}

func (p page) readAny() Reading {
	for _, e := range readers {
		if prefix, ok := p.recognise(e.mapping); ok {
			return p.read(e.Name, e.mapping, prefix)
		}
	}
	return Reading{ProcessStart: p.processStart(), Samples: p.samples, ParseErrors: p.errors, Problems: p.first}
}

func (p page) read(name string, m mapping, prefix string) Reading {
	v := view{page: p, mapping: m, prefix: prefix}
	v.live = v.liveRanks()
	v.wanted = v.mainModel()
	out := Reading{
		Engine:           name,
		Model:            v.wanted,
		Running:          v.total(m.running),
		Waiting:          v.total(m.waiting),
		PromptTokens:     v.total(m.prompt),
		GenerationTokens: v.total(m.generation),
		CachedTokens:     v.total(m.cached),
		PrefixHits:       v.total(m.hits),
		PrefixQueries:    v.total(m.lookups),
		HitRate:          v.share(m.hitRate),
		Preemptions:      v.total(m.preemptions),
		Finished:         v.outcomes(m.finished),
		Failed:           v.outcomes(m.failed),
		ProcessStart:     p.processStart(),
		Samples:          p.samples,
		ParseErrors:      p.errors,
		Problems:         p.first,
		apart:            m.apart,
		partial:          p.partial,
	}
	out.KV, out.KVPeak = v.spread(m.kv)
	for n, alternatives := range m.histograms {
		if h, ok := v.histogram(alternatives); ok {
			if out.Histograms == nil {
				out.Histograms = map[metrics.Name]metrics.Histogram{}
			}
			out.Histograms[n] = h
		}
	}
	for rank := range v.live {
		out.Ranks = append(out.Ranks, rank)
	}
	slices.Sort(out.Ranks)
	return out
}
