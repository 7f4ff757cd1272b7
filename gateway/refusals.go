package gateway

import (
	"context"
	"sync"
	"time"

	"tokenfactory/factory"
)

// RefusalCounts takes in how many requests limits kept out, to be added to what is
// there.
type RefusalCounts interface {
	AddRefusals(ctx context.Context, rows []factory.Refusals) error
}

const (
	refusalQuarter = 15 * time.Minute
	refusalsEvery  = time.Second
	// refusalsMost bounds what waits while the store is away.
	refusalsMost = 20_000
)

// refusals counts, until the store has the counts.
type refusals struct {
	mu     sync.Mutex
	counts map[factory.Refusals]int64 // Count is zero in the key
	lost   int64
}

// keptOut is what a refusal by a limit counts as. It counts once the client is told,
// not when another deployment serves the request.
type keptOut struct {
	scope        factory.Scope
	kind         factory.LimitKind
	deploymentID string
}

func (x *exchange) keptOut(p *problem, c *Claim) *problem {
	p.kept = &keptOut{c.Scope, c.Kind, x.route.Deployment.ID}
	return p
}

// countRefusal notes that a limit kept the request out.
func (x *exchange) countRefusal(k *keptOut) {
	x.g.telemetry.limit(k.scope, k.kind)
	x.g.refused.add(factory.Refusals{
		QuarterStart: x.g.Now().UTC().Truncate(refusalQuarter), TenantID: x.key.TenantID, KeyID: x.key.ID,
		DeploymentID: k.deploymentID, Scope: k.scope, Kind: k.kind, Count: 1,
	})
}

func (r *refusals) add(row factory.Refusals) {
	n := row.Count
	row.Count = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[factory.Refusals]int64{}
	}
	if _, known := r.counts[row]; !known && len(r.counts) >= refusalsMost {
		r.lost += n
		return
	}
	r.counts[row] += n
}

func (r *refusals) take() (rows []factory.Refusals, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows = make([]factory.Refusals, 0, len(r.counts))
	for row, n := range r.counts {
		row.Count = n
		rows = append(rows, row)
	}
	lost, r.lost, r.counts = r.lost, 0, nil
	return rows, lost
}

// flushRefusals carries counts to the store until ctx ends.
func (g *Gateway) flushRefusals(ctx context.Context) {
	tick := time.NewTicker(refusalsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := g.saveRefusals(ctx); err != nil && ctx.Err() == nil {
				g.Log.Warn("save refusals; they are kept", "err", err)
			}
		}
	}
}

func (g *Gateway) saveRefusals(ctx context.Context) error {
	rows, lost := g.refused.take()
	if lost > 0 {
		g.Log.Error("refusals could not be kept while the store was away", "requests", lost)
	}
	if len(rows) == 0 || g.RefusalCounts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	err := g.RefusalCounts.AddRefusals(ctx, rows)
	if err != nil {
		for _, row := range rows {
			g.refused.add(row)
		}
	}
	return err
}
