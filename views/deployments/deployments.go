package deployments

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tokenfactory/engines"
	"tokenfactory/factory"
	"tokenfactory/views/limits"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Row is a deployment in the list.
type Row struct {
	factory.Deployment
	State  factory.State
	Reason string
	Ready  int
}

// Filter is what the list shows; it is in the address.
type Filter struct {
	Text  string // in names, models, clusters
	State string // all, trouble, ready, stopped
	After string // the last row of the page before
}

func (f Filter) path(state, after string) string {
	return paths.With(paths.Deployments, url.Values{"q": {f.Text}, "state": {state}, "after": {after}})
}

// List is one page of the deployments that match.
type List struct {
	Rows   []Row
	Total  int // of all deployments, before the filter
	Counts map[string]int
	Filter Filter
	Next   string // where the next page begins; empty at the end
	// What is missing before a first deployment can be made.
	NoCluster, NoEndpoint, NoModel bool
}

func (l List) segments() []ui.Link {
	var out []ui.Link
	for _, s := range []struct{ state, label string }{
		{"", "All"}, {"trouble", "Trouble"}, {"ready", "Ready"}, {"stopped", "Stopped or asleep"},
	} {
		out = append(out, ui.Link{
			Label: s.label + " " + ui.Count(l.Counts[s.state]), Href: l.Filter.path(s.state, ""), Current: l.Filter.State == s.state,
		})
	}
	return out
}

// Replica is a running copy with its machine.
type Replica struct {
	factory.Replica
	ClusterID string
	Silent    *time.Time // since when its machine has been quiet; nil while it is not
	GPUs      []string   // names of the devices it holds
}

// gpuNames counts devices of one kind: 4 × NVIDIA H100.
func (r Replica) gpuNames() []string {
	count := map[string]int{}
	var out []string
	for _, name := range r.GPUs {
		if count[name]++; count[name] == 1 {
			out = append(out, name)
		}
	}
	for i, name := range out {
		if count[name] > 1 {
			out[i] = ui.Count(count[name]) + " × " + name
		}
	}
	return out
}

// Show is one deployment as its tabs show it.
type Show struct {
	factory.Deployment
	State    factory.State
	Reason   string
	Endpoint factory.Endpoint
	BaseURL  string
	Replicas []Replica
	Tenants  []string // titles of those it is shared with
	Limited  limits.Holder
	Refused  []limits.Refused // by limits, on the overview only
	Now      time.Time
}

func (s Show) ready() int {
	n := 0
	for _, r := range s.Replicas {
		if r.State == factory.Ready && !r.Stopping && r.Silent == nil {
			n++
		}
	}
	return n
}

// sample is a first request to the deployment.
func (s Show) sample() string {
	body := `{"model": ` + strconv.Quote(s.PublicName) + `, "messages": [{"role": "user", "content": "Say hello."}]}`
	path := "/chat/completions"
	if s.LLM.Embedding {
		body, path = `{"model": `+strconv.Quote(s.PublicName)+`, "input": "Say hello."}`, "/embeddings"
	}
	return "curl " + s.BaseURL + path + " \\\n" +
		"  -H \"Authorization: Bearer $TOKEN_FACTORY_KEY\" \\\n" +
		"  -H \"Content-Type: application/json\" \\\n" +
		"  -d '" + strings.ReplaceAll(body, "'", `'\''`) + "'"
}

// tone is the colour of a state's banner.
func tone(s factory.State) ui.Tone {
	switch s {
	case factory.Ready:
		return ui.Good
	case factory.Degraded:
		return ui.Warn
	case factory.Failed:
		return ui.Bad
	case factory.Starting, factory.Loading:
		return ui.Progress
	}
	return ui.Plain
}

var stateTitles = map[factory.State]string{
	factory.Pending:  "Nothing has been started yet",
	factory.Starting: "The engine is starting",
	factory.Loading:  "The engine is loading the model",
	factory.Ready:    "Serving",
	factory.Degraded: "Serving with fewer replicas than wanted",
	factory.Failed:   "It does not come up",
	factory.Stopping: "Stopping",
	factory.Stopped:  "Stopped",
	factory.Asleep:   "Asleep until the next request",
}

// speaking is the replica whose last lines explain the deployment's state best:
// one that failed, else one that is under way. Nil when all is well.
func (s Show) speaking() *Replica {
	for _, want := range []factory.State{factory.Failed, factory.Loading, factory.Starting} {
		for i, r := range s.Replicas {
			if r.State == want && !r.Stopping && (len(r.LastLines) > 0 || r.Progress != "") {
				return &s.Replicas[i]
			}
		}
	}
	return nil
}

func engineTitle(name string) string {
	if e, ok := engines.Find(name); ok {
		return e.Title
	}
	return name
}

// gpuText says what one replica gets.
func gpuText(d factory.Deployment) string {
	switch {
	case d.Address != "":
		return "as the running engine was given"
	case d.GPUCount == 0:
		return "none, it runs on the CPU"
	case d.GPU == "":
		return ui.Plural(d.GPUCount, "GPU") + " of any kind"
	case d.GPUCount == 1:
		return d.GPU
	}
	return ui.Count(d.GPUCount) + " × " + d.GPU
}

// PriceText is a price in one line.
func PriceText(p *factory.Price) string {
	switch {
	case p == nil:
		return "–"
	case p.Free:
		return "free"
	}
	return p.Input + " in, " + p.Output + " out " + p.Currency
}

func sharedText(s Show) string {
	switch {
	case s.SharedWithAll:
		return "every tenant"
	case len(s.Tenants) == 0:
		return "nobody yet"
	}
	return strings.Join(s.Tenants, ", ")
}

func targetText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return ui.MillisText(float64(d) / float64(time.Millisecond))
}

// concurrencyText says how many requests one replica gets at once.
func concurrencyText(n int) string {
	if n == 0 {
		return "as many as come"
	}
	return ui.Count(n)
}
