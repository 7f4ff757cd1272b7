package slo

// Signature names the pattern that the diagnosis found.
type Signature string

const (
	Upstream        Signature = "upstream"
	DecodeBound     Signature = "decode"
	Capacity        Signature = "capacity"
	KVPressure      Signature = "kv_pressure"
	Errors          Signature = "errors"
	Instrumentation Signature = "instrumentation"
	Healthy         Signature = "healthy"
	NotEnough       Signature = "not enough traffic"
)

// Manual is a page of the operating manual: how a signature shows, where to look, what to do first.
type Manual struct {
	Signature Signature `json:"signature"`
	Title     string    `json:"title"`
	Pattern   string    `json:"pattern"`
	Look      []string  `json:"look"`
	Do        []string  `json:"do"`
}

// Signatures is the operating manual, shown beside the charts.
var Signatures = []Manual{
	{Upstream, "The wait is before the first token", "TTFT is high, ITL is normal.",
		[]string{"The wait in the gateway", "Waiting requests in the engine", "Prompt lengths and prefill", "Replicas that have just started"},
		[]string{"Add replicas, or let one replica take more requests at once.", "Turn on prefix caching, or shorten prompts.", "If only the slowest few wait, traffic comes in bursts: scale up faster, or keep a replica in reserve."}},
	{DecodeBound, "Tokens come slowly", "ITL is high, TTFT is normal.",
		[]string{"The running batch", "KV cache in use, and preemptions", "Clocks and temperature of the GPUs"},
		[]string{"Make the engine's largest batch smaller.", "Shorten outputs.", "Use GPUs with more memory bandwidth; if a clock fell, see to cooling and the power limit."}},
	{Capacity, "There is more work than the replicas can do", "TTFT and ITL are both high.",
		[]string{"KV cache near full", "Queues that grow, in the gateway and in the engine", "The running batch"},
		[]string{"Add replicas, or GPUs with more memory.", "Use a quantised model: it leaves more memory for conversations.", "Leave the engine's settings alone: tuning will not help."}},
	{KVPressure, "The KV cache is full", "KV cache over 90 %, and requests are thrown out of the batch.",
		[]string{"The longest prompts and answers", "Preemptions", "How far the cache's peak lies above its average"},
		[]string{"Lower the longest context, or bound answers with max_tokens.", "Use an FP8 cache.", "Add replicas."}},
	{Errors, "Requests fail", "Requests fail, and those that do not are as fast as ever.",
		[]string{"The states of the replicas", "The last lines of the engine's log", "What was changed shortly before"},
		[]string{"Restart the replica that fails.", "Roll back the last change."}},
	{Instrumentation, "Gateway and engine disagree", "The gateway's TTFT is longer than its own queue and the engine's TTFT together, or shorter than the engine's.",
		[]string{"The tunnel and the network between gateway and engine", "A proxy, or a queue in front of the engine that its figures leave out", "The machine's clock"},
		[]string{"Measure the way from the gateway to the machine.", "Take proxies out of the way, or look at their queues.", "Until it is found, believe the gateway: it measures what clients feel."}},
	{Healthy, "Nothing stands out", "Every figure is within its target and near what it was before.", nil, nil},
	{NotEnough, "Not enough traffic", "Too few requests to tell a pattern from chance.",
		[]string{"A longer range"}, []string{"Choose a longer range, or replay some traffic."}},
}

// ManualOf is the page of one signature.
func ManualOf(s Signature) Manual {
	for _, m := range Signatures {
		if m.Signature == s {
			return m
		}
	}
	return Manual{Signature: s, Title: string(s)}
}
