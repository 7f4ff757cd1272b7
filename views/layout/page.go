// Package layout is what surrounds every page: navigation, page head, theme,
// and the pages that stand alone.
package layout

import (
	"github.com/a-h/templ"

	"tokenfactory/factory"
	"tokenfactory/views/ui"
	"tokenfactory/web/paths"
)

// Nav is a place in the navigation.
type Nav string

// Places of the operators' navigation, then of a tenant's.
const (
	NavFleet       Nav = "fleet"
	NavEndpoints   Nav = "endpoints"
	NavCatalogue   Nav = "catalogue"
	NavDeployments Nav = "deployments"
	NavAliases     Nav = "aliases"
	NavTenants     Nav = "tenants"
	NavUsage       Nav = "usage"
	NavObjectives  Nav = "objectives"
	NavAlerts      Nav = "alerts"

	NavModels  Nav = "models"
	NavKeys    Nav = "keys"
	NavMembers Nav = "members"

	NavNone Nav = ""
)

// Assets are the addresses of what the browser downloads; they carry a hash of
// the content, so they change with it.
type Assets struct {
	CSS, App, HTMX, Charts, Icon string
}

// Head is the top of a page: where it is, what it shows, and what can be done.
type Head struct {
	Title   string
	Crumbs  []ui.Link
	State   templ.Component // badge beside the title
	Lede    string          // one sentence under the title
	Actions []ui.Action     // the first is the page's primary action
	Menu    []ui.Action     // the rest
	Tabs    []ui.Link
}

// Page is everything about a page but its body.
type Page struct {
	Head
	Assets   Assets
	Active   Nav
	User     factory.User
	Tenants  []factory.Membership
	Tenant   factory.Membership // the tenant whose pages these are; zero for operators
	Theme    string             // light, dark, or empty for the system's
	Flash    string             // told once, after a change
	Charts   bool               // needs the chart library
	Wide     bool               // uses the whole width
	SignedIn bool
	// Spool is told to operators; nil for everybody else.
	Spool *Spool
}

type navItem struct {
	nav   Nav
	label string
	icon  string
	href  string
}

var operatorNav = []navItem{
	{NavFleet, "Fleet", "fleet", paths.Clusters},
	{NavEndpoints, "Endpoints", "endpoint", paths.Endpoints},
	{NavCatalogue, "Catalogue", "catalogue", paths.Models},
	{NavDeployments, "Deployments", "deployment", paths.Deployments},
	{NavAliases, "Aliases", "share", paths.Aliases},
	{NavTenants, "Tenants", "tenant", paths.Tenants},
	{NavUsage, "Usage", "usage", paths.Usage},
	{NavObjectives, "Objectives", "target", paths.Objectives},
	{NavAlerts, "Alerts", "bell", paths.Alerts},
}

func tenantNav(name string) []navItem {
	return []navItem{
		{NavModels, "Models", "deployment", paths.OwnModels(name)},
		{NavKeys, "Keys", "key", paths.OwnKeys(name)},
		{NavUsage, "Usage", "usage", paths.OwnUsage(name)},
		{NavMembers, "Members", "members", paths.OwnMembers(name)},
	}
}

func (p Page) nav() []navItem {
	switch {
	case p.Tenant.TenantName != "":
		return tenantNav(p.Tenant.TenantName)
	case p.User.Operator:
		return operatorNav
	default:
		return nil
	}
}

// tenantTitle is how a tenant is called to people.
func tenantTitle(m factory.Membership) string {
	if m.TenantTitle != "" {
		return m.TenantTitle
	}
	return m.TenantName
}

// place is what stands under the product's name.
func (p Page) place() string {
	switch {
	case p.Tenant.TenantName != "":
		return tenantTitle(p.Tenant)
	case p.User.Operator:
		return "Operations"
	default:
		return ""
	}
}

// elsewhere are the other consoles this person may go to.
func (p Page) elsewhere() []ui.Link {
	var out []ui.Link
	if p.User.Operator && p.Tenant.TenantName != "" {
		out = append(out, ui.Link{Label: "Operations", Href: paths.Deployments})
	}
	for _, m := range p.Tenants {
		if m.TenantID != p.Tenant.TenantID {
			out = append(out, ui.Link{Label: tenantTitle(m), Href: paths.Own(m.TenantName)})
		}
	}
	return out
}

func (p Page) documentTitle() string {
	if p.Title == "" {
		return "Token Factory"
	}
	return p.Title + " · Token Factory"
}

func (p Page) userName() string {
	if p.User.Name != "" {
		return p.User.Name
	}
	return p.User.Email
}

// htmxConfig: the answers of failed requests are swapped, but the server aims them at
// the place for problems; see web/respond.
const htmxConfig = `{"includeIndicatorCSS":false,"noSwap":[204,304],"defaultTimeout":20000,"morphIgnore":["data-htmx-powered","open"]}`
