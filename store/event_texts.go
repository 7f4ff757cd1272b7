package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
)

// changesOf says in sentences what differs between a deployment as it was and as it is,
// one event for each kind. With whom it is shared is not told: it shows in no chart, and
// the marks are shown to tenants, who need not know of each other. Values of engine
// arguments and variables may be secrets, so that only the names of arguments are told.
func changesOf(old, new factory.Deployment) []factory.Event {
	var out []factory.Event
	if old.Replicas != new.Replicas {
		out = append(out, factory.Event{Kind: factory.EventScale, Text: fmt.Sprintf("Replicas changed from %d to %d.", old.Replicas, new.Replicas)})
	}
	var c sentences
	c.compare("Name", old.Name, new.Name)
	c.compare("Public name", old.PublicName, new.PublicName)
	c.compare("Model", old.Model, new.Model)
	c.compare("Endpoint", old.Endpoint, new.Endpoint)
	c.compare("Cluster", old.Cluster, new.Cluster)
	c.engine(old.DeploymentSpec, new.DeploymentSpec)
	c.limits(old.DeploymentSpec, new.DeploymentSpec)
	c.targets(old.DeploymentSpec, new.DeploymentSpec)
	if old.Price != nil && new.Price != nil && !old.Price.Same(*new.Price) {
		c.compare("Price", priceText(*old.Price), priceText(*new.Price))
	}
	anew := old.Revision != new.Revision
	if len(c) == 0 && anew {
		return append(out, factory.Event{Kind: factory.EventRestart, Text: "Every engine was told to start anew."})
	}
	if len(c) == 0 {
		return out
	}
	if anew {
		c = append(c, "Every engine starts anew.")
	}
	return append(out, factory.Event{Kind: factory.EventConfig, Text: strings.Join(c, " ")})
}

// sentences grow by one for each thing that has changed.
type sentences []string

func (c *sentences) compare(title, old, new string) {
	if old != new {
		*c = append(*c, fmt.Sprintf("%s changed from %s to %s.", title, cmp.Or(old, "none"), cmp.Or(new, "none")))
	}
}

func (c *sentences) engine(old, new factory.DeploymentSpec) {
	c.compare("Engine", old.Engine, new.Engine)
	if old.Address != new.Address {
		*c = append(*c, "The engine's address changed.")
	}
	was, is := flagsText(old.EngineArgs), flagsText(new.EngineArgs)
	c.compare("Engine arguments", was, is)
	if was == is && !slices.Equal(old.EngineArgs, new.EngineArgs) {
		*c = append(*c, "Values of engine arguments changed.")
	}
	if !maps.Equal(old.EngineEnv, new.EngineEnv) {
		*c = append(*c, "Environment variables of the engine changed.")
	}
	c.compare("GPU", cmp.Or(old.GPU, "any"), cmp.Or(new.GPU, "any"))
	c.compare("GPUs of each replica", itoa(old.GPUCount), itoa(new.GPUCount))
	c.compare("Context length", orDefault(old.ContextLength), orDefault(new.ContextLength))
	c.compare("Prefix caching", onOff(old.PrefixCaching), onOff(new.PrefixCaching))
}

func (c *sentences) limits(old, new factory.DeploymentSpec) {
	if old.Limits != new.Limits {
		*c = append(*c, "Limits changed.")
	}
	c.compare("Requests at once to a replica", orNoLimit(old.ReplicaConcurrency), orNoLimit(new.ReplicaConcurrency))
}

func (c *sentences) targets(old, new factory.DeploymentSpec) {
	c.compare("Workload", string(old.Workload), string(new.Workload))
	was, is := old.Targets(), new.Targets()
	c.compare("TTFT target", durationText(was.TTFT), durationText(is.TTFT))
	c.compare("ITL target", durationText(was.ITL), durationText(is.ITL))
	c.compare("Output rate target", rateText(was.OutputRate), rateText(is.OutputRate))
	c.compare("Objective", percentText(old.ObjectiveShare()), percentText(new.ObjectiveShare()))
	c.compare("Cost target", old.CostTarget, new.CostTarget)
}

// flagsText names arguments without their values, which may be secrets.
func flagsText(args []string) string {
	var names []string
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(name, "-") {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func priceText(p factory.Price) string {
	if p.Free {
		return "free"
	}
	return fmt.Sprintf("%s / %s / %s %s (input / cached / output)", p.Input, p.CachedInput, p.Output, p.Currency)
}

func durationText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func rateText(r float64) string {
	if r == 0 {
		return "none"
	}
	return fmt.Sprintf("%g tokens/s", r)
}

func percentText(share float64) string { return fmt.Sprintf("%.6g %%", share*100) }

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func orDefault(n int) string {
	if n == 0 {
		return "the model's"
	}
	return itoa(n)
}

func orNoLimit(n int) string {
	if n == 0 {
		return "any number"
	}
	return itoa(n)
}
