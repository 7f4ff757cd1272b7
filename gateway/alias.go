package gateway

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"tokenfactory/factory"
)

// alias leads from a name to several deployments.
type alias struct {
	factory.Alias
	nameJSON  string
	targets   []target // with a weight
	fallbacks []*route
}

type target struct {
	*route
	weight float64
}

func newAlias(fa factory.Alias, byID map[string]*route) *alias {
	a := &alias{Alias: fa, nameJSON: string(mustJSON(fa.Name))}
	for _, t := range fa.Targets {
		if r := byID[t.DeploymentID]; r != nil && t.Weight > 0 {
			a.targets = append(a.targets, target{r, float64(t.Weight)})
		}
	}
	for _, t := range fa.Fallbacks {
		if r := byID[t.DeploymentID]; r != nil {
			a.fallbacks = append(a.fallbacks, r)
		}
	}
	return a
}

// routes are the deployments behind an alias that a tenant may use, in the order in
// which they are tried: targets by weight, then fallbacks. A conversation that is
// long enough to have a hash stays with its target; others are spread at random, so
// that many equal short prompts do not all go to one.
//
// Each target draws a number from the conversation's hash and its own, raised to
// the power of 1/weight; the highest is first. So shares are as the weights, and a
// change of one weight moves only the conversations that it has to.
func (t *routeTable) routes(a *alias, tenantID, host string, conversation uint64) []*route {
	if conversation == 0 {
		conversation = rand.Uint64()
	}
	type draw struct {
		*route
		score float64
	}
	draws := make([]draw, 0, len(a.targets))
	for _, at := range a.targets {
		if t.usable(at.route, tenantID, host) {
			u := (float64(mix(conversation^at.hash)>>11) + 0.5) / (1 << 53)
			draws = append(draws, draw{at.route, math.Log(u) / at.weight})
		}
	}
	slices.SortStableFunc(draws, func(a, b draw) int { return cmp.Compare(b.score, a.score) })
	list := make([]*route, 0, len(draws)+len(a.fallbacks))
	for _, d := range draws {
		list = append(list, d.route)
	}
	for _, r := range a.fallbacks {
		if t.usable(r, tenantID, host) && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// downLast moves deployments that do not answer behind the others: who has a choice
// does not pay for finding out that one is still down.
func downLast(routes []*route) []*route {
	if len(routes) < 2 {
		return routes
	}
	up := routes[:0]
	var down []*route
	for _, r := range routes {
		if r.pool.down() {
			down = append(down, r)
		} else {
			up = append(up, r)
		}
	}
	return append(up, down...)
}
