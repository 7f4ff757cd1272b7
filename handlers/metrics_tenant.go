package handlers

import (
	"context"
	"slices"
	"strings"

	"tokenfactory/metrics"
	"tokenfactory/store"
	tab "tokenfactory/views/metrics"
	"tokenfactory/views/ui"
)

// narrow finds whose requests an operator asks for: of a tenant, by id or name, or of one
// of its keys. A key alone leads to its tenant; with another tenant beside it there is none.
func narrow(ctx context.Context, s *store.Store, tenant, keyID string) (traffic, error) {
	switch {
	case tenant != "":
		t, err := findTenant(ctx, s, tenant)
		if err != nil {
			return traffic{}, err
		}
		return ofKey(ctx, s, t.ID, keyID)
	case keyID != "":
		k, err := anyKey(ctx, s, keyID)
		return traffic{TenantID: k.TenantID, KeyID: k.ID}, err
	}
	return traffic{}, nil
}

// ofKey is a tenant's traffic, or with an id that of one of its keys.
func ofKey(ctx context.Context, s *store.Store, tenantID, keyID string) (traffic, error) {
	if keyID != "" {
		if _, err := s.Key(ctx, tenantID, keyID); err != nil {
			return traffic{}, err
		}
	}
	return traffic{TenantID: tenantID, KeyID: keyID}, nil
}

// narrowedTo is the traffic that the tab is asked for. What a tenant did is not kept by
// replica, so beside a tenant the replica is dropped.
func narrowedTo(ctx context.Context, s *store.Store, q *tab.Query) (traffic, error) {
	of, err := narrow(ctx, s, q.Tenant, q.Key)
	if err != nil {
		return of, err
	}
	if q.Tenant = of.TenantID; q.Tenant != "" {
		q.Replica = ""
	}
	of.ReplicaID = q.Replica
	return of, nil
}

// fillOfTenant reads what the tab shows of one tenant's requests: engines do not tell
// tenants apart, so there is nothing of them and of machines.
func (h *Metrics) fillOfTenant(ctx context.Context, t *tab.Tab, of traffic) error {
	d := t.Deployment
	names := namesOf(metrics.UserLayer, metrics.WorkloadLayer)
	buckets, err := of.fills(ctx, h.Store, d.ID, names, t.Window, t.Now)
	if err != nil {
		return err
	}
	series, err := seriesOf(names, t.Window, buckets)
	if err != nil {
		return err
	}
	if t.Panels, err = h.panels(ctx, d, t, of, series); err != nil {
		return err
	}
	last, err := h.Store.TenantLastAt(ctx, of.TenantID, d.ID, of.KeyID, metrics.E2E)
	if exists, err := found(err); err != nil {
		return err
	} else if exists {
		t.LastRequest = &last
	}
	// On a tenant's own page there are none: they name settings, replicas and alerts, which
	// are the operators', and a deployment that is woken was asked by somebody else.
	if !t.Query.Own() {
		if t.Events, err = h.events(ctx, d.ID, t.Window); err != nil {
			return err
		}
	}
	t.Layers, err = tab.Layers(d, tab.Measured{Window: t.Window, Now: t.Now, Series: series, OneTenant: true}, t.Panels, false)
	return err
}

// tenantChoices are the tenants that were measured in the window and, of the one that is
// chosen, its keys. What is chosen is always among them.
func tenantChoices(ctx context.Context, s *store.Store, t *tab.Tab) error {
	measured, err := s.DeploymentKeysMeasured(ctx, t.Deployment.ID, t.Window.From, t.Window.To)
	if err != nil {
		return err
	}
	n, err := readNames(ctx, s)
	if err != nil {
		return err
	}
	var tenants, keys []string
	for _, m := range measured {
		tenants = append(tenants, m.TenantID)
		if m.TenantID == t.Query.Tenant {
			keys = append(keys, m.KeyID)
		}
	}
	t.Tenants, t.TenantName = choices("Everybody", tenants, t.Query.Tenant, n.tenants)
	if t.Query.Tenant != "" {
		t.Keys, t.KeyName = choices("All its keys", keys, t.Query.Key, n.keys)
	}
	return nil
}

// choices are options of what ids stand for, by name, and the name of the one chosen.
func choices(all string, ids []string, chosen string, names map[string]string) ([]ui.Option, string) {
	out := []ui.Option{{Value: "", Label: all}}
	name := ""
	if chosen != "" {
		ids, name = append(ids, chosen), nameOf(names, chosen)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		out = append(out, ui.Option{Value: id, Label: nameOf(names, id)})
	}
	slices.SortStableFunc(out[1:], func(a, b ui.Option) int { return strings.Compare(a.Label, b.Label) })
	return out, name
}
