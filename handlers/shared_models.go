package handlers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/views/layout"
	"tokenfactory/views/shared"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
	"tokenfactory/web/respond"
	"tokenfactory/web/session"
)

// SharedModels is a tenant's own page of the models it may use.
type SharedModels struct {
	Store     *store.Store
	PublicURL string
	Now       func() time.Time
}

// Home leads to the first of a tenant's pages.
func (h *SharedModels) Home(c echo.Context) error {
	return respond.Redirect(c, paths.OwnModels(session.Tenant(c).TenantName))
}

// List shows the models that are shared with the tenant, those that serve first.
func (h *SharedModels) List(c echo.Context) error {
	t := session.Tenant(c)
	cards, err := sharedCards(c, h.Store, h.PublicURL, h.Now())
	if err != nil {
		return err
	}
	aliases, err := h.Store.Aliases(c.Request().Context(), t.TenantID)
	if err != nil {
		return err
	}
	return respond.Page(c, respond.View{
		Title: "Models", Active: layout.NavModels,
		Lede:    "What is shared with " + t.TenantTitle + ". Send the name as the model in any OpenAI client.",
		Actions: []ui.Action{{Label: "Create a key", Icon: "key", Href: paths.OwnKeys(t.TenantName), Primary: true}},
		Body:    shared.Models(cards, otherNames(aliases, cards), t.TenantName),
	})
}

// otherNames are aliases in the words of the models that the tenant sees. Shares are
// parts of what it can reach.
func otherNames(aliases []factory.Alias, cards []shared.Card) []shared.Alias {
	models := map[string]string{}
	for _, m := range cards {
		models[m.ID] = m.PublicName
	}
	out := make([]shared.Alias, len(aliases))
	for i, a := range aliases {
		out[i].Name = a.Name
		sum := 0
		for _, t := range a.Targets {
			sum += t.Weight
		}
		for _, t := range a.Targets {
			x := shared.AliasTarget{Model: models[t.DeploymentID]}
			if len(a.Targets) > 1 && sum > 0 {
				x.Share = ui.Percent(100 * float64(t.Weight) / float64(sum))
			}
			out[i].Targets = append(out[i].Targets, x)
		}
		for _, t := range a.Fallbacks {
			out[i].Fallbacks = append(out[i].Fallbacks, models[t.DeploymentID])
		}
	}
	return out
}

// sharedCards are the models of the tenant in the address, those that serve first.
func sharedCards(c echo.Context, s *store.Store, publicURL string, now time.Time) ([]shared.Card, error) {
	ctx := c.Request().Context()
	mine, err := s.DeploymentsOf(ctx, session.TenantID(c))
	if err != nil {
		return nil, err
	}
	fleet, err := readFleet(ctx, s, now)
	if err != nil {
		return nil, err
	}
	endpoints, err := s.AllEndpoints(ctx)
	if err != nil {
		return nil, err
	}
	byEndpoint := map[string]factory.Endpoint{}
	for _, e := range endpoints {
		byEndpoint[e.ID] = e
	}
	cards := make([]shared.Card, len(mine))
	for i, d := range mine {
		cards[i] = shared.Card{Deployment: d, BaseURL: byEndpoint[d.EndpointID].BaseURL(baseURL(c, publicURL))}
		cards[i].State, _ = d.Status(fleet.replicasOf(d.ID), fleet.silent)
	}
	slices.SortStableFunc(cards, func(a, b shared.Card) int {
		return cmp.Or(cmp.Compare(idle(a.State), idle(b.State)), strings.Compare(a.PublicName, b.PublicName))
	})
	return cards, nil
}

// idle sorts what answers before what does not.
func idle(s factory.State) int {
	if s == factory.Ready || s == factory.Degraded {
		return 0
	}
	return 1
}
