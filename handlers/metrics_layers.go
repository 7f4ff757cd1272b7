package handlers

import (
	"context"
	"maps"
	"slices"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
	"tokenfactory/slo"
	"tokenfactory/views/charts"
	tab "tokenfactory/views/metrics"
	"tokenfactory/views/ui"
)

// fill reads all that the tab shows of its window.
func (h *Metrics) fill(ctx context.Context, t *tab.Tab, d deploymentNow) error {
	of := traffic{ReplicaID: t.Query.Replica}
	buckets, err := of.fills(ctx, h.Store, d.ID, ofDeployments, t.Window, t.Now)
	if err != nil {
		return err
	}
	series, err := seriesOf(ofDeployments, t.Window, buckets)
	if err != nil {
		return err
	}
	replicas, err := replicasIn(ctx, h.Store, d.ID, t.Window, t.Now)
	if err != nil {
		return err
	}
	t.Replicas = replicaOptions(d, replicas, t.Query.Replica)
	measured := tab.Measured{Window: t.Window, Now: t.Now, Series: series}
	if measured.Machines, err = h.machines(ctx, d, t.Window, t.Now, t.Query.Replica); err != nil {
		return err
	}
	if t.Verdict, err = h.verdict(ctx, d, measured, t.Query.Replica); err != nil {
		return err
	}
	if of.ReplicaID != "" { // the budget is the whole deployment's
		if buckets, err = (traffic{}).fills(ctx, h.Store, d.ID, slo.Judged, t.Window, t.Now); err != nil {
			return err
		}
	}
	if measured.Budget, err = h.budget(ctx, d.Deployment, t.Window, buckets, t.Now); err != nil {
		return err
	}
	measured.Budget.Narrowed = t.Query.Replica != ""
	if t.Panels, err = h.panels(ctx, d.Deployment, t, of, series); err != nil {
		return err
	}
	if t.Events, err = h.events(ctx, d.ID, t.Window); err != nil {
		return err
	}
	t.Layers, err = tab.Layers(d.Deployment, measured, t.Panels, true)
	return err
}

func (h *Metrics) panels(ctx context.Context, d factory.Deployment, t *tab.Tab, of traffic, series map[metrics.Name]metrics.Series) ([]tab.Panel, error) {
	previous, err := readSummaries(ctx, h.Store, d.ID, of, t.Window.Previous())
	if err != nil {
		return nil, err
	}
	var medians map[metrics.Name][]*float64
	if t.Query.Compared() {
		if medians, err = readMedians(ctx, h.Store, d.ID, of, t.Window, t.Now); err != nil {
			return nil, err
		}
	}
	var out []tab.Panel
	for _, name := range cardNames {
		m, _ := metrics.Find(name)
		if of.TenantID != "" && m.Layer == metrics.InfrastructureLayer {
			continue // engines do not tell tenants apart
		}
		p := tab.Panel{Metric: m, Series: series[name], Previous: previous[name], Before: medians[name], Objective: slo.ObjectiveOf(d.DeploymentSpec, name)}
		if m.Shape == metrics.Gauge && p.Series.Summary.N == 0 {
			if p.Absent, err = h.absent(ctx, d, m, series[metrics.E2E].Summary.N > 0); err != nil {
				return nil, err
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// absent says why a gauge of the engine has no samples.
func (h *Metrics) absent(ctx context.Context, d factory.Deployment, m metrics.Metric, traffic bool) (string, error) {
	last, err := lastAt(ctx, h.Store, d.ID, m.Name)
	if err != nil || last != nil {
		return "", err
	}
	if !traffic {
		return "Not reported yet: the agent reads it from the engine once that runs.", nil
	}
	return "Not reported by this engine. The gateway's figures do not depend on it.", nil
}

// machines reads what the nodes of the replicas that run now say of the GPUs they use.
func (h *Metrics) machines(ctx context.Context, d deploymentNow, w metrics.Window, now time.Time, replica string) ([]tab.Machine, error) {
	used := map[string]map[string]bool{} // node id to the UUIDs of its GPUs
	for _, r := range d.Replicas {
		if r.NodeID == "" || (replica != "" && r.ID != replica) {
			continue
		}
		if used[r.NodeID] == nil {
			used[r.NodeID] = map[string]bool{}
		}
		for _, uuid := range r.GPUUUIDs {
			used[r.NodeID][uuid] = true
		}
	}
	names := namesOf(metrics.NodeLayer)
	var out []tab.Machine
	for _, node := range slices.Sorted(maps.Keys(used)) {
		for _, gpu := range d.Nodes[node].Hardware.GPUs {
			if len(used[node]) > 0 && !used[node][gpu.UUID] {
				continue
			}
			buckets, err := traffic{ReplicaID: gpu.UUID}.fills(ctx, h.Store, node, names, w, now)
			if err != nil {
				return nil, err
			}
			series, err := seriesOf(names, w, buckets)
			if err != nil {
				return nil, err
			}
			out = append(out, tab.Machine{Node: d.Nodes[node].Name, GPU: "GPU " + ui.Count(gpu.Index), Held: used[node][gpu.UUID], Series: series})
		}
	}
	return out, nil
}

// events are what happened to a deployment in a window.
func (h *Metrics) events(ctx context.Context, deploymentID string, w metrics.Window) ([]charts.Event, error) {
	if h.Events == nil {
		return nil, nil
	}
	found, err := h.Events.Events(ctx, deploymentID, w.From, w.To)
	out := make([]charts.Event, len(found))
	for i, e := range found {
		out[i] = charts.Event{At: e.At, Kind: string(e.Kind), Text: e.Text}
	}
	return out, err
}

// replicaOptions are the replicas to choose from: those that are there now, and those that
// were measured and are gone.
func replicaOptions(d deploymentNow, measured map[string]bool, chosen string) []ui.Option {
	out := []ui.Option{{Value: "", Label: "All replicas, merged"}}
	for _, r := range d.Replicas {
		out = append(out, ui.Option{Value: r.ID, Label: ui.MiddleCut(r.ID) + " on " + r.NodeName})
		delete(measured, r.ID)
	}
	if chosen != "" && !slices.ContainsFunc(out, func(o ui.Option) bool { return o.Value == chosen }) {
		measured[chosen] = true
	}
	for _, id := range slices.Sorted(maps.Keys(measured)) {
		out = append(out, ui.Option{Value: id, Label: ui.MiddleCut(id) + ", gone"})
	}
	return out
}
