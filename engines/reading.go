package engines

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"tokenfactory/metrics"
)

// AcceptMetrics is the Accept header for reading a metrics page. Python engines
// negotiate, and in OpenMetrics every counter would come without its type.
const AcceptMetrics = "text/plain;version=0.0.4"

// maxPage bounds what is read: real pages have 40 to 60 KB.
const maxPage = 8 << 20

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
	CachedTokens     *float64 // part of PromptTokens
	PrefixQueries    *float64 // tokens looked up in the prefix cache

	Finished map[string]float64 // requests by reason
	Failed   map[string]float64

	// Histograms are in seconds, under the Engine… names.
	Histograms map[metrics.Name]metrics.Histogram

	ProcessStart *float64 // seconds of the Unix epoch
	Ranks        []string // data-parallel ranks that were counted
}

// readers is the order in which an unexpected page is tried; bare names come last.
var readers = []*Engine{&vllm, &sglang, &dynamo, &trtllm, &llamacpp, &tgi, &nim}

// Read reads the engine's metrics page. A page with another engine's names, as NIM 2
// serves, is read by what is on it. On any error nothing is returned: half a page
// would look like counters that were reset.
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

func parse(r io.Reader) (page, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxPage+1))
	if err != nil {
		return nil, fmt.Errorf("read metrics page: %w", err)
	}
	if len(body) > maxPage {
		return nil, fmt.Errorf("metrics page is larger than %d MiB", maxPage>>20)
	}
	return families(body)
}

// families parses a page. The parser panics on some broken lines, and whatever answers
// on an engine's port must not be able to end the agent.
func families(body []byte) (p page, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("parse metrics page: %v", r)
		}
	}()
	// The zero TextParser panics always, and on an error the families so far come along.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	p, err = parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("parse metrics page: %w", err)
	}
	return p, nil
}

func (p page) readAny() Reading {
	for _, e := range readers {
		if prefix, ok := p.recognise(e.mapping); ok {
			return p.read(e.Name, e.mapping, prefix)
		}
	}
	return Reading{ProcessStart: p.processStart()}
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
		PrefixQueries:    v.total(m.prefixQueries),
		Finished:         v.outcomes(m.finished),
		Failed:           v.outcomes(m.failed),
		ProcessStart:     p.processStart(),
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
