package gateway

import (
	"net/http"
	"strconv"
)

// modelCard is one entry of /v1/models, as OpenAI and vLLM write it.
type modelCard struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
}

// models answers the list, or one entry by its name, slashes and all. A tenant
// sees what it may use, whether or not a replica is ready.
func (x *exchange) models(name string) {
	table, p := x.g.routes.table(x.g)
	if p != nil {
		x.refuse(p)
		return
	}
	if name != "" {
		c, ok := table.card(name, x.key.TenantID, x.r.Host)
		if !ok {
			x.refuse(unknownModel(name))
			return
		}
		x.answer(mustJSON(c))
		return
	}
	list := struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", []modelCard{}}
	for _, name := range table.names {
		if c, ok := table.card(name, x.key.TenantID, x.r.Host); ok {
			list.Data = append(list.Data, c)
		}
	}
	x.answer(mustJSON(list))
}

// card is the entry of a deployment or an alias that the tenant may use.
func (t *routeTable) card(name, tenantID, host string) (modelCard, bool) {
	if r := t.find(name, tenantID, host); r != nil {
		return r.card(), true
	}
	a := t.aliases[name]
	if a == nil {
		return modelCard{}, false
	}
	routes := t.routes(a, tenantID, host, 1)
	if len(routes) == 0 {
		return modelCard{}, false
	}
	c := routes[0].card()
	for _, r := range routes[1:] {
		// What fits into all of them.
		if most := r.card().MaxModelLen; most > 0 && (c.MaxModelLen == 0 || most < c.MaxModelLen) {
			c.MaxModelLen = most
		}
	}
	c.ID, c.Created = a.Name, a.CreatedAt.Unix()
	return c, true
}

func (r *route) card() modelCard {
	d := &r.Deployment
	c := modelCard{ID: r.name, Object: "model", Created: d.CreatedAt.Unix(), OwnedBy: d.LLM.ProviderName, MaxModelLen: d.ContextLength}
	if c.OwnedBy == "" {
		c.OwnedBy = "tokenfactory"
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = d.LLM.ContextLength
	}
	return c
}

func (x *exchange) answer(body []byte) {
	h := x.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.started = true
	x.w.WriteHeader(http.StatusOK)
	// A client that left does not need it.
	_ = x.write(body)
}
