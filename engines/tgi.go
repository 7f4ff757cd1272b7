package engines

import "tokenfactory/metrics"

// Text Generation Inference is in maintenance mode and not offered; its pages are
// still read where somebody runs one. Counters have no _total, and there are none
// for tokens.
var tgi = Engine{
	Name:  "tgi",
	Title: "Text Generation Inference",
	mapping: mapping{
		prefixes:   []string{"tgi_"},
		running:    named("batch_current_size"),
		waiting:    named("queue_size"),
		prompt:     []series{{name: "request_input_length", sum: true}},
		generation: []series{{name: "request_generated_tokens", sum: true}},
		finished:   []outcome{{name: "request_success", none: "success"}},
		failed:     []outcome{{name: "request_failure", by: []string{"err"}}},
		histograms: map[metrics.Name][]series{
			metrics.EngineE2E:   named("request_duration"),
			metrics.EngineQueue: named("request_queue_duration"),
		},
	},
}
