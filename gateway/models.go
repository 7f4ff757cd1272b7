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
		r, p := table.find(name, x.key.TenantID, x.r.Host)
		if p != nil {
			x.refuse(p)
			return
		}
		x.answer(mustJSON(r.card()))
		return
	}
	list := struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", []modelCard{}}
	for _, name := range table.names {
		if r := table.byName[name]; r.Deployment.SharedWith(x.key.TenantID) && table.reachable(r, x.r.Host) {
			list.Data = append(list.Data, r.card())
		}
	}
	x.answer(mustJSON(list))
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
