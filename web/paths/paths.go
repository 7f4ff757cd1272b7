// Package paths is every address of the console as a function, so that a link
// that leads nowhere does not compile. Patterns for the router stand beside them.
package paths

import "net/url"

// Public and personal pages.
const (
	Home            = "/"
	SignIn          = "/signin"
	SignOut         = "/signout"
	SignOutAll      = "/signout/everywhere"
	Setup           = "/setup"
	Account         = "/account"
	AccountPassword = "/account/password"
	Theme           = "/preferences/theme"
	Static          = "/static"
	Health          = "/healthz"
)

// Scrape is where Prometheus reads the gateway's own metrics.
const Scrape = "/metrics"

// Mounted bare, without the console's middleware.
const (
	Gateway = "/v1"
	Agents  = "/agent/v1"
	API     = "/api/v1"
)

// Collections that operators work on.
const (
	Clusters      = "/clusters"
	NewCluster    = "/clusters/new"
	Endpoints     = "/endpoints"
	NewEndpoint   = "/endpoints/new"
	Providers     = "/providers"
	NewProvider   = "/providers/new"
	Models        = "/models"
	NewModel      = "/models/new"
	Deployments   = "/deployments"
	NewDeployment = "/deployments/new"
	Aliases       = "/aliases"
	NewAlias      = "/aliases/new"
	Tenants       = "/tenants"
	NewTenant     = "/tenants/new"
	Usage         = "/usage"
	UsageCSV      = "/usage.csv"
	Requests      = "/usage/requests"
	Objectives    = "/objectives"
	ObjectivesCSV = "/objectives.csv"
	Alerts        = "/alerts"
	Silences      = "/alerts/silences"
	NewSilence    = "/alerts/silences/new"
	Channels      = "/alerts/channels"
	NewChannel    = "/alerts/channels/new"
)

// join escapes ids and names, so that a slash in one cannot become another page.
func join(base string, parts ...string) string {
	for _, p := range parts {
		base += "/" + url.PathEscape(p)
	}
	return base
}

// With adds a query to a path; empty values are left out.
func With(path string, query url.Values) string {
	for k, v := range query {
		if len(v) == 0 || (len(v) == 1 && v[0] == "") {
			query.Del(k)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func SetupWith(token string) string { return Setup + "?token=" + url.QueryEscape(token) }
func SignInTo(next string) string   { return SignIn + "?next=" + url.QueryEscape(next) }

func Cluster(id string) string           { return join(Clusters, id) }
func EditCluster(id string) string       { return join(Clusters, id, "edit") }
func RemoveCluster(id string) string     { return join(Clusters, id, "remove") }
func ClusterTokens(id string) string     { return join(Clusters, id, "tokens") }
func ClusterToken(id, t string) string   { return join(Clusters, id, "tokens", t) }
func RemoveToken(id, t string) string    { return join(Clusters, id, "tokens", t, "remove") }
func Node(id, node string) string        { return join(Clusters, id, "nodes", node) }
func RemoveNode(id, node string) string  { return join(Clusters, id, "nodes", node, "remove") }
func Endpoint(id string) string          { return join(Endpoints, id) }
func EditEndpoint(id string) string      { return join(Endpoints, id, "edit") }
func RemoveEndpoint(id string) string    { return join(Endpoints, id, "remove") }
func Provider(id string) string          { return join(Providers, id) }
func EditProvider(id string) string      { return join(Providers, id, "edit") }
func RemoveProvider(id string) string    { return join(Providers, id, "remove") }
func Model(id string) string             { return join(Models, id) }
func EditModel(id string) string         { return join(Models, id, "edit") }
func RemoveModel(id string) string       { return join(Models, id, "remove") }
func NewModelFrom(builtIn string) string { return NewModel + "?from=" + url.QueryEscape(builtIn) }

func Deployment(id string) string           { return join(Deployments, id) }
func DeploymentMetricsCSV(id string) string { return join(Deployments, id, "metrics.csv") }
func DeploymentMetrics(id string) string    { return join(Deployments, id, "metrics") }
func DeploymentReplicas(id string) string   { return join(Deployments, id, "replicas") }
func DeploymentSettings(id string) string   { return join(Deployments, id, "settings") }
func StopDeployment(id string) string       { return join(Deployments, id, "stop") }
func StartDeployment(id string) string      { return join(Deployments, id, "start") }
func RestartDeployment(id string) string    { return join(Deployments, id, "restart") }
func SleepDeployment(id string) string      { return join(Deployments, id, "sleep") }
func WakeDeployment(id string) string       { return join(Deployments, id, "wake") }
func RemoveDeployment(id string) string     { return join(Deployments, id, "remove") }

func Alert(id string) string         { return join(Alerts, id) }
func EndSilence(id string) string    { return join(Silences, id, "end") }
func Channel(id string) string       { return join(Channels, id) }
func EditChannel(id string) string   { return join(Channels, id, "edit") }
func SwitchChannel(id string) string { return join(Channels, id, "switch") }
func TestChannel(id string) string   { return join(Channels, id, "test") }
func RemoveChannel(id string) string { return join(Channels, id, "remove") }

func Alias(id string) string       { return join(Aliases, id) }
func EditAlias(id string) string   { return join(Aliases, id, "edit") }
func RemoveAlias(id string) string { return join(Aliases, id, "remove") }

func Tenant(id string) string             { return join(Tenants, id) }
func EditTenant(id string) string         { return join(Tenants, id, "edit") }
func RemoveTenant(id string) string       { return join(Tenants, id, "remove") }
func Members(id string) string            { return join(Tenants, id, "members") }
func RemoveMember(id, user string) string { return join(Tenants, id, "members", user, "remove") }
func SaveMember(id, user string) string   { return join(Tenants, id, "members", user) }
func Keys(id string) string               { return join(Tenants, id, "keys") }
func Key(id, key string) string           { return join(Tenants, id, "keys", key) }
func RevokeKey(id, key string) string     { return join(Tenants, id, "keys", key, "revoke") }

// The pages of a tenant's members; tenants are named in them.
func Own(tenant string) string       { return join("/t", tenant) }
func OwnModels(tenant string) string { return join("/t", tenant, "models") }
func OwnMetrics(tenant, deployment string) string {
	return join("/t", tenant, "models", deployment, "metrics")
}
func OwnMetricsCSV(tenant, deployment string) string {
	return join("/t", tenant, "models", deployment, "metrics.csv")
}
func OwnKeys(tenant string) string             { return join("/t", tenant, "keys") }
func OwnKey(tenant, key string) string         { return join("/t", tenant, "keys", key) }
func OwnRevokeKey(tenant, key string) string   { return join("/t", tenant, "keys", key, "revoke") }
func OwnUsage(tenant string) string            { return join("/t", tenant, "usage") }
func OwnUsageCSV(tenant string) string         { return join("/t", tenant, "usage.csv") }
func OwnRequests(tenant string) string         { return join("/t", tenant, "usage", "requests") }
func OwnMembers(tenant string) string          { return join("/t", tenant, "members") }
func OwnSaveMember(tenant, user string) string { return join("/t", tenant, "members", user) }
func OwnRemoveMember(tenant, user string) string {
	return join("/t", tenant, "members", user, "remove")
}

// The JSON API.
func APIMetrics(deployment string) string { return join(API, "deployments", deployment, "metrics") }
func APIMetricsCSV(deployment string) string {
	return join(API, "deployments", deployment, "metrics.csv")
}
