package sim

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds as vLLM has them, in seconds.
var (
	ttftBounds    = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBounds     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	reasons       = []string{"stop", "length", "abort", "error", "repetition"}
)

type histogram struct {
	bounds []float64
	counts []uint64 // one more than bounds, not cumulative
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(d time.Duration) {
	v := d.Seconds()
	i, _ := slices.BinarySearch(h.bounds, v) // a bound belongs to its own bucket
	h.counts[i]++
	h.sum += v
}

// figures are what the engine counts; its lock guards them.
type figures struct {
	prompt, generation    uint64
	prefixQueries, cached uint64
	preemptions           uint64
	finished              map[string]uint64
	ttft, itl, e2e        histogram
	queue, prefill        histogram
	decode, perToken      histogram
}

func newFigures() figures {
	return figures{
		finished: map[string]uint64{},
		ttft:     newHistogram(ttftBounds), itl: newHistogram(itlBounds), perToken: newHistogram(itlBounds),
		e2e: newHistogram(requestBounds), queue: newHistogram(requestBounds), prefill: newHistogram(requestBounds), decode: newHistogram(requestBounds),
	}
}

// metrics answers in the classic text format whatever the Accept header says.
func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	b := sheet{labels: `engine="0",model_name="` + labelEscapes.Replace(e.Model) + `"`}
	e.mu.Lock()
	f := &e.figures
	b.plain("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", "", float64(e.started.UnixMilli())/1000)
	b.one("num_requests_running", "gauge", "Number of requests in model execution batches.", float64(e.line.running))
	b.one("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", float64(len(e.line.waiting)))
	b.one("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", e.line.usage())
	b.one("prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", float64(f.prefixQueries))
	b.one("prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", float64(f.cached))
	b.one("num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", float64(f.preemptions))
	b.one("prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(f.prompt))
	b.one("generation_tokens_total", "counter", "Number of generation tokens processed.", float64(f.generation))
	b.head("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	for _, reason := range reasons {
		b.line("vllm:request_success_total", b.labels+`,finished_reason="`+reason+`"`, float64(f.finished[reason]))
	}
	b.histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", f.ttft)
	b.histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", f.itl)
	b.histogram("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", f.perToken)
	b.histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", f.e2e)
	b.histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", f.queue)
	b.histogram("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", f.prefill)
	b.histogram("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", f.decode)
	e.mu.Unlock()
	b.plain("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig",
		fmt.Sprintf(`block_size="%d",enable_prefix_caching="%s",engine="0",num_gpu_blocks="%d"`, e.BlockSize, pythonBool(!e.NoPrefixCaching), e.KVBlocks), 1)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sheet writes families in the text format, numbers as Python prints them.
type sheet struct {
	bytes.Buffer
	labels string
}

func (b *sheet) head(name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (b *sheet) line(name, labels string, v float64) {
	b.WriteString(name)
	if labels != "" {
		b.WriteString("{" + labels + "}")
	}
	b.WriteString(" " + python(v) + "\n")
}

func (b *sheet) plain(name, kind, help, labels string, v float64) {
	b.head(name, kind, help)
	b.line(name, labels, v)
}

func (b *sheet) one(name, kind, help string, v float64) {
	b.plain("vllm:"+name, kind, help, b.labels, v)
}

func (b *sheet) histogram(name, help string, h histogram) {
	name = "vllm:" + name
	b.head(name, "histogram", help)
	total := uint64(0)
	for i, n := range h.counts {
		total += n
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		b.line(name+"_bucket", `le="`+python(bound)+`",`+b.labels, float64(total))
	}
	b.line(name+"_count", b.labels, float64(total))
	b.line(name+"_sum", b.labels, h.sum)
}

func python(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func pythonBool(v bool) string {
	if v {
		return "True"
	}
	return "False"
}
